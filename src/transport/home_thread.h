#pragma once

#include <pthread.h>

#include <atomic>

namespace ramcore::transport {

/// The thread that polls an endpoint, so that its pools can do without locked instructions there. A locked instruction
/// waits until all earlier stores are visible; between the bytes of a message and the position that publishes them it
/// would cost a cache line's way between two cores, about 100 ns.
class HomeThread {
 public:
  /// The first caller is the home thread from then on.
  void claim() {
    if (home_.load(std::memory_order_relaxed) == 0) home_.store(here(), std::memory_order_relaxed);
  }
  /// True on the home thread only: what is touched under it has one owner.
  bool isHere() const { return home_.load(std::memory_order_relaxed) == here(); }

 private:
  static uintptr_t here() { return ::pthread_self(); }

  std::atomic<uintptr_t> home_ = 0;
};

}  // namespace ramcore::transport
