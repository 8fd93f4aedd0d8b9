#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/trace.h"
#include "log/cleaning/cleaner.h"
#include "log/log.h"
#include "master/cluster/change_keeper.h"
#include "master/cluster/coordinator_link.h"
#include "master/migration/migration_source.h"
#include "master/migration/migration_target.h"
#include "master/pinned/pinned_values.h"
#include "master/recovery/recovery_target.h"
#include "master/repair/memory_repair.h"
#include "master/replication/backup_gauge.h"
#include "master/replication/replica_manager.h"
#include "master/replication/replica_service.h"
#include "master/requests/master_service.h"
#include "master/server_report.h"
#include "master/tablet_report.h"
#include "master/tablet_service.h"
#include "rpc/caller.h"
#include "rpc/dispatch.h"
#include "store/maintenance.h"
#include "store/object_store.h"
#include "store/threads.h"

namespace ramcore::master {

struct MasterConfig {
  log::LogConfig log;
  index::IndexConfig index;
  ServerDescription self;
  rpc::PeerAddress coordinator;
  /// Replicas on other servers; with 0 nothing survives this process.
  ReplicationOptions replication;
  PinningOptions pinning;
  MemoryScrubOptions scrub;
  MigrationTarget::Slices move_slices;
  /// Workers that may clean at a time, as in log::cleanersMax.
  uint32_t cleaners_max = 0;
};

/// Told when the master begins to serve, and when it cannot go on.
class MasterObserver {
 public:
  virtual ~MasterObserver() = default;
  /// Called on the dispatch executor when the coordinator has given the id and before anything is served, for what has
  /// to know the id first (the backup that shares the process). Anything but Ok ends the master with onRejected.
  virtual runtime::Task<Status> prepareServing(ServerId id, ClusterId cluster) {
    (void)id;
    (void)cluster;
    co_return Status::Ok;
  }
  /// On the dispatch executor. The process uses the id in its handshakes from now on.
  virtual void onServing(ServerId id) = 0;
  /// Final: the process should stop. `why` is a line for a person.
  virtual void onRejected(const std::string& why) = 0;
  /// Final for this master: the coordinator has declared it dead. What it held is recovered by others; the process may
  /// go on with another master, as a new server.
  virtual void onFenced(const std::string& why) { onRejected(why); }
};

/// One master: builds, owns, starts and stops its log, its store and the parts of all rooms of this layer. The parts
/// that need the log come to life when the coordinator has given the server its id, because the log's segments carry
/// it.
///
/// Life: add the executors to Environment::threads, construct, start() on the dispatch executor, run; stop(), keep
/// running until stopped() and until hasPinnedMemory() is false, destroy when no executor runs any more.
class Master final : private LinkObserver {
 public:
  /// What a master needs of the world; borrowed, outlives it.
  struct Environment {
    runtime::Clock& clock;
    Trace& trace;
    rpc::Dispatch& dispatch;
    rpc::Caller& caller;
    runtime::Rcu& rcu;
    store::Threads& threads;
    log::LogMemory& memory;                 ///< memory of config.log.memory_bytes bytes
    log::Replicator* replicator = nullptr;  ///< used in place of what config.replication asks for
    uint64_t seed = 0;                      ///< seed of random choices: where replicas go
    const BackupGauge* backup = nullptr;    ///< the gauge of the backup in this process, if there is one
    runtime::Storage* storage = nullptr;    ///< storage of this server, for what it has heard; nullptr: it has none
    /// Whether this process has one processor now: then the dispatch thread cleans memory between its rounds. May be a
    /// system call. nullptr: it has several
    bool (*has_one_processor)() = nullptr;
  };
  /// Failure: BadConfig or NoSpace, for a person.
  static Outcome<std::unique_ptr<Master>> open(const MasterConfig& config, const Environment& environment,
                                               MasterObserver& observer);
  ~Master() override;

  /// Enlists; onServing follows. On the dispatch executor, before its first request.
  void start();
  /// Ends everything that runs: on the dispatch executor. `goodbye`: tell the coordinator.
  void stop(bool goodbye);
  /// Called when this process has heard that a server was declared dead: asks the coordinator which servers live.
  /// Replicas on the dead server are then replaced at once, and not after the next renewal of the lease. On the
  /// dispatch executor.
  void refreshMembers() { link_.refreshMembers(); }
  /// True when nothing of the master is queued or suspended any more.
  bool stopped() const;
  /// True while answers on their way still read the log. It must be false before the master is destroyed; it becomes so
  /// soon after the last request.
  bool hasPinnedMemory() const { return pins_.outstanding() != 0 || (parts_ && parts_->pinned.isBorrowed()); }
  /// The pins by which answers on their way keep the log's memory from being used again.
  runtime::PinRegistry& pins() { return pins_; }

  ServerId id() const { return link_.id(); }
  const store::ServerLease& lease() const { return lease_; }
  /// Whether commands of this start of the coordinator are carried out: only those of the start that has answered last.
  bool obeys(uint64_t start) const { return changes_->obeys(start); }
  /// The latest change of the coordinator's state that this server has heard of.
  ChangeRef heard() const { return changes_->latest(); }
  /// nullptr before the master serves.
  const log::Log* log() const { return parts_ ? &parts_->log : nullptr; }
  log::Log* log() { return parts_ ? &parts_->log : nullptr; }
  const MasterService* service() const { return parts_ ? &parts_->service : nullptr; }
  /// nullptr before the master serves.
  const PinnedValues* pinnedValues() const { return parts_ ? &parts_->pinned : nullptr; }
  const index::HashIndex& index() const { return *index_; }
  index::HashIndex& index() { return *index_; }
  const store::ObjectStore& store() const { return store_; }
  store::ObjectStore& store() { return store_; }
  /// nullptr before the master serves.
  const MigrationTarget* migrationTarget() const { return parts_ ? &parts_->target : nullptr; }
  /// nullptr before the master serves.
  const RecoveryTarget* recoveryTarget() const { return parts_ ? &parts_->recovery : nullptr; }
  const store::ResultTable& results() const { return results_; }
  /// nullptr without replication.
  const ReplicaManager* replicas() const { return replicas_.get(); }
  const store::TabletTable& tablets() const { return tablets_; }

 private:
  Master(const MasterConfig& config, const Environment& environment, MasterObserver& observer,
         std::unique_ptr<index::HashIndex> index, std::unique_ptr<ChangeKeeper> changes);

  // LinkObserver
  void onEnlisted(ServerId id, ClusterId cluster) override;
  void onMembers(std::vector<Member> members) override;
  ServerLoad load() const override;
  std::vector<IntakeRef> intakes() const override;
  void onRejected(Status status, const std::string& why) override;

  /// What exists once the server has its id.
  struct Parts {
    Parts(Master& master, ServerId id, ClusterId cluster);
    log::Log log;
    log::Cleaner cleaner;
    store::Maintenance maintenance;
    MemoryRepair repair;
    ClientAdmission admission;
    PinnedValues pinned;
    MigrationSource source;
    MigrationTarget target;
    RecoveryTarget recovery;
    TabletService tablet_service;
    ServerReport report;
    TabletReport tablet_report;
    MasterService service;
    std::optional<ReplicaService> replica_service;
  };

  runtime::Task<void> serve(ServerId id, ClusterId cluster);
  log::Replicator& replicator();

  /// Asks the coordinator now and then about clients that have not been heard of, and forgets those whose lease is
  /// over.
  runtime::Task<void> forgetLapsedClients();

  const MasterConfig config_;
  const Environment environment_;
  MasterObserver& observer_;
  runtime::Executor& background_;
  std::unique_ptr<index::HashIndex> index_;
  runtime::PinRegistry pins_;
  store::ServerLease lease_;
  store::TabletTable tablets_;
  store::ResultTable results_;
  store::ObjectStore store_;
  const std::unique_ptr<ChangeKeeper> changes_;
  CoordinatorLink link_;
  log::NoReplicator no_replicator_;
  std::unique_ptr<ReplicaManager> replicas_;
  std::unique_ptr<Parts> parts_;
  runtime::Signal stop_signal_;
  bool stop_ = false;
  bool forgetting_ = false;
  bool preparing_ = false;
};

}  // namespace ramcore::master
