#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "index/hash_index.h"
#include "log/cleaning/cleaner.h"
#include "log/log.h"
#include "runtime/epoch.h"
#include "runtime/executor.h"
#include "store/object_store.h"

namespace ramcore::store {

/// The dispatch thread, which copies for the cleaner instead of the executor if both share a processor.
struct SoleProcessor {
  runtime::Executor* dispatch = nullptr;  ///< nullptr: it never copies. It is neither `executor` nor one of `others`
  /// Whether this process has one processor now. Asked when cleaning begins; may be a system call.
  bool (*is_so)() = nullptr;
};

/// The background work of a master, in slices on one executor: cleaning, reclamation, removed keys, and memory for the
/// index before the index needs it. Sleeps while there is nothing to do; no tick. It is the reclaimer of the Rcu.
///
/// When one worker is too few for the cleaning (Cleaner::workersWanted), helpers share its copying, each in slices on
/// an executor of its own, until there is nothing to share or fewer are wanted. A helper that stops wakes the first
/// worker.
///
/// On a machine with one processor the executor and the dispatch thread would take turns of milliseconds, in which
/// clients wait or the processor is idle. There the dispatch thread does the copying, in small slices between two looks
/// for requests, and the executor does only the rest.
class Maintenance : private runtime::Job {
 public:
  struct Parts {
    log::Log& log;
    log::Cleaner& cleaner;
    ObjectStore& store;
    index::HashIndex& index;
    runtime::Rcu& rcu;
  };
  /// @param executor  it runs each job inside a read section of the Rcu, as all others do
  /// @param others  executors of helpers; the first ones are used, as many as the cleaner has further workers
  /// @param sole  its dispatch thread is the cleaner's spare worker
  Maintenance(runtime::Executor& executor, const Parts& parts, std::span<runtime::Executor* const> others = {},
              const SoleProcessor& sole = {});
  /// No slice is queued (checked).
  ~Maintenance();

  /// There may be something to do. Any thread; cheap when a slice is queued already.
  void wake();
  /// True if a wake would find something to do. Cost: a few loads, so that it can be called after each mutation.
  bool isDue() const {
    return parts_.cleaner.isNeeded() || parts_.rcu.pending() || parts_.index.memoryIsDue() ||
           reaps_[0].isDue(parts_.store) || reaps_[1].isDue(parts_.store);
  }
  /// To be called after `count` mutations, on the thread that made them: wakes it if there is something to do. If
  /// removed keys come faster than background work gets rid of them, the call gets rid of some at once, so that at most
  /// kRemovedMax keys wait, apart from those whose tombstones are not durable. It waits for no other thread, because it
  /// may run on the dispatch thread.
  void afterMutations(size_t count = 1) {
    if (parts_.store.tombstones().size() > kRemovedMax) [[unlikely]] {
      static_cast<void>(parts_.store.tombstones().reap(kReapedPerMutation * count, ObjectStore::Locking::Try));
    }
    if (isDue()) wake();
  }
  /// Removed keys that wait to leave the index, of 16 bytes each.
  static constexpr size_t kRemovedMax = 256 * 1024;
  /// The slice that is queued, or the next one, is the last. Any thread; watch stopped().
  void stop();
  bool stopped() const { return stop_.load() && !isScheduled(); }

 private:
  // More than one, or the queue would not get shorter.
  static constexpr size_t kReapedPerMutation = 4;

  enum class ReapState : uint8_t {
    Idle,     ///< nothing to wait for, or a slice is about to look
    Waiting,  ///< the waiter waits for the log
    Waking    ///< the log has reported; the waiter is in use until the wake is done
  };
  /// The wait for removed keys of one level: when the tombstone of the oldest one is as durable as its table requires,
  /// the thread that learns of this wakes the maintenance.
  struct Reap : log::DurableWaiter {
    Reap(Maintenance& owner, Durability level) : owner(owner), level(level) {
      run = [](log::DurableWaiter& self, Status status) { Maintenance::onReapable(static_cast<Reap&>(self), status); };
    }
    bool isDue(const ObjectStore& store) const {
      return store.tombstones().size(level) != 0 && state.load() != ReapState::Waiting;
    }
    Maintenance& owner;
    const Durability level;
    std::atomic<ReapState> state{ReapState::Idle};
  };
  struct Helper : runtime::Job {
    Helper(Maintenance& owner, runtime::Executor& executor, uint32_t worker)
        : Job([](runtime::Job& job) { static_cast<Helper&>(job).owner.helpersSlice(static_cast<Helper&>(job)); }),
          owner(owner),
          executor(executor),
          worker(worker) {}
    Maintenance& owner;
    runtime::Executor& executor;
    const uint32_t worker;  ///< its number among the cleaner's workers
    std::atomic<bool> scheduled{false};
  };
  /// Posted by a helper that stops: the first worker may be waiting, with a timer, for just that.
  struct Wake : runtime::Job {
    explicit Wake(Maintenance& owner)
        : Job([](runtime::Job& job) { static_cast<Wake&>(job).owner.onHelperStopped(); }), owner(owner) {}
    Maintenance& owner;
    std::atomic<bool> posted{false};
  };

  void slice();
  bool reap();
  bool awaitReapable(Reap& reap, LogPosition position);
  static void onReapable(Reap& reap, Status status);
  bool lacksReapWaiter() const;
  void cancelReaps();
  log::Cleaner::Progress clean();
  void callHelpers();
  void call(Helper& helper);
  bool isWanted(const Helper& helper) const;
  runtime::Priority priorityOf(const Helper& helper) const;
  void helpersSlice(Helper& helper);
  void onHelperStopped();
  void noteCleaning();
  bool isScheduled() const;
  runtime::Priority urgency() const;

  struct Again : runtime::Timer {
    explicit Again(Maintenance& owner)
        : runtime::Timer([](runtime::Timer& timer) { static_cast<Again&>(timer).owner.slice(); }), owner(owner) {}
    Maintenance& owner;
  };

  runtime::Executor& executor_;
  const Parts parts_;
  Again again_;
  Wake wake_{*this};
  std::vector<std::unique_ptr<Helper>> helpers_;
  const SoleProcessor sole_;
  std::unique_ptr<Helper> dispatch_;  ///< the helper on the dispatch thread of sole_
  bool has_one_processor_ = false;    ///< whether the process had one processor when cleaning began
  bool is_counted_ = false;           ///< the first worker is counted in LogStats::cleaners
  std::array<Reap, 2> reaps_{Reap(*this, Durability::Buffered), Reap(*this, Durability::Sync)};
  std::atomic<bool> log_has_ended_{false};  ///< the log has failed: nothing becomes durable any more
  std::atomic<bool> scheduled_{false};
  std::atomic<bool> woken_{false};
  std::atomic<bool> stop_{false};
};

}  // namespace ramcore::store
