#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace ramcore::transport::tcp {

/// Tells which of many sockets have something to read, by one system call that never waits: an epoll set beside the one
/// of the reactor, for sockets that are read in every round. Trying each of them costs a system call for each that has
/// nothing (docs/measurements/README.md has what was measured).
///
/// Thread: the endpoint's.
class ReadySet {
 public:
  ReadySet();
  ~ReadySet();
  ReadySet(const ReadySet&) = delete;
  ReadySet& operator=(const ReadySet&) = delete;

  /// `tag` comes back from look(). False: the kernel has no room for another one.
  [[nodiscard]] bool add(int fd, uint32_t tag);
  /// Before the socket is closed.
  void remove(int fd);
  /// The tags of sockets with bytes or an end to be read, 64 at most; with more of them, others come the next time.
  /// Valid until the next look.
  std::span<const uint32_t> look();

 private:
  int fd_;
  std::array<uint32_t, 64> ready_;
};

}  // namespace ramcore::transport::tcp
