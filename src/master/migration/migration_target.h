#pragma once

#include <atomic>
#include <map>
#include <memory>

#include "base/spin_lock.h"
#include "base/trace.h"
#include "log/log.h"
#include "log/side_log.h"
#include "rpc/caller.h"
#include "runtime/task.h"
#include "store/maintenance.h"
#include "store/object_store.h"
#include "store/tablet_intake.h"
#include "store/tablet_table.h"

namespace ramcore::master {

/// The new owner's side of a move: pulls a frozen tablet, replays it into a side log that joins this server's log, and
/// reports how far it is. Meanwhile the tablet is here in state Pulling, and no request for it is answered.
///
/// start(), cancel() and progress() from any executor of the master; pulls run on the background executor.
class MigrationTarget {
 public:
  struct Parts {
    ObjectStore& store;
    log::Log& log;
    TabletTable& tablets;
    ResultTable& results;
    rpc::Caller& caller;
    runtime::Executor& background;
    Maintenance& maintenance;
    Trace& trace;
  };
  using Progress = IntakeProgress;

  explicit MigrationTarget(const Parts& parts)
      : parts_(parts),
        intake_({parts.store, parts.log, parts.tablets, parts.results, parts.background, parts.maintenance}) {}
  /// idle() is true (checked).
  ~MigrationTarget();

  /// Begins to pull `tablet` (with the epoch it will have here) from `source`, which has frozen it under
  /// `source_epoch`. Ok also if that pull is going on or done already. A pull of the same tablet under an older epoch
  /// is given up and its contents are forgotten; StaleEpoch if there is one under a newer epoch.
  Status start(const Tablet& tablet, TabletEpoch source_epoch, const rpc::PeerAddress& source);
  /// How far the pull of a tablet is. NotFound: nothing is known of this tablet.
  Result<Progress> progress(TabletId tablet) const;
  /// Ends a pull under `epoch` or an older epoch, and forgets it. The pull stops within one slice. If it puts the
  /// tablet into the tablet table after this call, it takes it out again.
  void cancel(TabletId tablet, TabletEpoch epoch);
  /// Called when the tablet is in service: forgets its pull.
  void forget(TabletId tablet, TabletEpoch epoch) { cancel(tablet, epoch); }
  /// Ends all pulls; watch idle().
  void stop();
  bool idle() const { return running_.load() == 0; }

 private:
  struct Pull {
    Tablet tablet;
    TabletEpoch source_epoch;
    rpc::PeerAddress source;
    std::shared_ptr<Pull> former;  // the pull that was given up for this one, which waits for its end
    std::atomic<bool> cancelled{false};
    std::atomic<bool> done{false};
    std::atomic<Status> status{Status::Ok};
    std::atomic<uint64_t> objects{0};
    std::atomic<uint64_t> bytes{0};
    std::atomic<double> fraction{0};
    std::atomic<SegmentId> first_segment{};
    std::atomic<bool> lacks_places{false};
  };
  struct Slice;

  runtime::Detached run(std::shared_ptr<Pull> pull);
  runtime::Task<Status> runSteps(Pull& pull);
  runtime::Task<Status> prepare(Pull& pull, const TabletIntake::Patience& patience);
  runtime::Task<void> awaitFormer(Pull& pull);
  runtime::Task<Status> pullAll(Pull& pull, wire::Opcode opcode, KeyHash cursor, log::SideLog& side);
  runtime::Task<Status> pullSlice(Pull& pull, wire::Opcode opcode, KeyHash cursor, Slice& slice);
  runtime::Task<Status> replayAll(Pull& pull, const Slice& slice, log::SideLog& side);
  static Status decodeBatch(const Pull& pull, ByteSpan bytes, std::vector<log::EntryView>& batch);

  const Parts parts_;
  TabletIntake intake_;
  mutable SpinLock lock_;
  std::map<TabletId, std::shared_ptr<Pull>> pulls_ RC_GUARDED_BY(lock_);
  std::atomic<uint32_t> running_{0};
  std::atomic<bool> stopping_{false};
};

}  // namespace ramcore::master
