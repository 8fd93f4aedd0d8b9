#pragma once

#include "coordinator/calls/master_calls.h"
#include "coordinator/recovery/recovery_manager.h"
#include "coordinator/request_gate.h"
#include "coordinator/tablets/tablet_map.h"
#include "rpc/service_table.h"

namespace ramcore::coordinator {

/// Answers how the cluster is: what the coordinator knows, and what each server says of itself.
/// Thread: the dispatch's.
class StatusService {
 public:
  /// All are borrowed and outlive the service.
  struct Services {
    Journal& journal;
    const RequestGate& gate;
    const TabletMap& map;
    const Membership& membership;
    const RecoveryManager& recoveries;
    MasterCalls& calls;
  };
  explicit StatusService(const Services& services) : services_(services) {}

  runtime::Task<void> clusterStatus(rpc::Request request);
  runtime::Task<void> clusterLoads(rpc::Request request);

 private:
  const Services services_;
};

}  // namespace ramcore::coordinator
