#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <vector>

#include "base/spin_lock.h"
#include "base/trace.h"
#include "log/cleaning/memory_scrubber.h"
#include "log/log.h"
#include "master/replication/replica_manager.h"
#include "rpc/caller.h"
#include "rpc/dispatch.h"
#include "runtime/await.h"
#include "runtime/growing_pause.h"
#include "store/maintenance.h"
#include "store/object_store.h"
#include "wire/replica_messages.h"

namespace ramcore::master {

struct MemoryScrubOptions {
  /// Rate at which the log's memory is verified, averaged over a slice and the pause behind it. 0: never; damage that
  /// the cleaner, moves and replication find while they read is reported and restored all the same. With a higher rate
  /// a flipped bit is found sooner, and the background work takes more of a processor (1 % of one for about 50 MiB/s of
  /// small objects).
  uint64_t bytes_per_second = 0;
  /// Time from the beginning of one pass over the memory to that of the next, unless the pass takes longer.
  int64_t pass_ns = 3600 * runtime::kNanosPerSecond;
};

/// Looks for damage in a master's memory, reports what is found, and restores it from replicas.
///
/// Thread: the background executor, unless a call says otherwise.
class MemoryRepair final : public log::DamageObserver, private runtime::Job {
 public:
  /// Borrowed; they outlive it.
  struct Parts {
    log::Log& log;
    store::ObjectStore& store;
    store::Maintenance& maintenance;
    rpc::Dispatch& dispatch;
    runtime::Executor& background;
    rpc::Caller& caller;
    Trace& trace;
    ReplicaManager* replicas = nullptr;  ///< without it nothing is restored
  };
  /// Becomes the log's observer.
  MemoryRepair(const Parts& parts, const MemoryScrubOptions& options);
  MemoryRepair(const MemoryRepair&) = delete;
  MemoryRepair& operator=(const MemoryRepair&) = delete;
  /// stopped() is true (checked).
  ~MemoryRepair() override;

  /// Begins to look, if the rate is not 0. Once; any thread.
  void start();
  /// Ends everything that runs; any thread; watch stopped().
  void stop();
  bool stopped() const { return stop_.load() && running_.load() == 0; }

  /// Called when servers have come or gone; any thread. What was not given back is asked for again.
  void membersChanged();

  // log::DamageObserver, any thread
  bool canRestore() const override { return parts_.replicas != nullptr; }
  void onDamaged(const log::Damage& damage) override RC_EXCLUDES(lock_);

 private:
  struct RepairTask {
    log::Damage damage;
    runtime::GraceTicket marked;  ///< when it is over, every reader of its bytes has seen the mark
    int64_t give_up_ns = 0;
    bool is_given_up = false;
    /// Set when the right bytes lie in its place: the server that they came from. Only the store still has to decide
    /// what becomes of the entry, however long that takes.
    std::optional<uint64_t> restored_from;
    bool isLost() const { return is_given_up && !restored_from; }
  };
  /// The damaged entries of one segment, which are restored together.
  struct Work {
    std::vector<RepairTask> tasks;
    int64_t due_ns = 0;
    /// The pauses between attempts while isHopeless().
    runtime::DoublingPause hopeless_pause{10 * runtime::kNanosPerSecond, 600 * runtime::kNanosPerSecond};
    bool is_running = false;
    size_t others_at = 0;  ///< where the next attempt begins among the servers that may have one of a former life
    bool isHopeless() const;
  };
  /// A piece of a replica.
  struct Piece {
    uint32_t replica_bytes = 0;  ///< length of the whole replica
    std::vector<std::byte> bytes;
  };
  using Holder = ReplicaManager::Holder;
  using Damages = std::vector<log::Damage>;

  void wake();
  void onWake();
  void takeNews() RC_EXCLUDES(lock_);
  void tryHopelessAgain();
  runtime::Task<void> scrub();
  runtime::Task<void> restoreAll();
  void giveUpOverdue();
  Work* nextWork();
  int64_t nextNs() const;
  bool mayStart(const Work& work) const;
  runtime::Task<void> attend(SegmentId segment);
  void putOff(SegmentId segment);
  RepairTask& taskOf(const log::Damage& damage);
  void forget(const log::Damage& damage);
  runtime::Task<void> restore(SegmentId segment, Damages damages);
  runtime::Task<void> restoreFromHolders(SegmentId segment, Damages& damages);
  runtime::Task<void> restoreFromOthers(SegmentId segment, Damages& damages);
  runtime::Task<Status> restoreFrom(rpc::PeerAddress holder, SegmentId segment, Damages& damages);
  runtime::Task<Status> restoreOne(rpc::PeerAddress holder, log::Damage damage, std::vector<std::byte>& replica,
                                   Status& heard);
  runtime::Task<void> release(Damages damages);
  runtime::Task<Status> fetchWhole(rpc::PeerAddress holder, SegmentId segment, std::vector<std::byte>& replica);
  runtime::Task<Status> ask(rpc::PeerAddress holder, SegmentId segment, uint32_t offset_bytes, uint32_t bytes_max,
                            Piece& piece);
  runtime::Task<void> waitFor(runtime::GraceTicket ticket);
  void report(const log::Damage& damage);
  int64_t nowNs() const { return parts_.background.clock().nowNs(); }

  const Parts parts_;
  const MemoryScrubOptions options_;
  log::MemoryScrubber scrubber_;
  runtime::Signal changed_;           // belongs to the background executor
  std::atomic<uint32_t> running_{0};  // coroutines, the job while it is posted or runs, and callers that may post it
  std::atomic<bool> is_posted_{false};
  std::atomic<bool> wants_scrub_{false};
  std::atomic<bool> members_have_changed_{false};
  std::atomic<bool> stop_{false};
  bool restoring_ = false;
  uint32_t attending_ = 0;           // works that are running
  std::map<SegmentId, Work> works_;  // a work that is running stays here
  SpinLock lock_;                    // a leaf
  std::vector<log::Damage> news_ RC_GUARDED_BY(lock_);
};

}  // namespace ramcore::master
