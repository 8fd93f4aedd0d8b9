#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/ids.h"
#include "base/spin_lock.h"
#include "base/status.h"
#include "runtime/executor.h"

namespace ramcore::master {

/// Who waits for which key hashes of tablets that are Arriving. A call whose key has not arrived is a suspended
/// coroutine here, and begins again from its first check when the hash has arrived. It holds no lock and no pin.
///
/// Bounded: more than kWaitingMax calls do not wait, and none waits longer than kWaitNs; they get RetryLater.
///
/// Any executor of the master; the lock is a leaf.
class PriorityPulls {
 public:
  static constexpr size_t kWaitingMax = 16 * 1024;
  static constexpr int64_t kWaitNs = 500 * runtime::kNanosPerMilli;

  /// Is told that hashes of a tablet are wanted that nobody wanted before. On the executor of the call.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void onWanted(TabletId tablet) = 0;
  };
  explicit PriorityPulls(Listener& listener) : listener_(listener) {}
  PriorityPulls(const PriorityPulls&) = delete;
  PriorityPulls& operator=(const PriorityPulls&) = delete;
  /// Nobody waits (checked).
  ~PriorityPulls();

  /// Suspends the coroutine until a hash has arrived. `const Status status = co_await pulls.wait(...)` on `executor`.
  /// Gives Ok: begin again; or RetryLater: it has not arrived in time, nothing arrives for this tablet now, or too many
  /// calls wait.
  class Wait : private runtime::Job {
   public:
    Wait(PriorityPulls& pulls, runtime::Executor& executor, TabletId tablet, KeyHash hash)
        : Job([](runtime::Job& job) { static_cast<Wait&>(job).handle_.resume(); }),
          pulls_(pulls),
          executor_(executor),
          tablet_(tablet),
          hash_(hash) {}
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> handle) {
      handle_ = handle;
      return pulls_.add(*this);
    }
    Status await_resume() const noexcept { return outcome_; }

   private:
    friend class PriorityPulls;
    PriorityPulls& pulls_;
    runtime::Executor& executor_;
    const TabletId tablet_;
    const KeyHash hash_;
    int64_t give_up_ns_ = 0;
    Status outcome_ = Status::RetryLater;
    std::coroutine_handle<> handle_;
  };
  Wait wait(runtime::Executor& executor, TabletId tablet, KeyHash hash) { return {*this, executor, tablet, hash}; }

  // For the pull of a tablet.

  /// From now on calls may wait for the tablet.
  void open(TabletId tablet) RC_EXCLUDES(lock_);
  /// Nobody may wait for it any more; those that do go on with `status`.
  void close(TabletId tablet, Status status) RC_EXCLUDES(lock_);
  /// The hashes that are waited for, each once, ascending, at most `count_max`: those that have been waited for
  /// longest. Gives up those that have waited too long. Nothing: nobody waits, and the next call that does is told to
  /// the listener.
  std::vector<KeyHash> takeWanted(TabletId tablet, size_t count_max, int64_t now_ns) RC_EXCLUDES(lock_);
  /// The calls that wait for these hashes (ascending) go on with `status`.
  void release(TabletId tablet, const std::vector<KeyHash>& hashes, Status status) RC_EXCLUDES(lock_);

  struct Stats {
    std::atomic<uint64_t> waits{0};    ///< calls that have waited
    std::atomic<uint64_t> refused{0};  ///< those that were refused in the end, and those for which there was no room
    std::atomic<uint64_t> waiting{0};  ///< calls that wait now
  };
  const Stats& stats() const { return stats_; }

 private:
  struct Tablet {
    std::deque<Wait*> waiting;  // oldest first
    bool is_told = false;       // the listener was told, and takeWanted() has not returned nothing since
  };
  bool add(Wait& wait) RC_EXCLUDES(lock_);
  void resume(const std::vector<Wait*>& waits, Status status);

  Listener& listener_;
  SpinLock lock_;
  std::map<TabletId, Tablet> tablets_ RC_GUARDED_BY(lock_);
  size_t waiting_ RC_GUARDED_BY(lock_) = 0;
  Stats stats_;
};

}  // namespace ramcore::master
