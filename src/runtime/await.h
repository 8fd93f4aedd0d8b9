#pragma once

#include <coroutine>

#include "base/status.h"
#include "runtime/executor.h"

namespace ramcore::runtime {

/// Suspends the coroutine and runs it again on `executor`, behind what is queued there. Used to move to an executor and
/// to give way between slices of long work.
class ResumeOn : private Job {
 public:
  explicit ResumeOn(Executor& executor, Priority priority = Priority::Client)
      : Job([](Job& job) { static_cast<ResumeOn&>(job).handle_.resume(); }), executor_(executor), priority_(priority) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    handle_ = handle;
    executor_.post(*this, priority_);
  }
  void await_resume() const noexcept {}

 private:
  Executor& executor_;
  Priority priority_;
  std::coroutine_handle<> handle_;
};
inline ResumeOn resumeOn(Executor& executor, Priority priority = Priority::Client) {
  return ResumeOn(executor, priority);
}

/// Suspends the coroutine until `deadline_ns` of the executor's clock. The coroutine must run on `executor`.
class SleepUntil : private Timer {
 public:
  SleepUntil(Executor& executor, int64_t deadline_ns)
      : Timer([](Timer& timer) { static_cast<SleepUntil&>(timer).handle_.resume(); }),
        executor_(executor),
        deadline_ns_(deadline_ns) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    handle_ = handle;
    executor_.arm(*this, deadline_ns_);
  }
  void await_resume() const noexcept {}

 private:
  Executor& executor_;
  int64_t deadline_ns_;
  std::coroutine_handle<> handle_;
};
inline SleepUntil sleepUntil(Executor& executor, int64_t deadline_ns) { return SleepUntil(executor, deadline_ns); }
inline SleepUntil sleepFor(Executor& executor, int64_t duration_ns) {
  return SleepUntil(executor, executor.clock().nowNs() + duration_ns);
}

/// Coroutines of ONE executor wait here for something to happen there. The code that makes it happen calls `notifyAll`
/// on the same executor; each waiter is resumed by a job of its own, never inside the call. A waiter looks again at
/// what it waited for, as with a condition variable.
class Signal {
 public:
  explicit Signal(Executor& executor) : executor_(executor) {}
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  ~Signal();

  /// Awaitable that gives Ok after a notification, DeadlineExceeded when `deadline_ns` passed first, or the status of
  /// `failAll`.
  class Wait : private Job, private Timer {
   public:
    Wait(Signal& signal, int64_t deadline_ns);
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle);
    Status await_resume() const noexcept { return outcome_; }

   private:
    friend class Signal;
    void finish(Status outcome);

    Signal& signal_;
    int64_t deadline_ns_;
    Status outcome_ = Status::Ok;
    bool queued_ = false;
    Wait* previous_ = nullptr;
    Wait* next_wait_ = nullptr;
    std::coroutine_handle<> handle_;
  };
  Wait wait(int64_t deadline_ns = kNever) { return Wait(*this, deadline_ns); }
  /// Resumes every present waiter with Ok.
  void notifyAll() { failAll(Status::Ok); }
  /// Resumes every present waiter with `outcome`: how waits are cancelled.
  void failAll(Status outcome);
  bool hasWaiters() const { return first_ != nullptr; }

 private:
  void unlink(Wait& wait);

  Executor& executor_;
  Wait* first_ = nullptr;
  Wait* last_ = nullptr;
};

}  // namespace ramcore::runtime
