#pragma once

#include <array>
#include <cstdint>

#include "runtime/executor.h"
#include "runtime/job.h"

namespace ramcore::rpc {

/// Jobs by priority. The most urgent class that has work goes first, except that each class with work gets at least one
/// turn in kTurnsBetweenShares, so that nothing starves: background work is late, never stopped.
/// Thread: the executor's own.
class JobQueues {
 public:
  static constexpr uint32_t kTurnsBetweenShares = 16;

  void push(runtime::Job& job, runtime::Priority priority) { lists_[static_cast<size_t>(priority)].push(job); }
  void takeInbox(runtime::JobInbox& inbox, runtime::Priority priority) {
    inbox.takeAll(lists_[static_cast<size_t>(priority)]);
  }
  bool empty() const {
    for (const runtime::JobList& list : lists_) {
      if (!list.empty()) return false;
    }
    return true;
  }
  /// The next job to run, or nullptr.
  /// @param priority  set to what it was posted with
  runtime::Job* pop(runtime::Priority& priority) {
    ++turn_;
    if (turn_ % kTurnsBetweenShares == 0) {
      // A share turn: one of the classes below the first, each in its turn.
      const size_t favoured = 1 + (turn_ / kTurnsBetweenShares) % (runtime::kPriorityCount - 1);
      priority = static_cast<runtime::Priority>(favoured);
      if (runtime::Job* job = lists_[favoured].pop()) return job;
    }
    for (size_t i = 0; i < lists_.size(); ++i) {
      priority = static_cast<runtime::Priority>(i);
      if (runtime::Job* job = lists_[i].pop()) return job;
    }
    return nullptr;
  }

 private:
  std::array<runtime::JobList, runtime::kPriorityCount> lists_;
  uint64_t turn_ = 0;
};

}  // namespace ramcore::rpc
