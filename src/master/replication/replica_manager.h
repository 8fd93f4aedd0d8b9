#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/spin_lock.h"
#include "base/trace.h"
#include "log/memory/log_memory.h"
#include "log/replicator.h"
#include "master/replication/backup_gauge.h"
#include "master/replication/members.h"
#include "master/replication/replicated_segment.h"
#include "rpc/caller.h"
#include "rpc/dispatch.h"
#include "runtime/random.h"
#include "runtime/task.h"

namespace ramcore::master {

struct ReplicationOptions {
  /// Copies of each segment on other servers. More: more deaths are survived at a time; each write is sent so often.
  uint32_t replicas = 3;
  /// Fewer live servers to copy to than this, and writes are refused. At most `replicas`.
  uint32_t min_replicas = 2;
  /// The only copy goes to this very server: it survives a restart of the process, not the loss of the machine.
  bool local_replica = false;
};

/// Who stores the floors of this server's log: the coordinator.
class FloorKeeper {
 public:
  virtual ~FloorKeeper() = default;
  /// From now on a recovery ignores open replicas below (segment, replica_epoch). Ok: it is stored. Fenced: this server
  /// is declared dead. Anything else: perhaps; to be repeated.
  virtual runtime::Task<Status> raiseFloor(SegmentId segment, uint64_t replica_epoch) = 0;
};

/// Keeps R copies of every segment of a log on other servers: the log's Replicator.
///
/// What a master reports durable is on all replicas of the segment. A recovery believes one open replica of the head,
/// so the set of those replicas changes only like this: nothing is reported; all that stay and those that are new are
/// certified under the next replica epoch, and flushed; the coordinator stores that as the log's floor; only then
/// reports go on. A dead server's floor is not raised any more, so it cannot go on alone. Closed segments, survivors
/// and side logs count when they are closed, and a closed replica is complete: what is lost of them is copied again in
/// the background, without a floor.
///
/// Each replica has one write in flight; what is committed meanwhile goes with the next one. Beside it, while somebody
/// waits for the disk, there are at most two calls that are answered when it is flushed: one whose flush is under way,
/// and one that waits for the next. They bring what is to be flushed along, unless somebody waits for that to be
/// durable and no more. Then they come right behind the write. See ReplicatedSegment::sendWhatIsDue.
///
/// Threads: the Replicator's calls from any; everything else on the dispatch.
class ReplicaManager final : public log::Replicator, private ReplicaOwner {
 public:
  struct Environment {
    runtime::Clock& clock;
    Trace& trace;
    rpc::Dispatch& dispatch;
    rpc::Caller& caller;
    FloorKeeper& floors;
    /// Of the backup in this process, if there is one: servers share the work evenly, so others are about as full.
    const BackupGauge* backup = nullptr;
    /// Something was damaged in memory before it was copied, and cannot be mended: the server has to stop. `why` is a
    /// line for a person. Once, on the dispatch. May be empty.
    std::function<void(const std::string& why)> on_spoilt = {};
  };
  ReplicaManager(const ReplicationOptions& options, const Environment& environment, runtime::Random random);
  /// isIdle() is true (checked).
  ~ReplicaManager() override;

  /// Before the log exists.
  void begin(ClusterId cluster, ServerId self);
  /// The servers that live, this one included. Replicas on others are lost.
  void setMembers(std::vector<Member> members);
  /// Ends all calls; nothing is reported any more.
  void stop();
  /// Nothing of it runs, or will: no floor is being raised, and the dispatch does not have to call it.
  bool isIdle() const { return raising_ == 0 && !pump_posted_.load(std::memory_order_seq_cst); }
  /// Of the servers that live, as far as is known here.
  bool isMember(ServerId server) const override { return findMember(server) != nullptr; }

  /// For a backup's replicas of its former life: whether this log would miss `segment` if it went. Only for a member:
  /// then its former life is none, and no copy of it is counted.
  bool isNeeded(SegmentId segment) const;
  /// The backup says that it cannot read its replica of the segment any more: another one is made. Nothing if it has
  /// none, or one of a later epoch than this.
  void noteLostReplica(ServerId backup, SegmentId segment, uint64_t replica_epoch);

  struct Counts {
    uint32_t wanted = 0;     ///< copies, by configuration
    uint32_t demanded = 0;   ///< copies without which nothing is reported, by configuration
    uint32_t least = 0;      ///< complete copies of the segment that has the fewest; 0 before the first is open
    uint32_t repairing = 0;  ///< segments with fewer copies than the servers that live allow
  };
  Counts counts() const;
  /// One replica as this server knows of it.
  struct Known {
    SegmentId segment;
    ServerId backup;
    uint32_t certified_bytes = 0;  ///< at least; 0: it is being made
    uint32_t sent_bytes = 0;       ///< at most; with what is on its way
    bool is_closed = false;
  };
  /// Of all segments that are not freed.
  std::vector<Known> replicas() const;
  /// Where a segment has a closed replica, and of which epoch that is: for noteLostReplica.
  struct Holder {
    rpc::PeerAddress address;
    uint64_t replica_epoch = 0;
  };
  /// As far as is known here.
  std::vector<Holder> closedHolders(SegmentId segment) const;
  /// Counts::wanted; any thread.
  uint32_t wantedCount() const { return options_.local_replica ? 1 : options_.replicas; }
  /// For metrics; any thread.
  struct Stats {
    std::atomic<uint64_t> writes{0};
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> flushes{0};  ///< that were asked for, because somebody waited
    std::atomic<uint64_t> replicas_lost{0};
    std::atomic<uint64_t> floors_raised{0};
    std::atomic<uint64_t> repairs{0};    ///< closed segments copied again
    std::atomic<uint32_t> least{0};      ///< as in Counts, when segments or their replicas last changed
    std::atomic<uint32_t> repairing{0};  ///< of Counts
  };
  const Stats& stats() const { return stats_; }

  // log::Replicator
  void attach(log::ReplicationEvents& events) override { events_ = &events; }
  void open(const log::Segment& segment) override;
  void advance(const log::Segment& segment) override;
  void requestDurable(LogPosition position) override;
  void requestFlush(LogPosition position) override;
  void close(const log::Segment& segment) override;
  void moved(const log::Segment& segment) override;
  void withdraw(SegmentId head) override;
  void awaitLeast(SegmentId segment) override;
  void free(SegmentId segment) override;
  uint32_t storagePercent() const override { return storage_percent_.load(std::memory_order_relaxed); }
  uint32_t copyCount() const override { return wantedCount(); }
  Status writeStatus() const override { return write_status_.load(std::memory_order_relaxed); }
  Status removeStatus() const override { return remove_status_.load(std::memory_order_relaxed); }
  bool isShortOfPlaces() const override { return short_of_places_.load(std::memory_order_relaxed); }

 private:
  enum class Wish : uint8_t { Open, Close, Moved, Withdraw, AwaitLeast, Free, Durable, Flush };
  struct Event {
    Wish wish;
    SegmentId id;
    const log::Segment* segment;
    uint32_t bytes = 0;  // that somebody waits for
  };
  /// Tells one backup, one after the other, which segments it need not keep.
  struct Freeing : rpc::OutgoingCall {
    struct Again : runtime::Timer {
      explicit Again(Freeing& freeing);
      Freeing& owner;
    };
    Freeing(ReplicaManager& manager, rpc::PeerAddress peer);
    ReplicaManager& manager;
    const rpc::PeerAddress address;
    std::deque<SegmentId> segments;
    bool busy = false;
    Again again;  // armed while it waits before it repeats
  };

  // ReplicaOwner
  const Member* choose(const ReplicatedSegment& segment) override;
  uint32_t targetCount() const override;
  uint32_t leastCount() const override;
  uint32_t possibleCount(const ReplicatedSegment& segment) const override;
  bool mayRaiseFloor(const ReplicatedSegment& segment) const override;
  void raiseFloor(ReplicatedSegment& segment, uint64_t replica_epoch) override;
  void noteLost(ServerId backup, Status why, uint8_t frame_flags) override;
  void noteOpened(const ReplicatedSegment& segment) override;
  void noteRotten(ServerId backup) override;
  void noteFenced() override;
  void noteUnsound(const log::Segment& segment, uint32_t offset_bytes) override {
    events_->segmentUnsound(segment, offset_bytes);
  }
  bool noteSpoilt(const log::Segment& segment, uint32_t offset_bytes) override;
  void noteRepaired() override { stats_.repairs.fetch_add(1, std::memory_order_relaxed); }
  rpc::Dispatch& dispatch() override { return environment_.dispatch; }
  rpc::Caller& caller() override { return environment_.caller; }
  log::ReplicationEvents& events() override { return *events_; }
  void noteWrite(uint32_t bytes) override;
  void noteFlush() override { stats_.flushes.fetch_add(1, std::memory_order_relaxed); }
  void wake() override;
  void stepNow(SegmentId segment) override;

  void enqueue(const Event& event) RC_EXCLUDES(lock_);
  void pump() RC_EXCLUDES(lock_);
  void applyQueued() RC_EXCLUDES(lock_);
  void apply(const Event& event);
  void stepAll();
  void forget(SegmentId segment);
  bool withdrawIfStuck(SegmentId segment);
  void freeOn(ServerId backup, SegmentId segment);
  void freeNext(Freeing& freeing);
  void sendFree(Freeing& freeing);
  static void freed(rpc::OutgoingCall& call);
  runtime::Task<void> raise(SegmentId segment, uint64_t replica_epoch);
  bool mayKeep(const Member& member) const;
  const Member* findMember(ServerId id) const;
  uint32_t availableCount() const;
  void refreshWriteStatus();
  void tellIfTooFew();
  bool hasNoPlace(const ReplicatedSegment& segment) const;
  void notePlaces(bool all_heads_have_places);
  void refreshCounts();
  void refreshStorage();

  struct Pump : runtime::Job {
    explicit Pump(ReplicaManager& owner)
        : Job([](runtime::Job& job) { static_cast<Pump&>(job).manager.pump(); }), manager(owner) {}
    ReplicaManager& manager;
  };

  struct LookAgain : runtime::Timer {
    explicit LookAgain(ReplicaManager& owner)
        : Timer([](runtime::Timer& timer) { static_cast<LookAgain&>(timer).manager.wake(); }), manager(owner) {}
    ReplicaManager& manager;
  };

  const ReplicationOptions options_;
  const Environment environment_;
  runtime::Random random_;
  log::ReplicationEvents* events_ = nullptr;
  ClusterId cluster_;
  ServerId self_;
  Stats stats_;

  SpinLock lock_;  // a leaf
  std::vector<Event> queued_ RC_GUARDED_BY(lock_);
  Pump pump_;
  std::atomic<bool> pump_posted_{false};
  std::atomic<Status> write_status_{Status::TooFewReplicas};
  std::atomic<Status> remove_status_{Status::TooFewReplicas};
  std::atomic<bool> short_of_places_{false};
  std::atomic<uint32_t> storage_percent_{0};

  // The dispatch's.
  std::vector<Member> members_;
  /// Whom a server that has failed, or has no frame, is avoided for: frames of different kinds run out one by one.
  enum class Avoided : uint8_t { ForAll, ForHeads, ForSmallHeads, ForOthers };
  static Avoided kindOf(uint8_t frame_flags);
  bool isAvoided(ServerId backup, Avoided kind) const;
  std::map<std::pair<ServerId, Avoided>, int64_t> avoided_until_ns_;  // not chosen again at once
  std::map<ServerId, int64_t> full_told_ns_;                          // when it was traced that a server is full
  std::map<SegmentId, std::unique_ptr<ReplicatedSegment>> segments_;
  std::set<SegmentId> active_;     // with something to send or to report
  std::set<SegmentId> repairing_;  // of them, closed ones that are copied again
  LookAgain look_again_;
  std::map<ServerId, std::unique_ptr<Freeing>> freeing_;
  uint32_t raising_ = 0;
  bool counts_changed_ = true;  // and stats_ does not show it
  bool stopped_ = false;
  bool fenced_ = false;
  bool is_spoilt_ = false;
  bool told_too_few_ = false;
  int64_t no_place_since_ns_ = 0;  // a head has found too few servers that take it; 0: it has not
};

}  // namespace ramcore::master
