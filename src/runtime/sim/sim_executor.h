#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/executor.h"
#include "runtime/random.h"
#include "runtime/sim/sim_clock.h"
#include "runtime/sim/sim_scheduler.h"

namespace ramcore::runtime {

/// One simulated thread: it runs a job per event, after a small delay from the seed, so that the executors of all nodes
/// interleave at every border between two jobs, differently for each seed. Now and then it is "preempted" for longer.
///
/// Within a priority jobs run in the order of posting. Mostly the highest priority goes first, and sometimes any other
/// one: the interface promises no more.
class SimExecutor final : public Executor {
 public:
  struct Delays {
    int64_t usual_ns_max = 1'000;        ///< delay between posting (or the last job) and the job
    int64_t preempted_ns_max = 200'000;  ///< this delay when the thread lost its core
    uint32_t preempted_permille = 10;
    uint32_t other_priority_permille = 60;  ///< a job that is not of the highest priority waiting goes first
  };

  /// Draws from the stream "executor.<name>". Scheduler and clock outlive the executor.
  SimExecutor(SimScheduler& scheduler, SimClock& clock, std::string_view name, const Delays& delays);
  SimExecutor(SimScheduler& scheduler, SimClock& clock, std::string_view name);
  ~SimExecutor() override;

  using Executor::post;
  void post(Job& job, Priority priority) override;
  bool isCurrent() const override { return running_; }
  void arm(Timer& timer, int64_t deadline_ns) override;
  Clock& clock() override { return clock_; }
  uint64_t sleeps() const override { return turns_; }

  /// Called before the first job. The thread "sleeps" between any two jobs or timers.
  void setHooks(const ExecutorHooks& hooks) { hooks_ = hooks; }

  /// Called inside a job, to make work cost simulated time: the thread is busy for `duration_ns` more after the job.
  void spend(int64_t duration_ns);

  /// Stops the thread; clocks and everything outside go on. Called outside of its jobs.
  void pause();
  void resume();
  bool isPaused() const { return paused_; }

  /// Kills the thread: jobs that are queued and timers that are armed never run, later posts and timers are dropped.
  /// The owner of suspended coroutines on this executor ends them with `drain` before.
  void kill();
  /// Runs the queued jobs, and those that they post, at once and outside of simulated time. This is how the coroutines
  /// of a process that ended are unwound after it was cut off from network and storage. Works also while paused.
  /// @return jobs run, at most `jobs_max`
  uint64_t drain(uint64_t jobs_max);

  bool isIdle() const { return queued_ == 0; }
  size_t timerCount() const { return timers_.size(); }
  const std::string& name() const { return name_; }

 private:
  struct Wake : Timer {
    explicit Wake(SimExecutor& owner)
        : Timer([](Timer& timer) { static_cast<Wake&>(timer).owner.onWake(); }), owner(owner) {}
    SimExecutor& owner;
  };

  void onWake();
  void schedule();
  void runOneJob();
  void beginRound();
  void endRound();
  int64_t drawDelay();
  Job* take();

  SimScheduler& scheduler_;
  SimClock& clock_;
  std::string name_;
  Delays delays_;
  Random random_;
  std::array<JobList, kPriorityCount> jobs_;
  uint64_t queued_ = 0;
  TimerHeap timers_;
  Wake wake_;
  ExecutorHooks hooks_;
  uint64_t turns_ = 0;  // jobs and timers so far, with a sleep before each
  bool started_ = false;
  bool woken_for_job_ = false;
  bool running_ = false;
  bool paused_ = false;
  bool killed_ = false;
  int64_t busy_until_ns_ = 0;
};

}  // namespace ramcore::runtime
