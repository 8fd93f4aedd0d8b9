#pragma once

#include <functional>

#include "coordinator/coordinator.h"
#include "coordinator/recovery/recovery_manager.h"
#include "coordinator/state/change_history.h"
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
      : services_(services), options_(options) {}
  void addTo(rpc::ServiceTable& table);
  /// From now on requests are answered. Before, they get NotLeader.
  void open() { is_open_ = true; }
  /// From now on requests are answered with `why`.
  void close(Status why = Status::NotLeader) {
    is_open_ = false;
    closed_ = why;
  }
  /// `on_missing` is called when a server names a change of the cluster's state that is not here. Once, before open().
  void setOnMissing(std::function<void(ServerId server, ChangeRef missing)> on_missing) {
    on_missing_ = std::move(on_missing);
  }
  bool isOpen() const { return is_open_; }

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
  runtime::Task<void> moveTablet(rpc::Request request);
  runtime::Task<void> splitTable(rpc::Request request);
  runtime::Task<void> clusterStatus(rpc::Request request);
  void migrationStatus(rpc::Request request);
  runtime::Task<void> cancelMigration(rpc::Request request);
  runtime::Task<void> acceptLoss(rpc::Request request);

 private:
  template <typename Message>
  Status receive(const rpc::Request& request, Message& message) const;
  template <typename Message>
  Status receiveSettled(const rpc::Request& request, Message& message) const;
  Status unlessBehind(Status status) const;
  Status ofChange(Status status) const;
  /// As receive(), for a request that a server makes in its own name: a server's id belongs to one cluster.
  template <typename Message>
  Status receiveOfMember(const rpc::Request& request, Message& message) const;
  bool isReliable(const rpc::Request& request) const;
  /// StateBehind: this change is missing here. BadRequest: it makes no sense.
  Status checkHeard(ServerId server, ClusterId cluster, ChangeRef heard);
  int64_t waitDeadlineNs() const { return services_.journal.nowNs() + options_.request_wait_ns; }

  const Services services_;
  const CoordinatorOptions options_;
  std::function<void(ServerId, ChangeRef)> on_missing_;
  bool is_open_ = false;
  Status closed_ = Status::NotLeader;
  bool told_of_nonsense_ = false;
};

}  // namespace ramcore::coordinator
