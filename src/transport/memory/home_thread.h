#pragma once

#include <atomic>
#include <cstdint>

namespace ramcore::transport {

/// The thread that is in a round of an endpoint, from poll() to flush(), so that its pools can do without locked
/// instructions there. A locked instruction waits until all earlier stores are visible. Between the bytes of a message
/// and the position that publishes them it would cost the transfer of a cache line between two cores, about 100 ns.
///
/// Only one thread at a time is in a round, but not always the same one: the threads of a client take turns, and hand
/// over with a lock. So the thread that is in a round sees all that the last one wrote. After leave() a thread is not
/// the home thread any more, even if it still holds messages.
class HomeThread {
 public:
  void enter() { home_.store(here(), std::memory_order_relaxed); }
  void leave() { home_.store(0, std::memory_order_relaxed); }
  /// True only for the thread that is in the round, so data that is used only while this is true needs no lock.
  bool isHere() const { return home_.load(std::memory_order_relaxed) == here(); }

 private:
  // One instruction; pthread_self() is a call.
  static uintptr_t here() { return reinterpret_cast<uintptr_t>(__builtin_thread_pointer()); }

  std::atomic<uintptr_t> home_ = 0;
};

}  // namespace ramcore::transport
