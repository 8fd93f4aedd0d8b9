#pragma once

#include <map>

#include "base/spin_lock.h"
#include "base/trace.h"
#include "log/log.h"
#include "master/cluster/change_keeper.h"
#include "master/migration/migration_target.h"
#include "master/recovery/recovery_target.h"
#include "rpc/service_table.h"
#include "runtime/task.h"
#include "store/maintenance.h"
#include "store/object_store.h"
#include "store/result_table.h"
#include "store/tablet_table.h"

namespace ramcore::wire::control {
class TakeTabletRequest;
}

namespace ramcore::master {

/// Handlers of the coordinator's commands about tablets (take, drop, split, freeze, pull, adopt, lend, recover), and of
/// its questions about their progress. Every command may be repeated: it answers Ok when its effect is there. Handlers
/// run on the dispatch executor; those that have to wait are coroutines. Dropped tablets are cleared on the background
/// executor.
class TabletService {
 public:
  struct Parts {
    ServerId self;
    store::ObjectStore& store;
    log::Log& log;
    store::TabletTable& tablets;
    store::ResultTable& results;
    MigrationTarget& target;
    RecoveryTarget& recovery;
    store::Maintenance& maintenance;
    runtime::Rcu& rcu;
    runtime::Executor& background;
    Trace& trace;
    ChangeKeeper& changes;
  };
  explicit TabletService(const Parts& parts) : parts_(parts) {}
  /// idle() is true (checked).
  ~TabletService();
  void addTo(rpc::ServiceTable& table);

  runtime::Task<void> takeTablet(rpc::Request request);
  runtime::Task<void> dropTablet(rpc::Request request);
  void splitTablet(rpc::Request request);
  runtime::Task<void> freezeTablet(rpc::Request request);
  runtime::Task<void> lendTablet(rpc::Request request);
  void adoptTablet(rpc::Request request);
  void unfreezeTablet(rpc::Request request);
  void pullTablet(rpc::Request request);
  void recoverTablets(rpc::Request request);
  void pullProgress(rpc::Request request);

  /// Ends clearing of dropped tablets; watch idle().
  void stop() { stop_.store(true); }
  bool idle() const { return running_.load() == 0; }

 private:
  /// True if the request comes from the start of the coordinator that this server obeys. Commands of a coordinator that
  /// has not yet been told what this server has heard are not carried out; that coordinator is told soon.
  bool obeys(const rpc::Request& request) const;
  void take(rpc::Request request, const wire::control::TakeTabletRequest& ask);
  Status takeFetched(const store::Tablet& tablet);
  Status takeRecovered(const store::Tablet& tablet, const store::Tablet& present);
  /// Whether the coordinator has dropped a tablet under `epoch` or a newer one: a command that wants it back is too
  /// late.
  bool isDropped(TabletId tablet, TabletEpoch epoch);
  void noteDropped(TabletId tablet, TabletEpoch epoch);
  /// The progress of a tablet whose contents are fetched under an epoch, from another master or from replicas.
  Result<store::IntakeProgress> intakeOf(TabletId tablet, TabletEpoch epoch) const;
  /// Whether a recovery that brings this tablet may begin. Ok with `is_here`: it has begun and is over, and the tablet
  /// is in service here.
  Status checkRecovery(const store::Tablet& tablet, bool is_survivor, bool& is_here);
  Status recoverOver(RecoveryPlan plan);
  runtime::Task<Status> drained(runtime::Executor& executor);
  runtime::Detached clear(store::Tablet tablet);

  const Parts parts_;
  std::atomic<uint32_t> running_{0};
  std::atomic<bool> stop_{false};
  SpinLock lock_;  // a leaf
  // Highest epoch of a drop by tablet, held here or not. Kept for the life of the process: a few bytes per move.
  std::map<TabletId, TabletEpoch> dropped_ RC_GUARDED_BY(lock_);
};

}  // namespace ramcore::master
