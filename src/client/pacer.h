#pragma once

#include "runtime/await.h"
#include "runtime/task.h"

namespace ramcore::client {

/// Where the coroutines of one client pause between attempts, so that a client that ends does not have to wait for the
/// pauses.
/// Thread: the dispatch's.
class Pacer {
 public:
  /// Awaitable: goes on on the executor, at once if it is there already.
  class Enter : public runtime::ResumeOn {
   public:
    explicit Enter(runtime::Executor& executor) : ResumeOn(executor), executor_(executor) {}
    bool await_ready() const noexcept { return executor_.isCurrent(); }

   private:
    runtime::Executor& executor_;
  };

  explicit Pacer(runtime::Executor& executor) : executor_(executor), stopped_signal_(executor) {}

  /// Awaited first in every coroutine that may be called between two steps of the dispatch.
  Enter enter() { return Enter(executor_); }

  /// Awaitable: lasts until `resume_ns`, or until stop(). After stop() it ends at once.
  runtime::Signal::Wait pauseUntil(int64_t resume_ns) {
    return stopped_signal_.wait(stopped_ ? executor_.clock().nowNs() : resume_ns);
  }
  /// Ends all present and later pauses. May also be called between two steps of the dispatch; it takes effect in the
  /// next one.
  void stop() {
    stopped_ = true;
    endPauses().detach();
  }
  bool stopped() const { return stopped_; }
  /// True if no coroutine of this object runs.
  bool isIdle() const { return !is_stopping_; }
  int64_t nowNs() const { return executor_.clock().nowNs(); }
  runtime::Executor& executor() const { return executor_; }

 private:
  runtime::Task<void> endPauses() {
    is_stopping_ = true;
    co_await enter();
    stopped_signal_.notifyAll();
    is_stopping_ = false;
  }

  runtime::Executor& executor_;
  runtime::Signal stopped_signal_;
  bool stopped_ = false;
  bool is_stopping_ = false;
};

/// `now_ns + duration_ns`, without wrapping around.
constexpr int64_t addNs(int64_t now_ns, int64_t duration_ns) {
  return now_ns > runtime::kNever - duration_ns ? runtime::kNever : now_ns + duration_ns;
}

}  // namespace ramcore::client
