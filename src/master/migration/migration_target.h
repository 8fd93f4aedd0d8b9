#pragma once

#include <atomic>
#include <memory>

#include "base/trace.h"
#include "log/log.h"
#include "log/side_log.h"
#include "rpc/caller.h"
#include "runtime/task.h"
#include "store/intake_attempts.h"
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
    store::ObjectStore& store;
    log::Log& log;
    store::TabletTable& tablets;
    store::ResultTable& results;
    rpc::Caller& caller;
    runtime::Executor& background;
    store::Maintenance& maintenance;
    Trace& trace;
  };
  using Progress = store::IntakeProgress;

  explicit MigrationTarget(const Parts& parts)
      : parts_(parts),
        intake_({parts.store, parts.log, parts.tablets, parts.results, parts.background, parts.maintenance}),
        attempts_(parts.trace) {}
  /// idle() is true (checked).
  ~MigrationTarget();

  /// Begins to pull `tablet` (with the epoch it will have here) from `source`, which has frozen it under
  /// `source_epoch`. Ok also if that pull is going on or done already. A pull of the same tablet under an older epoch
  /// is given up and its contents are forgotten; StaleEpoch if there is one under a newer epoch.
  Status start(const store::Tablet& tablet, TabletEpoch source_epoch, const rpc::PeerAddress& source);
  /// How far the pull of a tablet is. NotFound: nothing is known of this tablet.
  Result<Progress> progress(TabletId tablet) const { return attempts_.progress(tablet); }
  /// Ends a pull under `epoch` or an older epoch, and forgets it. The pull stops within one slice. If it puts the
  /// tablet into the tablet table after this call, it takes it out again.
  void cancel(TabletId tablet, TabletEpoch epoch) { attempts_.cancel(tablet, epoch); }
  /// Called when the tablet is in service: forgets its pull.
  void forget(TabletId tablet, TabletEpoch epoch) { cancel(tablet, epoch); }
  /// Ends all pulls; watch idle().
  void stop() { attempts_.stop(); }
  bool idle() const { return attempts_.idle(); }

 private:
  /// An attempt with one part.
  struct Pull : store::IntakeAttempt {
    Pull(const store::Tablet& wanted, TabletEpoch epoch, rpc::PeerAddress owner, const std::atomic<bool>& stopping)
        : store::IntakeAttempt(stopping), source_epoch(epoch), source(std::move(owner)) {
      parts.emplace_back().tablet = wanted;
    }
    const store::Tablet& tablet() const { return parts.front().tablet; }

    const TabletEpoch source_epoch;
    const rpc::PeerAddress source;
    std::shared_ptr<store::IntakeAttempt> former;  // the pull that was given up for this one, which waits for its end
  };
  struct Slice;

  runtime::Detached run(std::shared_ptr<Pull> pull);
  runtime::Task<Status> runSteps(Pull& pull);
  runtime::Task<Status> prepare(Pull& pull);
  runtime::Task<void> awaitFormer(Pull& pull);
  runtime::Task<Status> pullAll(Pull& pull, wire::Opcode opcode, KeyHash cursor, log::SideLog& side);
  runtime::Task<Status> pullSlice(Pull& pull, wire::Opcode opcode, KeyHash cursor, Slice& slice);
  runtime::Task<Status> replayAll(Pull& pull, const Slice& slice, log::SideLog& side);
  static Status decodeBatch(const Pull& pull, ByteSpan bytes, std::vector<log::EntryView>& batch);

  const Parts parts_;
  store::TabletIntake intake_;
  store::IntakeAttempts attempts_;
};

}  // namespace ramcore::master
