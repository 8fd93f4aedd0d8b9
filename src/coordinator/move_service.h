#pragma once

#include "coordinator/coordinator_options.h"
#include "coordinator/request_gate.h"
#include "coordinator/tablets/migration_manager.h"
#include "coordinator/tablets/split_manager.h"
#include "rpc/service_table.h"

namespace ramcore::coordinator {

/// Handlers of the requests about moves and splits of tablets.
/// Thread: the dispatch's.
class MoveService {
 public:
  /// All are borrowed and outlive the service.
  struct Services {
    Journal& journal;
    const RequestGate& gate;
    MigrationManager& migrations;
    SplitManager& splits;
  };
  MoveService(const Services& services, const CoordinatorOptions& options) : services_(services), options_(options) {}
  void addTo(rpc::ServiceTable& table);

 private:
  runtime::Task<void> moveTablet(rpc::Request request);
  runtime::Task<void> splitTable(rpc::Request request);
  void migrationStatus(rpc::Request request);
  void listMigrations(rpc::Request request);
  runtime::Task<void> setRate(rpc::Request request);
  runtime::Task<void> cancelMigration(rpc::Request request);
  int64_t waitDeadlineNs() const { return services_.journal.nowNs() + options_.request_wait_ns; }

  const Services services_;
  const CoordinatorOptions options_;
};

}  // namespace ramcore::coordinator
