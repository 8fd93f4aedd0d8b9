#pragma once

#include <span>

#include "transport/shm/descriptor.h"
#include "transport/transport.h"

namespace ramcore::transport::shm {

/// The sockets of an endpoint behind one epoll descriptor, which is all the thread's sleeper watches: one system call
/// asks for all of them, and sleeping costs the same for one session and for a thousand. Level-triggered. One thread.
class SocketSet {
 public:
  /// `sleeper`: borrowed; nullptr if the thread never sleeps.
  explicit SocketSet(Sleeper* sleeper);
  SocketSet(const SocketSet&) = delete;
  SocketSet& operator=(const SocketSet&) = delete;
  ~SocketSet();

  /// False if the operating system gave no descriptors: nothing will work.
  bool isUsable() const { return epoll_ && timer_; }
  void watch(int fd, uint64_t key);
  void forget(int fd);
  /// Keys of sockets with something to read; as many as fit. One system call; never blocks.
  std::span<const uint64_t> readable();
  /// Ends a sleep after `delay_ns` at the latest. The last call counts.
  void wakeAfter(int64_t delay_ns);

 private:
  static constexpr size_t kReadableMax = 64;

  Sleeper* sleeper_;
  Descriptor epoll_;
  Descriptor timer_;
  uint64_t keys_[kReadableMax];
};

}  // namespace ramcore::transport::shm
