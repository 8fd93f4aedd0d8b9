#pragma once

#include <utility>

#include "base/check.h"
#include "runtime/await.h"
#include "runtime/task.h"

namespace ramcore::coordinator {

/// Mutual exclusion of coroutines of one executor over their suspensions: "read the state, commit the change, apply it"
/// is one step for all others. Held over a commit, never over a call to a server.
class AsyncMutex {
 public:
  explicit AsyncMutex(runtime::Executor& executor) : freed_(executor) {}

  class Guard {
   public:
    explicit Guard(AsyncMutex& mutex) : mutex_(&mutex) {}
    Guard(Guard&& other) noexcept : mutex_(std::exchange(other.mutex_, nullptr)) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard() { release(); }
    /// Lets the next coroutine in before the guard's end.
    void release() {
      if (mutex_ != nullptr) std::exchange(mutex_, nullptr)->unlock();
    }

   private:
    AsyncMutex* mutex_;
  };

  /// `auto guard = co_await mutex.lock();`
  runtime::Task<Guard> lock() {
    while (held_) {
      [[maybe_unused]] const Status freed = co_await freed_.wait();
    }
    held_ = true;
    co_return Guard(*this);
  }

 private:
  void unlock() {
    held_ = false;
    freed_.notifyAll();
  }

  runtime::Signal freed_;
  bool held_ = false;
};

}  // namespace ramcore::coordinator
