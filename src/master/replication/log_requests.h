#pragma once

#include <atomic>
#include <vector>

#include "base/spin_lock.h"
#include "log/memory/segment.h"
#include "rpc/dispatch.h"

namespace ramcore::master {

/// Something that the log asks of its replicator.
struct LogRequest {
  enum class Kind : uint8_t { Open, Close, Moved, Withdraw, AwaitLeast, Free, Durable, Flush };
  Kind kind;
  SegmentId id;
  const log::Segment* segment = nullptr;  ///< of Open, Close and Moved
  uint32_t bytes = 0;                     ///< of Durable and Flush: the offset in the segment up to which it is wanted
};

/// The queue of the log's requests, in the log's order, and whether the job that takes them on the dispatch thread is
/// posted.
/// Threads: take() and noteRunning() on the dispatch thread, the rest on any thread.
class LogRequests {
 public:
  /// @param job  takes the requests. Both are borrowed
  LogRequests(rpc::Dispatch& dispatch, runtime::Job& job) : dispatch_(dispatch), job_(job) {}

  /// Adds a request, and has the job posted.
  void add(const LogRequest& request) RC_EXCLUDES(lock_);
  /// Has the job posted, unless it is already. For each append: inline.
  void wake() {
    if (is_posted_.exchange(true, std::memory_order_seq_cst)) return;
    dispatch_.post(job_, runtime::Priority::Waited);
  }
  /// Called when the job begins, before it looks at anything: the job sees what was noted before an earlier wake(), and
  /// a later wake() posts it again.
  void noteRunning() { is_posted_.store(false, std::memory_order_seq_cst); }
  /// True if the job is posted and has not begun.
  bool isPosted() const { return is_posted_.load(std::memory_order_seq_cst); }
  /// Takes all requests.
  std::vector<LogRequest> take() RC_EXCLUDES(lock_);

 private:
  rpc::Dispatch& dispatch_;
  runtime::Job& job_;
  SpinLock lock_;  // a leaf
  std::vector<LogRequest> queued_ RC_GUARDED_BY(lock_);
  std::atomic<bool> is_posted_{false};
};

}  // namespace ramcore::master
