#include "runtime/real/thread_executor.h"

#include <pthread.h>

#include <chrono>

namespace ramcore::runtime {
namespace {
constexpr uint64_t kTurnsBetweenShares = 16;
}

ThreadExecutor::ThreadExecutor(Clock& clock, const std::string& name, const ExecutorHooks& hooks)
    : clock_(clock), hooks_(hooks), thread_([this] { loop(); }) {
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

ThreadExecutor::~ThreadExecutor() { stop(); }

void ThreadExecutor::stop() {
  {
    std::lock_guard guard(mutex_);
    stop_.store(true, std::memory_order_seq_cst);
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ThreadExecutor::post(Job& job, Priority priority) {
  inboxes_[static_cast<size_t>(priority)].push(job);
  // Sequentially consistent with the store in sleepUntilWork: either that function sees the job, or this one sees that
  // the thread sleeps.
  if (asleep_.load(std::memory_order_seq_cst)) {
    std::lock_guard guard(mutex_);
    wake_.notify_one();
  }
}

bool ThreadExecutor::anyInbox() const {
  for (const JobInbox& inbox : inboxes_) {
    if (!inbox.empty()) return true;
  }
  return false;
}

Job* ThreadExecutor::next() {
  for (size_t i = 0; i < kPriorityCount; ++i) inboxes_[i].takeAll(lists_[i]);
  ++turn_;
  if (turn_ % kTurnsBetweenShares == 0) {
    const size_t favoured = 1 + (turn_ / kTurnsBetweenShares) % (kPriorityCount - 1);
    if (Job* job = lists_[favoured].pop()) return job;
  }
  for (JobList& list : lists_) {
    if (Job* job = list.pop()) return job;
  }
  return nullptr;
}

void ThreadExecutor::loop() {
  if (hooks_.on_start != nullptr) hooks_.on_start(hooks_.context);
  while (!stop_.load(std::memory_order_relaxed)) {
    if (timers_.earliestNs() != kNever) timers_.fireDue(clock_.nowNs(), 64);
    Job* job = next();
    if (job == nullptr) {
      sleepUntilWork();
      continue;
    }
    job->run(*job);
    if (hooks_.after_round != nullptr) hooks_.after_round(hooks_.context);
  }
  if (hooks_.on_stop != nullptr) hooks_.on_stop(hooks_.context);
}

void ThreadExecutor::sleepUntilWork() {
  const int64_t earliest_ns = timers_.earliestNs();
  if (hooks_.before_sleep != nullptr) hooks_.before_sleep(hooks_.context);
  {
    std::unique_lock lock(mutex_);
    asleep_.store(true, std::memory_order_seq_cst);
    if (!anyInbox() && !stop_.load(std::memory_order_seq_cst)) {
      if (earliest_ns == kNever) {
        wake_.wait(lock);
      } else {
        const int64_t wait_ns = earliest_ns - clock_.nowNs();
        if (wait_ns > 0) wake_.wait_for(lock, std::chrono::nanoseconds(wait_ns));
      }
    }
    asleep_.store(false, std::memory_order_relaxed);
  }
  ++sleeps_;
  if (hooks_.after_sleep != nullptr) hooks_.after_sleep(hooks_.context);
}

}  // namespace ramcore::runtime
