#include "runtime/sim/sim_executor.h"

#include <algorithm>

#include "base/check.h"

namespace ramcore::runtime {

SimExecutor::SimExecutor(SimScheduler& scheduler, SimClock& clock, std::string_view name, const Delays& delays)
    : scheduler_(scheduler),
      clock_(clock),
      name_(name),
      delays_(delays),
      random_(scheduler.stream("executor." + name_)),
      wake_(*this) {}

SimExecutor::SimExecutor(SimScheduler& scheduler, SimClock& clock, std::string_view name)
    : SimExecutor(scheduler, clock, name, Delays{}) {}

SimExecutor::~SimExecutor() { RC_CHECK_MSG(!running_, "an executor was destroyed inside one of its jobs"); }

void SimExecutor::post(Job& job, Priority priority) {
  if (killed_) return;
  RC_CHECK_MSG(job.next == nullptr, "a job was posted that is queued already");
  jobs_[static_cast<size_t>(priority)].push(job);
  ++queued_;
  schedule();
}

void SimExecutor::arm(Timer& timer, int64_t deadline_ns) {
  RC_DCHECK(isCurrent());
  if (killed_) return;
  timers_.arm(timer, deadline_ns);
  schedule();
}

void SimExecutor::spend(int64_t duration_ns) {
  RC_CHECK(running_ && duration_ns >= 0);
  busy_until_ns_ = std::max(busy_until_ns_, scheduler_.nowNs()) + duration_ns;
}

int64_t SimExecutor::drawDelay() {
  const bool preempted = random_.below(1000) < delays_.preempted_permille;
  const int64_t delay_ns_max = preempted ? delays_.preempted_ns_max : delays_.usual_ns_max;
  return static_cast<int64_t>(random_.below(static_cast<uint64_t>(delay_ns_max) + 1));
}

// Arms the one event for what is to run next. The delay of a job is drawn once; a timer that is armed later but due
// earlier brings the event forward.
void SimExecutor::schedule() {
  if (running_ || paused_ || killed_) return;
  const int64_t free_ns = std::max(scheduler_.nowNs(), busy_until_ns_);
  if (queued_ > 0) {
    if (!woken_for_job_) {
      woken_for_job_ = true;
      const int64_t due_ns = free_ns + drawDelay();
      if (!wake_.isArmed() || due_ns < wake_.deadlineNs()) scheduler_.at(wake_, due_ns);
    }
    if (timers_.size() == 0) return;
  }
  const int64_t deadline_ns = clock_.simTimeOf(timers_.earliestNs());
  if (deadline_ns == kNever) return;
  const int64_t due_ns = std::max(deadline_ns, free_ns);
  if (!wake_.isArmed() || due_ns < wake_.deadlineNs()) scheduler_.at(wake_, due_ns);
}

Job* SimExecutor::take() {
  size_t waiting[kPriorityCount];
  size_t waiting_count = 0;
  for (size_t priority = 0; priority < kPriorityCount; ++priority) {
    if (!jobs_[priority].empty()) waiting[waiting_count++] = priority;
  }
  if (waiting_count == 0) return nullptr;
  const bool other = waiting_count > 1 && random_.below(1000) < delays_.other_priority_permille;
  --queued_;
  return jobs_[waiting[other ? 1 + random_.below(waiting_count - 1) : 0]].pop();
}

void SimExecutor::runOneJob() {
  if (Job* job = take()) job->run(*job);
}

void SimExecutor::beginRound() {
  running_ = true;
  if (!started_) {
    started_ = true;
    if (hooks_.on_start != nullptr) hooks_.on_start(hooks_.context);
  } else if (hooks_.after_sleep != nullptr) {
    hooks_.after_sleep(hooks_.context);
  }
}

void SimExecutor::endRound() {
  if (hooks_.after_round != nullptr) hooks_.after_round(hooks_.context);
  if (hooks_.before_sleep != nullptr) hooks_.before_sleep(hooks_.context);
  running_ = false;
}

void SimExecutor::onWake() {
  ++turns_;
  beginRound();
  woken_for_job_ = false;
  const bool timer_due = timers_.earliestNs() <= clock_.nowNs();
  if (timer_due && random_.below(1000) < delays_.preempted_permille) {
    spend(drawDelay());  // the thread lost its core: timers and jobs are late
  } else if (timer_due && (queued_ == 0 || random_.below(2) == 0)) {
    timers_.fireDue(clock_.nowNs(), 1);
  } else {
    runOneJob();
  }
  endRound();
  schedule();
}

void SimExecutor::pause() {
  RC_CHECK(!running_);
  paused_ = true;
  woken_for_job_ = false;
  wake_.cancel();
}

void SimExecutor::resume() {
  paused_ = false;
  schedule();
}

void SimExecutor::kill() {
  RC_CHECK(!running_);
  killed_ = true;
  wake_.cancel();
  for (JobList& list : jobs_) {
    while (list.pop() != nullptr) --queued_;
  }
}

uint64_t SimExecutor::drain(uint64_t jobs_max) {
  RC_CHECK(!running_);
  beginRound();
  uint64_t jobs = 0;
  for (; jobs < jobs_max && queued_ > 0; ++jobs) runOneJob();
  endRound();
  schedule();
  return jobs;
}

}  // namespace ramcore::runtime
