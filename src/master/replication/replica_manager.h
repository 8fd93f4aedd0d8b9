#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/trace.h"
#include "log/replicator.h"
#include "master/replication/floor_keeper.h"
#include "master/replication/log_requests.h"
#include "master/replication/members.h"
#include "master/replication/replica_freeing.h"
#include "master/replication/replica_placement.h"
#include "master/replication/replication_stats.h"
#include "master/replication/segment_table.h"
#include "master/replication/write_admission.h"
#include "rpc/caller.h"
#include "rpc/dispatch.h"
#include "runtime/random.h"
#include "runtime/task.h"

namespace ramcore::master {

/// Keeps R replicas of every segment of a log on other servers: the log's Replicator.
///
/// Bytes are reported durable when they are on all replicas of the segment. A recovery relies on a single open replica
/// of the log head, so the set of these replicas changes only in this order: nothing is reported any more; the replicas
/// that stay and the new ones are certified under the next replica epoch, and flushed; the coordinator stores this
/// epoch as the log's floor; only then reports go on. No floor is raised for a server that was declared dead, so it
/// cannot go on alone. Closed segments, survivors and side logs count when they are closed, and a closed replica is
/// complete. Their lost replicas are made again in the background, without a floor. See Replica for the calls that are
/// in flight.
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
    /// Called when an entry was damaged in memory before it was replicated, and cannot be mended: the server has to
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
  bool isIdle() const { return raising_ == 0 && !requests_.isPosted(); }
  /// True if the server lives, as far as is known here.
  bool isMember(ServerId server) const { return placement_.isMember(server); }

  /// Whether this log still needs a replica of `segment` that a backup has kept from its former life. The backup has to
  /// be a member: then its former life is not a member any more, and no replica there is counted.
  bool isNeeded(SegmentId segment) const { return segments_.isNeeded(segment); }
  /// A backup says that it cannot read its replica of the segment any more: another one is made. Does nothing if the
  /// backup has none, or one of a later epoch than `replica_epoch`.
  void noteLostReplica(ServerId backup, SegmentId segment, uint64_t replica_epoch);

  using Counts = ReplicaCounts;
  Counts counts() const { return segments_.counts(); }
  using Known = KnownReplica;
  /// The replicas of all segments that are not freed.
  std::vector<Known> replicas() const { return segments_.replicas(); }
  using Holder = ReplicaHolder;
  /// The servers with a closed replica of the segment, as far as is known here.
  std::vector<Holder> closedHolders(SegmentId segment) const { return segments_.closedHolders(segment); }
  /// The other servers that keep replicas, those that came last first: one of them may have a closed replica of the
  /// segment from its former life.
  std::vector<rpc::PeerAddress> otherBackups(SegmentId segment) const;
  using Stats = ReplicationStats;
  /// For metrics; any thread.
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
  uint32_t storagePercent() const override { return admission_.storagePercent(); }
  uint32_t copyCount() const override { return placement_.wantedCount(); }
  Status writeStatus() const override { return admission_.writeStatus(); }
  Status removeStatus() const override { return admission_.removeStatus(); }
  bool isShortOfPlaces() const override { return admission_.isShortOfPlaces(); }
  bool isHeadStuck() const override { return admission_.isHeadStuck(); }

 private:
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

  // ReplicaOwner
  bool mayRaiseFloor(SegmentId segment) const override { return segments_.areEarlierHeadsClosed(segment); }
  void raiseFloor(SegmentId segment, uint64_t replica_epoch) override;
  void noteLost(ServerId backup, Status why, uint8_t frame_flags) override;
  void noteRotten(ServerId backup) override;
  bool noteSpoilt(const log::Segment& segment, uint32_t offset_bytes) override;
  void wake() override { requests_.wake(); }
  void stepNow(SegmentId segment) override;

  void pump();
  void applyQueued();
  void apply(const LogRequest& request);
  void stepAll();
  void forget(SegmentId segment);
  bool withdrawIfStuck(SegmentId segment);
  runtime::Task<void> raise(SegmentId segment, uint64_t replica_epoch);
  void refreshCounts();

  const Environment environment_;
  log::ReplicationEvents* events_ = nullptr;
  ClusterId cluster_;
  Stats stats_;
  Pump pump_;
  LogRequests requests_;
  ReplicaPlacement placement_;
  WriteAdmission admission_;

  // Only for the dispatch thread.
  SegmentTable segments_;
  std::set<SegmentId> active_;     // segments with something to send or to report
  std::set<SegmentId> repairing_;  // closed segments of these that have a turn to be replicated again
  LookAgain look_again_;
  ReplicaFreeing freeing_;
  uint32_t raising_ = 0;
  bool counts_changed_ = true;  // counts() may have changed, and stats_ does not show that yet
  bool stopped_ = false;
  bool is_spoilt_ = false;
};

}  // namespace ramcore::master
