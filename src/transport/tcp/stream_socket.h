#pragma once

#include <span>

#include "base/bytes.h"
#include "transport/os/descriptor.h"
#include "transport/session/accepting.h"
#include "transport/tcp/asio.h"

namespace ramcore::transport::tcp {

/// A connected socket that never blocks. It is not in the set of Asio's reactor, where every packet that comes would
/// wake a second wait queue.
class StreamSocket {
 public:
  StreamSocket() = default;
  explicit StreamSocket(int fd) : fd_(fd) {}
  StreamSocket(const StreamSocket&) = delete;
  StreamSocket& operator=(const StreamSocket&) = delete;
  StreamSocket(StreamSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  StreamSocket& operator=(StreamSocket&& other) noexcept {
    if (this != &other) close();
    if (this != &other) fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  ~StreamSocket() { close(); }

  bool isOpen() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  /// Reads what the kernel has, as far as there is room. At the end of the stream the error is asio::error::eof.
  size_t readSome(MutableByteSpan room, Error& error);
  /// Writes as much as the kernel takes, of at most kPiecesMax pieces.
  static constexpr size_t kPiecesMax = 64;
  size_t writeSome(std::span<const ByteSpan> pieces, Error& error);
  size_t writeSome(ByteSpan bytes, Error& error) { return writeSome(std::span(&bytes, 1), error); }
  void shutDownSend();
  void close();

 private:
  int fd_ = -1;
};

// These functions make sockets without Asio, whose sockets would be inherited by programs that this process starts.

/// Makes a socket for addresses of this family that never blocks and is closed by exec. Empty on failure: see errno.
Descriptor makeStreamSocket(const Tcp::endpoint& address);
/// Makes such a socket that listens at `address`.
Descriptor listenAt(const Tcp::endpoint& address, int backlog, Error& error);
/// The local address of a socket.
Tcp::endpoint localAddress(int socket);

/// Accepts the next connection that waits (acceptNext()).
Accepted acceptFrom(int listener, Descriptor& socket, Tcp::endpoint& from);

}  // namespace ramcore::transport::tcp
