#include "transport/os/stream_io.h"

#include <sys/socket.h>

#include <cerrno>

namespace ramcore::transport {

StreamLook receiveSome(int fd, MutableByteSpan into, size_t& received_bytes) {
  received_bytes = 0;
  ssize_t got = 0;
  do {
    got = ::recv(fd, into.data(), into.size(), MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    received_bytes = static_cast<size_t>(got);
    return StreamLook::Bytes;
  }
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? StreamLook::Nothing : StreamLook::Ended;
}

bool sendSome(int fd, ByteSpan bytes, size_t& sent_bytes) {
  sent_bytes = 0;
  while (sent_bytes < bytes.size()) {
    const ssize_t sent = ::send(fd, bytes.data() + sent_bytes, bytes.size() - sent_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    sent_bytes += static_cast<size_t>(sent);
  }
  return true;
}

}  // namespace ramcore::transport
