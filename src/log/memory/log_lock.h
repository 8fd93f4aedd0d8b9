#pragma once

#include "base/spin_lock.h"

namespace ramcore::log {

/// The type that stands for the lock of a log in the analysis of locks (see kLogLock).
class RC_CAPABILITY("mutex") LogLockRole {};

/// Stands for the lock of the log in annotations: RC_GUARDED_BY(kLogLock), RC_REQUIRES(kLogLock). All parts of one log
/// share one LogLock, to which each has a reference; the analysis cannot tell that two references mean one lock, so it
/// is given one name. Code that deals with several logs never holds the locks of two.
inline constexpr LogLockRole kLogLock;

/// The lock of one log: it guards the head and the bookkeeping of all parts of the log, and of the segments for them.
/// The pool's lock is never taken while it is held; owner, replicator and waiters are not called.
class LogLock {
 public:
  LogLock() = default;
  LogLock(const LogLock&) = delete;
  LogLock& operator=(const LogLock&) = delete;

  void lock() RC_ACQUIRE(kLogLock) RC_NO_THREAD_SAFETY_ANALYSIS { lock_.lock(); }
  /// Always true with LockWait::Any.
  [[nodiscard]] bool lock(LockWait wait) RC_TRY_ACQUIRE(true, kLogLock) RC_NO_THREAD_SAFETY_ANALYSIS {
    return lock_.lock(wait);
  }
  void unlock() RC_RELEASE(kLogLock) RC_NO_THREAD_SAFETY_ANALYSIS { lock_.unlock(); }

 private:
  SpinLock lock_;
};

/// Holds a LogLock for a scope.
class RC_SCOPED_CAPABILITY LogGuard {
 public:
  explicit LogGuard(LogLock& lock) RC_ACQUIRE(kLogLock) : lock_(lock) { lock_.lock(); }
  ~LogGuard() RC_RELEASE() { lock_.unlock(); }
  LogGuard(const LogGuard&) = delete;
  LogGuard& operator=(const LogGuard&) = delete;

 private:
  LogLock& lock_;
};

}  // namespace ramcore::log
