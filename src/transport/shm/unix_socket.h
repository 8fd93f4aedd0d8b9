#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "transport/os/descriptor.h"
#include "transport/os/stream_io.h"
#include "transport/session/accepting.h"

namespace ramcore::transport::shm {

/// A listening UNIX socket with its file. While it lives, a lock on `<path>.lock` says that the path is taken; the lock
/// dies with the process, so that a file left by a dead one is told from one in use.
class ListeningSocket {
 public:
  ListeningSocket() = default;
  ListeningSocket(ListeningSocket&& other) noexcept = default;
  ListeningSocket& operator=(ListeningSocket&& other) noexcept = default;
  ~ListeningSocket();

  /// Binds to `path`, which only this user may then connect to. A socket file without a process behind it is replaced.
  /// Failure: InUse: a process listens there, or the file is no socket; BadConfig: the path is too long or its folder
  /// does not exist; IoError.
  static Outcome<ListeningSocket> open(const std::string& path);

  int fd() const { return socket_.get(); }
  /// The next connection that waits. Never blocks.
  Accepted accept(Descriptor& socket) const { return acceptNext(socket_.get(), socket); }

 private:
  std::string path_;
  Descriptor lock_;
  Descriptor socket_;
};

/// Removes the socket file of a process that has died, and its lock. False: there is none, or it is in use.
bool removeDeadSocket(const std::string& path);

/// True if the file at `path` is another user's, and with it the process that listens there.
bool belongsToAnotherUser(const std::string& path);

/// Starts to connect; never blocks. Failure: Unreachable, with cause and remedy.
Outcome<Descriptor> connectTo(const std::string& path);

/// True if the process at the other end runs as `user`, by what the kernel says.
bool isSameUser(const ucred& peer, uid_t user);
/// Reads the peer's credentials and applies isSameUser to them and the own effective user.
bool peerIsSameUser(int fd, std::string& description);

/// As receiveSome (transport/os/stream_io.h), and takes one descriptor if it comes with the bytes; more than one counts
/// as the end of the stream.
StreamLook receiveWithDescriptor(int fd, MutableByteSpan into, size_t& received_bytes, Descriptor& descriptor);
/// Sends `bytes` (a few) and a descriptor; false if the stream is broken or has no room for them.
[[nodiscard]] bool sendWithDescriptor(int fd, ByteSpan bytes, int descriptor);
/// The only byte that is sent on the socket of an open session.
inline constexpr std::byte kWakeUpByte{'w'};
/// Sends the byte that wakes the peer. A full socket is fine: then the peer has not looked yet.
void sendWakeUp(int fd);

}  // namespace ramcore::transport::shm
