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
  /// Replicas of each segment on other servers. With more replicas more servers may die at a time, and each write is
  /// sent as many times.
  uint32_t replicas = 3;
  /// Writes are refused while fewer other servers than this live that keep replicas. At most `replicas`.
  uint32_t min_replicas = 2;
  /// This server itself keeps the only replica: it survives a restart of the process, not the loss of the machine.
  bool local_replica = false;
};

/// Stores the floors of this server's log: the coordinator keeps them.
class FloorKeeper {
 public:
  virtual ~FloorKeeper() = default;
  /// Raises the floor: from then on a recovery ignores open replicas below (segment, replica_epoch). Ok: the floor is
  /// stored. Fenced: this server is declared dead. Anything else: it may be stored or not, and the call has to be
  /// repeated.
  virtual runtime::Task<Status> raiseFloor(SegmentId segment, uint64_t replica_epoch) = 0;
};

/// Keeps R replicas of every segment of a log on other servers: the log's Replicator.
///
/// What is reported durable is on all replicas of the segment. A recovery relies on a single open replica of the log
/// head, so the set of these replicas changes only in this order: nothing is reported any more; the replicas that stay
/// and the new ones are certified under the next replica epoch, and flushed; the coordinator stores this epoch as the
/// log's floor; only then reports go on. No floor is raised for a server that was declared dead, so it cannot go on
/// alone. Closed segments, survivors and side logs count when they are closed, and a closed replica is complete. What
/// is lost of them is replicated again in the background, without a floor.
///
/// Each replica has one write in flight; what is committed meanwhile goes with the next one. While a request waits for
/// the disk, there are at most two further calls, which are answered when they are flushed: one whose flush is under
/// way, and one that waits for the next flush. They carry the bytes that are to be flushed, unless a request waits for
/// these bytes to be durable and no more. Then a write carries the bytes, and the flush call is sent right behind it.
/// See ReplicatedSegment::sendWhatIsDue.
///
/// Threads: the Replicator's calls come from any thread; everything else is on the dispatch thread.
class ReplicaManager final : public log::Replicator, private ReplicaOwner {
 public:
  struct Environment {
    runtime::Clock& clock;
    Trace& trace;
    rpc::Dispatch& dispatch;
    rpc::Caller& caller;
    FloorKeeper& floors;
    /// The gauge of the backup in this process, if there is one. It is taken for the other backups as well: servers
    /// share the work evenly, so these are about as full.
    const BackupGauge* backup = nullptr;
    /// Called when something was damaged in memory before it was replicated, and cannot be mended: the server has to
    /// stop. `why` is a line for a person. Once, on the dispatch. May be empty.
    std::function<void(const std::string& why)> on_spoilt = {};
  };
  ReplicaManager(const ReplicationOptions& options, const Environment& environment, runtime::Random random);
  /// isIdle() is true (checked).
  ~ReplicaManager() override;

  /// Called before the log exists.
  void begin(ClusterId cluster, ServerId self);
  /// Sets the servers that live, this one included. Replicas on any other server are lost.
  void setMembers(std::vector<Member> members);
  /// Ends all calls; nothing is reported any more.
  void stop();
  /// True if nothing of it runs or is about to run: no floor is being raised, and nothing is posted to the dispatch.
  bool isIdle() const { return raising_ == 0 && !pump_posted_.load(std::memory_order_seq_cst); }
  /// True if the server lives, as far as is known here.
  bool isMember(ServerId server) const override { return findMember(server) != nullptr; }

  /// Whether this log still needs a replica of `segment` that a backup has kept from its former life. The backup has to
  /// be a member: then its former life is not a member any more, and no replica there is counted.
  bool isNeeded(SegmentId segment) const;
  /// A backup says that it cannot read its replica of the segment any more: another one is made. Does nothing if the
  /// backup has none, or one of a later epoch than `replica_epoch`.
  void noteLostReplica(ServerId backup, SegmentId segment, uint64_t replica_epoch);

  struct Counts {
    uint32_t wanted = 0;     ///< replicas, by configuration
    uint32_t demanded = 0;   ///< replicas without which nothing is reported, by configuration
    uint32_t least = 0;      ///< complete replicas of the segment that has the fewest; 0 before the first is open
    uint32_t repairing = 0;  ///< segments with fewer complete replicas than the live servers allow
  };
  Counts counts() const;
  /// One replica as this server knows of it.
  struct Known {
    SegmentId segment;
    ServerId backup;
    uint32_t certified_bytes = 0;  ///< bytes under a certificate, at least; 0: it is being made
    uint32_t sent_bytes = 0;       ///< bytes that it may have, including those in flight
    bool is_closed = false;
  };
  /// The replicas of all segments that are not freed.
  std::vector<Known> replicas() const;
  /// A server with a closed replica of a segment, and the replica's epoch: for noteLostReplica.
  struct Holder {
    rpc::PeerAddress address;
    uint64_t replica_epoch = 0;
  };
  /// The servers with a closed replica of the segment, as far as is known here.
  std::vector<Holder> closedHolders(SegmentId segment) const;
  /// Counts::wanted; any thread.
  uint32_t wantedCount() const { return options_.local_replica ? 1 : options_.replicas; }
  /// For metrics; any thread.
  struct Stats {
    std::atomic<uint64_t> writes{0};
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> flushes{0};  ///< flushes that were asked for because a request waited
    std::atomic<uint64_t> replicas_lost{0};
    std::atomic<uint64_t> floors_raised{0};
    std::atomic<uint64_t> repairs{0};    ///< replicas of closed segments made again
    std::atomic<uint32_t> least{0};      ///< as in Counts, when segments or their replicas last changed
    std::atomic<uint32_t> repairing{0};  ///< as in Counts
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
  enum class EventKind : uint8_t { Open, Close, Moved, Withdraw, AwaitLeast, Free, Durable, Flush };
  struct Event {
    EventKind kind;
    SegmentId id;
    const log::Segment* segment;
    uint32_t bytes = 0;  // up to where a request waits for it
  };
  /// Tells one backup, one segment after the other, which replicas it need not keep.
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

  // Only for the dispatch thread.
  std::vector<Member> members_;
  /// The kinds of replicas for which a server is avoided for a while: all of them if it has failed, or those for which
  /// it has no storage frame. Storage frames of different kinds run out one by one.
  enum class Avoided : uint8_t { ForAll, ForHeads, ForSmallHeads, ForOthers };
  static Avoided kindOf(uint8_t frame_flags);
  bool isAvoided(ServerId backup, Avoided kind) const;
  std::map<std::pair<ServerId, Avoided>, int64_t> avoided_until_ns_;  // until then a server is not chosen for that kind
  std::map<ServerId, int64_t> full_told_ns_;                          // when it was traced that a server is full
  std::map<SegmentId, std::unique_ptr<ReplicatedSegment>> segments_;
  std::set<SegmentId> active_;     // segments with something to send or to report
  std::set<SegmentId> repairing_;  // closed ones of these that are replicated again
  LookAgain look_again_;
  std::map<ServerId, std::unique_ptr<Freeing>> freeing_;
  uint32_t raising_ = 0;
  bool counts_changed_ = true;  // and stats_ does not show it yet
  bool stopped_ = false;
  bool fenced_ = false;
  bool is_spoilt_ = false;
  bool told_too_few_ = false;
  int64_t no_place_since_ns_ = 0;  // since when a log head finds too few servers that take it; 0: none does
};

}  // namespace ramcore::master
