#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/trace.h"
#include "log/log.h"
#include "log/side_log.h"
#include "master/cluster/client_admission.h"
#include "master/migration/arrival_state.h"
#include "master/migration/client_activity.h"
#include "master/migration/partition_pull.h"
#include "master/migration/priority_pulls.h"
#include "master/migration/pull_pace.h"
#include "master/migration/room_claim.h"
#include "rpc/caller.h"
#include "runtime/epoch.h"
#include "runtime/task.h"
#include "store/arriving_range.h"
#include "store/intake_attempts.h"
#include "store/maintenance.h"
#include "store/object_store.h"
#include "store/tablet_intake.h"
#include "store/tablet_table.h"
#include "wire/migration_messages.h"

namespace ramcore::master {

struct PulledSlice;

/// The new owner's side of a move (docs/migration.md). Each step begins with a command of the coordinator, which may be
/// repeated:
///
/// - start() gets ready: purges the range, rolls the head, claims room (RoomClaim), opens the anchor. The tablet is
///   in state Pulling then.
/// - adopt() takes over the results of calls, and the ceiling of versions, from the frozen source.
/// - arrive(): the tablet answers (state Arriving), and its contents are pulled: its partitions beside each other, each
///   in the order of hashes (PartitionPull), into side logs that join the log; before others those for which calls wait
///   (PriorityPulls).
/// - settle(): the contents are in this server's log alone, and the tablet is a usual one.
///
/// After arrive() nothing is given up: a source that does not answer, or answers nonsense, is asked again and again. If
/// the source dies, interrupt() ends the pulling, and a recovery brings the rest.
///
/// Commands and progress(): any executor of the master. Pulls run on the background executor; partitions are shared out
/// among all workers.
class MigrationTarget final : private PriorityPulls::Listener {
 public:
  struct Parts {
    store::ObjectStore& store;
    log::Log& log;
    store::TabletTable& tablets;
    store::ResultTable& results;
    ClientAdmission& admission;
    rpc::Caller& caller;
    runtime::Executor& background;
    /// Other workers, which take a share of what arrives. Borrowed
    std::span<runtime::Executor* const> others;
    store::Maintenance& maintenance;
    runtime::Rcu& rcu;
    Trace& trace;
  };
  using Slices = SliceSizes;
  using Phase = PullPhase;
  struct Progress : store::IntakeProgress {
    Phase phase = Phase::Preparing;
    Status problem = Status::Ok;   ///< why the last attempt to pull failed, while it is repeated; Corrupt also if keys
                                   ///< are lost at the source
    RoomClaim::Shortage shortage;  ///< of one that failed with NoSpace
  };

  MigrationTarget(const Parts& parts, const Slices& slices)
      : parts_(parts),
        slices_(slices),
        intake_({parts.store, parts.log, parts.tablets, parts.results, parts.background, parts.maintenance}),
        attempts_(parts.trace),
        activity_(parts.tablets),
        priority_pulls_(*this) {}
  /// idle() is true (checked).
  ~MigrationTarget();

  /// Begins to get ready for `tablet` (with the epoch it will have here), which `source` holds under `source_epoch`. Ok
  /// also if that was begun. A pull of the same tablet under an older epoch is given up and its contents are forgotten;
  /// StaleEpoch if there is one under a newer epoch.
  /// @param returns  this server has lent the tablet to `source`, and gets it back: what is here is kept, and what was
  ///                 changed there is pulled
  Status start(const store::Tablet& tablet, TabletEpoch source_epoch, const rpc::PeerAddress& source, bool returns);
  /// @param version_ceiling  above the version of every key of the tablet
  /// @return Ok: done. RetryLater: it goes on. StaleEpoch, NotFound: not prepared under this epoch. Otherwise the
  /// status
  ///         of a pull that has failed, or NotFound in place of RetryLater
  Status adopt(TabletId tablet, TabletEpoch epoch, Version version_ceiling);
  /// Puts an adopted tablet into state Arriving. Ok also if that was done. RetryLater: not adopted yet; otherwise as
  /// adopt().
  Status arrive(TabletId tablet, TabletEpoch epoch);
  /// Called when the tablet is in state Normal: gives back what its arrival has needed. Nothing if it did not arrive.
  void settle(TabletId tablet);
  /// The source is dead. Nothing more is pulled, what has not arrived is not served, and answers that come late are
  /// thrown away.
  /// @return true: that is done, and what was pulled is in the log; or there is no pull of this tablet. False: call
  ///         again
  bool interrupt(TabletId tablet);

  /// Bounds how fast the contents of a tablet come, with those of all others (PullPace). Nothing if it does not come.
  /// @param rate_max  bytes a second; 0: any
  void setRate(TabletId tablet, uint64_t rate_max);
  /// How far the pull of a tablet is. NotFound: nothing is known of this tablet.
  Result<Progress> progress(TabletId tablet) const;
  /// Ends a pull under `epoch` or an older epoch, and forgets it: its tablet is dropped. The pull stops within one
  /// slice. If it puts the tablet into the tablet table after this call, it takes it out again.
  void cancel(TabletId tablet, TabletEpoch epoch) { attempts_.cancel(tablet, epoch); }
  /// As cancel(), of a tablet that does not come back after all: it stays lent. Does nothing to other pulls.
  void cancelReturn(TabletId tablet, TabletEpoch epoch);
  /// Ends all pulls; watch idle().
  void stop() { attempts_.stop(); }
  bool idle() const { return attempts_.idle(); }

  /// Where calls wait for keys that have not arrived.
  PriorityPulls& priorityPulls() { return priority_pulls_; }
  const ArrivalStats& stats() const { return stats_; }
  const PriorityPulls::Stats& waitStats() const { return priority_pulls_.stats(); }

 private:
  struct Pull;

  std::shared_ptr<Pull> find(TabletId tablet) const;
  static Status check(const Pull& pull, TabletEpoch epoch, Phase least);
  void onWanted(TabletId tablet) override;

  runtime::Detached run(std::shared_ptr<Pull> pull);
  runtime::Task<Status> runSteps(Pull& pull);
  runtime::Task<Status> prepare(Pull& pull);
  runtime::Task<Status> clear(Pull& pull);
  Status keepOwn(Pull& pull);
  runtime::Task<Status> openAnchor(Pull& pull);
  runtime::Task<void> confirmClients(Pull& pull);
  runtime::Task<void> awaitFormer(Pull& pull);
  runtime::Task<Status> awaitOrder(Pull& pull, Phase wanted);
  runtime::Task<Status> adoptResults(Pull& pull);
  runtime::Task<Status> takeArrival(Pull& pull);
  runtime::Task<bool> awaitGrace(Pull& pull);
  runtime::Task<void> release(Pull& pull);

  size_t partitionsFor(uint64_t bytes) const;
  size_t lanesFor(uint64_t bytes) const;
  void openLanes(Pull& pull);
  runtime::Task<Status> pullResults(Pull& pull);
  runtime::Task<Status> pullContents(Pull& pull);
  runtime::Detached pullPartition(Pull& pull, size_t index);
  runtime::Task<Status> joinLanes(Pull& pull);
  runtime::Task<void> giveUpLanes(Pull& pull);

  runtime::Detached runHashPull(std::shared_ptr<Pull> pull);

  const Parts parts_;
  const Slices slices_;
  store::TabletIntake intake_;
  store::IntakeAttempts attempts_;
  ClientActivity activity_;
  PullPace pace_;
  PriorityPulls priority_pulls_;
  ArrivalStats stats_;
};

}  // namespace ramcore::master
