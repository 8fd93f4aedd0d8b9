#pragma once

#include "runtime/executor.h"

namespace ramcore::bench {

/// Runs what is posted when its owner says so, on the owner's thread: background work that takes turns with the work
/// that is measured.
class InlineExecutor final : public runtime::Executor {
 public:
  explicit InlineExecutor(runtime::Clock& clock) : clock_(clock) {}

  using Executor::post;
  void post(runtime::Job& job, runtime::Priority) override { jobs_.push(job); }
  bool isCurrent() const override { return true; }
  void arm(runtime::Timer& timer, int64_t deadline_ns) override { timers_.arm(timer, deadline_ns); }
  runtime::Clock& clock() override { return clock_; }
  uint64_t sleeps() const override { return 0; }

  /// Fires a timer that is due, or else runs the oldest job. False: there is neither.
  bool runOne() {
    if (timers_.size() != 0 && timers_.fireDue(clock_.nowNs(), 1) != 0) return true;
    runtime::Job* const job = jobs_.pop();
    if (job == nullptr) return false;
    job->run(*job);
    return true;
  }

 private:
  runtime::Clock& clock_;
  runtime::JobList jobs_;
  runtime::TimerHeap timers_;
};

}  // namespace ramcore::bench
