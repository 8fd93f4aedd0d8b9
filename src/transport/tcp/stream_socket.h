#pragma once

#include <span>

#include "base/bytes.h"
#include "transport/os/descriptor.h"
#include "transport/session/accepting.h"
#include "transport/tcp/asio.h"

namespace ramcore::transport::tcp {

/// A connected socket that never blocks, taken over from Asio: in the set of Asio's reactor every packet that comes
/// would wake a second wait queue.
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

  /// What the kernel has, up to the room there is; at the end of the stream asio::error::eof.
  size_t readSome(MutableByteSpan room, Error& error);
  /// What the kernel takes, at most kPiecesMax pieces.
  static constexpr size_t kPiecesMax = 64;
  size_t writeSome(std::span<const ByteSpan> pieces, Error& error);
  size_t writeSome(ByteSpan bytes, Error& error) { return writeSome(std::span(&bytes, 1), error); }
  void shutDownSend();
  void close();

 private:
  int fd_ = -1;
};

// Asio's own calls make sockets that a program started by this process would have as well.

/// A socket for addresses like this one that never blocks and is closed over exec. None: see errno.
Descriptor makeStreamSocket(const Tcp::endpoint& address);
/// One that listens there.
Descriptor listenAt(const Tcp::endpoint& address, int backlog, Error& error);
/// The address that it has.
Tcp::endpoint localAddress(int socket);

/// The next connection that waits.
Accepted acceptFrom(int listener, Descriptor& socket, Tcp::endpoint& from);

}  // namespace ramcore::transport::tcp
