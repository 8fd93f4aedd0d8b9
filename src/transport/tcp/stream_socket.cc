#include "transport/tcp/stream_socket.h"

#include <netinet/in.h>
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

Descriptor makeStreamSocket(const Tcp::endpoint& address) {
  return Descriptor(::socket(address.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
}

Descriptor listenAt(const Tcp::endpoint& address, int backlog, Error& error) {
  Descriptor socket = makeStreamSocket(address);
  const int on = 1;
  const int off = 0;
  // A socket that listens at all addresses of IPv6 accepts IPv4 too, whatever the system's default is.
  const bool is_of_both = address.address().is_v6() && address.address().is_unspecified();
  if (!socket || (is_of_both && ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0) ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(socket.get(), address.data(), static_cast<socklen_t>(address.size())) != 0 ||
      ::listen(socket.get(), backlog) != 0) {
    error = lastError();
    return {};
  }
  error = {};
  return socket;
}

Tcp::endpoint localAddress(int socket) {
  Tcp::endpoint address;
  auto bytes = static_cast<socklen_t>(address.capacity());
  if (::getsockname(socket, address.data(), &bytes) == 0) address.resize(bytes);
  return address;
}

Accepted acceptFrom(int listener, Descriptor& socket, Tcp::endpoint& from) {
  auto bytes = static_cast<socklen_t>(from.capacity());
  const Accepted accepted = acceptNext(listener, socket, from.data(), &bytes);
  if (accepted == Accepted::Yes) from.resize(bytes);
  return accepted;
}

void StreamSocket::shutDownSend() { (void)::shutdown(fd_, SHUT_WR); }

void StreamSocket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace ramcore::transport::tcp
