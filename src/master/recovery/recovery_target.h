#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "base/spin_lock.h"
#include "base/trace.h"
#include "log/log.h"
#include "log/side_log.h"
#include "master/recovery/replica_reader.h"
#include "rpc/caller.h"
#include "runtime/task.h"
#include "store/dead_versions.h"
#include "store/intake_attempts.h"
#include "store/maintenance.h"
#include "store/object_store.h"
#include "store/tablet_intake.h"
#include "store/tablet_table.h"

namespace ramcore::master {

/// More mutations than there can be in a part of a log that is lost without a trace of their number: each log head says
/// which versions were handed out before it. At a million mutations a second it is twelve days of them. A log may be
/// salvaged some thirty thousand times before versions run out.
inline constexpr Version kSalvageVersionStep = Version{1} << 40;

/// What a recovery master is to do: which tablets of whose log, and where the segments of that log are.
struct RecoveryPlan {
  struct Part {
    store::Tablet tablet;  ///< the tablet, with the epoch that it will have here
    /// In each of RecoveryPlan::logs; earlier segments are of an earlier ownership.
    std::vector<SegmentId> first_segments;
  };
  struct Segment {
    SegmentId id;
    std::vector<uint32_t> holders;               ///< indexes of RecoveryPlan::holders
    bool is_cut = false;                         ///< nothing of it is replayed; its safe version counts
    std::vector<wire::ReplicaVersion> replicas;  ///< for each of these: the replica that was chosen
  };
  struct Log {
    ServerId dead;
    std::vector<rpc::PeerAddress> holders;
    std::vector<Segment> segments;  ///< all members of the log, each once, and nothing else
    /// `segments` are not all members of the log: others are lost. Every object gets the version that is
    /// kSalvageVersionStep above the highest one found, and new objects get higher ones.
    bool is_salvage = false;

    bool validate();
  };
  /// One; or two that are replayed together, for tablets that were being handed over when both servers died.
  std::vector<Log> logs;
  std::vector<Part> parts;
  /// The tablets are here already, and keep what they have: they were being handed over to this server or by it.
  bool is_survivor = false;

  bool isSalvage() const {
    return std::ranges::any_of(logs, [](const Log& log) { return log.is_salvage; });
  }
  /// Whether the plan makes sense. Also sorts parts in the order of their ranges, and segments newest first.
  bool validate();
};

/// The recovery master: fetches tablets from the replicas of a dead server's log, replays them in any order into a side
/// log that joins this server's log, and reports how far it is. Meanwhile the tablets are here in state Pulling, and no
/// request for them is answered, until the coordinator has stored which server owns them and says so.
///
/// Nothing of this is needed if this server dies before that: the dead server's log is still there. So replayed
/// contents may join this server's log in several pieces when memory is short, so that the cleaner can work on what has
/// died in them. For the same reason a recovery that finds no storage frames for its replicas for 10 s fails with
/// TooFewReplicas and gives back those that it has: several recoveries might each hold some, and none enough. The dead
/// server's log is given up when a recovery is done. Therefore a recovery is done only when all wanted replicas are
/// there. With fewer, as many as writes need, it is done only if for some seconds there are no storage frames for more.
///
/// start(), cancel() and progress() from any executor of the master; recoveries run on the background executor, several
/// at a time. Memory: a few segments of the dead log, and DeadVersions, which stats() counts.
class RecoveryTarget {
 public:
  struct Parts {
    store::ObjectStore& store;
    log::Log& log;
    store::TabletTable& tablets;
    store::ResultTable& results;
    rpc::Caller& caller;
    runtime::Executor& background;
    store::Maintenance& maintenance;
    Trace& trace;
  };

  explicit RecoveryTarget(const Parts& parts)
      : parts_(parts),
        intake_({parts.store, parts.log, parts.tablets, parts.results, parts.background, parts.maintenance}),
        reader_(parts.caller, parts.background),
        attempts_(parts.trace) {}
  /// idle() is true (checked).
  ~RecoveryTarget();

  /// Begins a recovery. Ok also if it is going on or done already: the same tablets under the same epochs. Older
  /// attempts of a tablet are given up, and what they brought is forgotten. StaleEpoch if a tablet is known under a
  /// newer epoch, or under this epoch together with other tablets.
  /// @param plan  validated. None of its tablets is in service here, unless plan.is_survivor: then all are here,
  /// nothing
  ///              arrives for them any more (MigrationTarget::interrupt), and what has not arrived is not served
  Status start(RecoveryPlan plan);
  /// Whether exactly this recovery is known; some of its tablets may have been taken into service.
  bool knows(const RecoveryPlan& plan) const;
  /// How far the recovery of a tablet is. NotFound: nothing is known of this tablet. Fraction and status are those of
  /// the whole recovery.
  Result<store::IntakeProgress> progress(TabletId tablet) const { return attempts_.progress(tablet); }
  /// Gives up one tablet that is recovered under `epoch` or an older epoch, and forgets it; the others go on. When all
  /// are given up the recovery ends within one page. If it puts the tablet into the tablet table after this call, it
  /// takes it out again. What it has replayed is purged by the next intake that takes the range.
  void cancel(TabletId tablet, TabletEpoch epoch) { attempts_.cancel(tablet, epoch); }
  /// Called when the tablet is in service: forgets its recovery.
  void forget(TabletId tablet, TabletEpoch epoch) { cancel(tablet, epoch); }
  /// Ends all recoveries; watch idle().
  void stop() { attempts_.stop(); }
  bool idle() const { return attempts_.idle(); }

  struct Stats {
    std::atomic<uint64_t> replayed_bytes{0};   ///< bytes of entries, also of those that were dead
    std::atomic<uint64_t> notes_bytes{0};      ///< memory of DeadVersions of all recoveries that run
    std::atomic<uint64_t> notes_bytes_max{0};  ///< the most that it has been
    std::atomic<uint64_t> waits_for_room{0};   ///< pauses because the log had no room, or for a damaged entry
    std::atomic<uint64_t> early_joins{0};  ///< joins of a part of what is replayed, so that the cleaner may work on it
  };
  const Stats& stats() const { return stats_; }

 private:
  using Part = store::IntakeAttempt::Part;
  struct Recovery;
  struct Fetch;

  runtime::Detached run(std::shared_ptr<Recovery> recovery);
  runtime::Task<Status> prepare(Recovery& recovery);
  Status prepareSurvivor(Recovery& recovery);
  static bool hasArrived(const Recovery& recovery, const RecoveredEntry& found);
  void openSide(Recovery& recovery);
  runtime::Task<Status> replayLog(Recovery& recovery);
  runtime::Task<Status> replaySegments(Recovery& recovery);
  void startFetch(Recovery& recovery, size_t number, Fetch& fetch);
  static bool isCut(const Recovery& recovery, size_t number);
  runtime::Task<Status> replaySegment(Recovery& recovery, const SegmentContents& contents);
  runtime::Task<Status> giveWay(Recovery& recovery, Status status, bool has_progressed, int64_t& last_progress_ns);
  Status replayTurn(Recovery& recovery, const SegmentContents& contents, size_t& next);
  void countNotes(Recovery& recovery);
  runtime::Task<Status> renewVersions(Recovery& recovery);
  runtime::Task<Status> makeRoom(Recovery& recovery, int64_t stuck_ns);

  void awaitEarlier(const std::shared_ptr<Recovery>& recovery) RC_EXCLUDES(lock_);

  const Parts parts_;
  store::TabletIntake intake_;
  ReplicaReader reader_;
  SpinLock lock_;                                                          // a leaf
  std::vector<std::weak_ptr<Recovery>> at_survivor_ RC_GUARDED_BY(lock_);  // attempts as a survivor, which may be over
  store::IntakeAttempts attempts_;
  Stats stats_;
};

}  // namespace ramcore::master
