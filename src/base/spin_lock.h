#pragma once

#include <immintrin.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/step.h"
#include "base/thread_safety.h"

namespace ramcore {

/// How long to wait for a lock whose holder may have been preempted.
enum class LockWait : uint8_t {
  Any,   ///< until it is free
  Brief  ///< some microseconds, as long as a running holder may take: for the dispatch thread, which has other work
};

/// A lock for sections of some tens of nanoseconds that make no system call and never suspend. After a bounded spin it
/// yields the core: on a machine with more threads than cores the holder may be the one that is not running.
class RC_CAPABILITY("mutex") SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() RC_ACQUIRE() {
    int spins = 0;
    RC_STEP();
    while (!tryAcquire()) {
      while (held_.load(std::memory_order_relaxed)) {
        RC_LOCK_MISSED();
        if (++spins < kSpinsMax) {
          _mm_pause();
        } else {
          spins = 0;
          sched_yield();
        }
      }
    }
  }
  /// Tries once. For the dispatch thread, which must not wait for a preempted holder.
  [[nodiscard]] bool try_lock() RC_TRY_ACQUIRE(true) { return tryAcquire(); }
  /// Always true with LockWait::Any.
  [[nodiscard]] bool lock(LockWait wait) RC_TRY_ACQUIRE(true) {
    if (wait == LockWait::Any) {
      lock();
      return true;
    }
    for (int spins = 0; spins < kSpinsMax; ++spins) {
      if (!held_.load(std::memory_order_relaxed) && tryAcquire()) return true;
      _mm_pause();
    }
    return false;
  }
  void unlock() RC_RELEASE() {
    held_.store(false, std::memory_order_release);
    RC_LOCK_GIVEN_BACK();
  }

 private:
  static constexpr int kSpinsMax = 200;  // about 8 us of pauses

  bool tryAcquire() { return !held_.exchange(true, std::memory_order_acquire); }

  std::atomic<bool> held_{false};
};

/// Holds a SpinLock for a scope.
class RC_SCOPED_CAPABILITY SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) RC_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~SpinGuard() RC_RELEASE() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

/// std::mutex with the annotations that -Wthread-safety needs.
class RC_CAPABILITY("mutex") Mutex {
 public:
  void lock() RC_ACQUIRE() { mutex_.lock(); }
  void unlock() RC_RELEASE() { mutex_.unlock(); }
  [[nodiscard]] bool try_lock() RC_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  std::mutex& native() { return mutex_; }

 private:
  std::mutex mutex_;
};

/// Holds a Mutex for a scope.
class RC_SCOPED_CAPABILITY MutexGuard {
 public:
  explicit MutexGuard(Mutex& mutex) RC_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexGuard() RC_RELEASE() { mutex_.unlock(); }
  MutexGuard(const MutexGuard&) = delete;
  MutexGuard& operator=(const MutexGuard&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace ramcore
