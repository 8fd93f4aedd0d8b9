#pragma once

#include <atomic>
#include <cstdint>

namespace ramcore::transport {

/// The thread that is in a round of an endpoint, from poll() to flush(), so that its pools can do without locked
/// instructions there. A locked instruction waits until all earlier stores are visible; between the bytes of a message
/// and the position that publishes them it would cost a cache line's way between two cores, about 100 ns.
///
/// Rounds are one thread's at a time, but not always the same one's: the threads of a client take turns, and hand over
/// with a lock. So whoever is here has all that the last one left. A thread that has left its round finds its own name
/// here no more, whatever it still holds.
class HomeThread {
 public:
  void enter() { home_.store(here(), std::memory_order_relaxed); }
  void leave() { home_.store(0, std::memory_order_relaxed); }
  /// True for the thread in the round only: what is touched under it has one owner.
  bool isHere() const { return home_.load(std::memory_order_relaxed) == here(); }

 private:
  // One instruction; pthread_self() is a call.
  static uintptr_t here() { return reinterpret_cast<uintptr_t>(__builtin_thread_pointer()); }

  std::atomic<uintptr_t> home_ = 0;
};

}  // namespace ramcore::transport
