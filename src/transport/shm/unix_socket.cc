#include "transport/shm/unix_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "base/mutation.h"
#include "transport/session/open_failure.h"

namespace ramcore::transport::shm {
namespace {

constexpr int kBacklogConnections = 128;

Failure failed(Status status, const std::string& path, std::string_view what) {
  return Failure{status, "cannot listen at shm://" + path + ": " + std::string(what)};
}

Failure failedByErrno(const std::string& path, std::string_view what) {
  return failed(Status::IoError, path, std::string(what) + ": " + std::strerror(errno));
}

bool toAddress(const std::string& path, sockaddr_un& address) {
  address = sockaddr_un{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  return true;
}

Descriptor makeSocket() { return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

// Takes the lock file of `path`. The file may be removed by its last owner between our open and our lock: then the lock
// is on a file that no other process finds any more, and keeps nobody out.
Result<Descriptor, Failure> takeLock(const std::string& path) {
  const std::string lock_path = path + ".lock";
  for (int attempt = 0; attempt < 10; ++attempt) {
    Descriptor lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock) {
      const Status status = errno == ENOENT || errno == ENOTDIR ? Status::BadConfig : Status::IoError;
      return failed(status, path, "'" + lock_path + "': " + std::strerror(errno) + "; its folder must exist");
    }
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      return failed(Status::InUse, path, "another process listens there; stop it or choose another path");
    }
    struct stat ours{};
    struct stat named{};
    if (::fstat(lock.get(), &ours) == 0 && ::stat(lock_path.c_str(), &named) == 0 && ours.st_ino == named.st_ino &&
        ours.st_dev == named.st_dev) {
      return lock;
    }
  }
  return failed(Status::InUse, path, "other processes keep taking and leaving it");
}

// Removes a socket file that no process listens at. Called with the lock held.
Outcome<bool> removeStale(const std::string& path, const sockaddr_un& address) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return true;
  if (!S_ISSOCK(status.st_mode)) {
    return failed(Status::InUse, path, "a file that is no socket is there; remove it or choose another path");
  }
  const Descriptor probe = makeSocket();
  if (!probe) return failedByErrno(path, "socket");
  const int outcome = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  // Only this answer says that there is no listener.
  if (outcome == 0 || errno != ECONNREFUSED) {
    return failed(Status::InUse, path, "another process listens there; stop it or choose another path");
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return failedByErrno(path, "cannot remove the old socket file");
  return true;
}

}  // namespace

Outcome<ListeningSocket> ListeningSocket::open(const std::string& path) {
  sockaddr_un address;
  if (!toAddress(path, address)) {
    return failed(Status::BadConfig, path,
                  "the path must have 1 to " + std::to_string(sizeof(address.sun_path) - 1) + " bytes");
  }
  auto lock = takeLock(path);
  if (!lock.ok()) return lock.error();
  auto removed = removeStale(path, address);
  if (!removed.ok()) return removed.error();

  ListeningSocket listening;
  listening.socket_ = makeSocket();
  if (!listening.socket_) return failedByErrno(path, "socket");
  // The file appears with the mode of the socket, so that there is no moment in which others may connect.
  (void)::fchmod(listening.socket_.get(), 0600);
  if (::bind(listening.socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return failedByErrno(path, "bind");
  }
  listening.path_ = path;
  listening.lock_ = std::move(lock).value();
  if (::chmod(path.c_str(), 0600) != 0) return failedByErrno(path, "chmod");
  if (::listen(listening.socket_.get(), kBacklogConnections) != 0) return failedByErrno(path, "listen");
  return listening;
}

ListeningSocket::~ListeningSocket() {
  if (!socket_) return;
  if (!lock_) return;  // not bound
  ::unlink(path_.c_str());
  ::unlink((path_ + ".lock").c_str());
}

bool removeDeadSocket(const std::string& path) {
  sockaddr_un address;
  if (!toAddress(path, address)) return false;
  // A program that cleans up temporary files may have removed the lock file of a living process. Its socket still
  // answers.
  const auto lock = takeLock(path);
  if (!lock.ok()) return false;
  struct stat status{};
  const bool is_there = ::lstat(path.c_str(), &status) == 0;
  const bool is_dead = removeStale(path, address).ok();
  ::unlink((path + ".lock").c_str());
  return is_there && is_dead;
}

bool belongsToAnotherUser(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && status.st_uid != ::geteuid();
}

Outcome<Descriptor> connectTo(const std::string& path) {
  const auto unreachable = [](std::string_view why) { return Failure{Status::Unreachable, std::string(why)}; };
  sockaddr_un address;
  if (!toAddress(path, address)) return unreachable("its path is longer than that of a socket may be; correct it");
  Descriptor socket = makeSocket();
  if (!socket) return unreachable(noSocketText(errno));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return socket;
  // The queue of the listener is full.
  if (errno == EAGAIN) return unreachable("more connections wait there than it takes; check that it is not stopped");
  return unreachable("nobody listens there; check that it runs on this machine, as this user");
}

bool isSameUser(const ucred& peer, uid_t user) { return peer.uid == user || RC_MUTATION("let-other-users-in"); }

bool peerIsSameUser(int fd, std::string& description) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || bytes != sizeof(peer)) return false;
  description = "process " + std::to_string(peer.pid) + " of user " + std::to_string(peer.uid);
  return isSameUser(peer, ::geteuid());
}

StreamLook receiveWithDescriptor(int fd, MutableByteSpan into, size_t& received_bytes, Descriptor& descriptor) {
  received_bytes = 0;
  iovec piece{into.data(), into.size()};
  alignas(cmsghdr) std::byte ancillary[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = ancillary;
  message.msg_controllen = CMSG_LEN(sizeof(int));  // the padding of CMSG_SPACE would hold a second descriptor
  ssize_t got = 0;
  do {
    got = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? StreamLook::Nothing : StreamLook::Ended;

  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    int fd_received = -1;
    std::memcpy(&fd_received, CMSG_DATA(part), sizeof(fd_received));
    if (descriptor) {
      ::close(fd_received);
      return StreamLook::Ended;
    }
    descriptor = Descriptor(fd_received);
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0 || got == 0) return StreamLook::Ended;
  received_bytes = static_cast<size_t>(got);
  return StreamLook::Bytes;
}

bool sendWithDescriptor(int fd, ByteSpan bytes, int descriptor) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::byte ancillary[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = ancillary;
  message.msg_controllen = sizeof(ancillary);
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(part), &descriptor, sizeof(descriptor));
  return ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

void sendWakeUp(int fd) { (void)::send(fd, &kWakeUpByte, 1, MSG_DONTWAIT | MSG_NOSIGNAL); }

}  // namespace ramcore::transport::shm
