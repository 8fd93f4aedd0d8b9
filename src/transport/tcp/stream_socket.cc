#include "transport/tcp/stream_socket.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/check.h"

namespace ramcore::transport::tcp {
namespace {

Error lastError() { return {errno, boost::system::system_category()}; }

}  // namespace

size_t StreamSocket::readSome(MutableByteSpan room, Error& error) {
  const ssize_t count = ::recv(fd_, room.data(), room.size(), 0);
  if (count > 0) {
    error = {};
    return static_cast<size_t>(count);
  }
  error = count < 0 ? lastError() : Error(asio::error::eof);
  return 0;
}

size_t StreamSocket::writeSome(std::span<const ByteSpan> pieces, Error& error) {
  ssize_t count = 0;
  if (pieces.size() == 1) {
    count = ::send(fd_, pieces[0].data(), pieces[0].size(), MSG_NOSIGNAL);
  } else {
    RC_DCHECK(pieces.size() <= kPiecesMax);
    std::array<iovec, kPiecesMax> vectors;
    for (size_t i = 0; i < pieces.size(); ++i) {
      vectors[i] = {const_cast<std::byte*>(pieces[i].data()), pieces[i].size()};
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = pieces.size();
    count = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
  }
  error = count < 0 ? lastError() : Error();
  return count < 0 ? 0 : static_cast<size_t>(count);
}

void StreamSocket::shutDownSend() { (void)::shutdown(fd_, SHUT_WR); }

void StreamSocket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace ramcore::transport::tcp
