#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/executor.h"

namespace ramcore::runtime {

/// An executor that is a thread: runs jobs by priority and timers when due, and sleeps in between. Used for workers:
/// long handlers, the cleaner, pulls.
///
/// A class of lower priority gets at least one turn in 16, so that background work is late but never stopped.
class ThreadExecutor final : public Executor {
 public:
  /// Starts the thread. `name` (at most 15 characters) is what the system's tools show.
  ThreadExecutor(Clock& clock, const std::string& name, const ExecutorHooks& hooks = {});
  /// Stops and joins; jobs that are still queued never run: the owner has drained what it started.
  ~ThreadExecutor() override;

  using Executor::post;
  void post(Job& job, Priority priority) override;
  bool isCurrent() const override { return thread_.get_id() == std::this_thread::get_id(); }
  void arm(Timer& timer, int64_t deadline_ns) override { timers_.arm(timer, deadline_ns); }
  Clock& clock() override { return clock_; }
  uint64_t sleeps() const override { return sleeps_; }
  /// Ends the thread's loop and waits for it; called by the destructor too. Not from the thread itself.
  void stop();

 private:
  void loop();
  Job* next();
  bool anyInbox() const;
  void sleepUntilWork();

  Clock& clock_;
  const ExecutorHooks hooks_;
  TimerHeap timers_;
  std::array<JobInbox, kPriorityCount> inboxes_;
  std::array<JobList, kPriorityCount> lists_;
  uint64_t turn_ = 0;
  uint64_t sleeps_ = 0;
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // only for sleeping
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace ramcore::runtime
