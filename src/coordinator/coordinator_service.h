#pragma once

#include "coordinator/coordinator_options.h"
#include "coordinator/move_service.h"
#include "coordinator/recovery/recovery_manager.h"
#include "coordinator/request_gate.h"
#include "coordinator/state/change_history.h"
#include "coordinator/status_service.h"
#include "coordinator/tablets/migration_manager.h"
#include "coordinator/tablets/split_manager.h"
#include "coordinator/tablets/table_manager.h"
#include "rpc/service_table.h"

namespace ramcore::coordinator {

/// One short handler per request: decode, check, act, reply. addTo() says which roles may ask for what.
/// Thread: the dispatch's.
class CoordinatorService {
 public:
  struct Services {
    Journal& journal;
    const ChangeHistory& history;
    TabletMap& map;
    Membership& membership;
    ClientLeases& clients;
    TableManager& tables;
    MigrationManager& migrations;
    SplitManager& splits;
    RecoveryManager& recoveries;
    MasterCalls& status_calls;
    Trace& trace;
  };
  CoordinatorService(const Services& services, const CoordinatorOptions& options)
      : services_(services),
        options_(options),
        gate_(services.journal, services.history, services.membership, services.trace),
        status_(
            {services.journal, gate_, services.map, services.membership, services.recoveries, services.status_calls}),
        moves_({services.journal, gate_, services.migrations, services.splits}, options) {}
  void addTo(rpc::ServiceTable& table);
  /// Which requests are served; opened when the state has been read.
  RequestGate& gate() { return gate_; }
  const RequestGate& gate() const { return gate_; }

  void ping(rpc::Request request);
  runtime::Task<void> enlist(rpc::Request request);
  void renewServer(rpc::Request request);
  runtime::Task<void> goodbye(rpc::Request request);
  void getMembership(rpc::Request request);
  runtime::Task<void> raiseFloor(rpc::Request request);
  void checkMasters(rpc::Request request);
  runtime::Task<void> createTable(rpc::Request request);
  runtime::Task<void> dropTable(rpc::Request request);
  void listTables(rpc::Request request);
  void getTablets(rpc::Request request);
  runtime::Task<void> openClient(rpc::Request request);
  void renewClient(rpc::Request request);
  runtime::Task<void> closeClient(rpc::Request request);
  runtime::Task<void> checkClients(rpc::Request request);
  runtime::Task<void> acceptLoss(rpc::Request request);

 private:
  int64_t waitDeadlineNs() const { return services_.journal.nowNs() + options_.request_wait_ns; }

  const Services services_;
  const CoordinatorOptions options_;
  RequestGate gate_;
  StatusService status_;
  MoveService moves_;
};

}  // namespace ramcore::coordinator
