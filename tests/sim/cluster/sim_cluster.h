#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/sim/sim_scheduler.h"
#include "runtime/sim/sim_trace.h"
#include "sim/cluster/sim_client.h"
#include "sim/cluster/sim_coordinator.h"
#include "sim/cluster/sim_server.h"
#include "transport/sim/sim_network.h"

namespace ramcore::sim {

/// What differs between clusters.
struct SimClusterOptions {
  transport::SimNetworkOptions network;
  SimReplicator::Options replication;
  uint32_t clean_below_free_percent = 25;  ///< two heads and the reserves take 40 percent
  DurableLedger* ledger = nullptr;         ///< outlives the cluster
};

/// A whole simulated cluster: one coordinator (that may be restarted), servers and clients on one network.
struct SimCluster {
  SimCluster(uint64_t seed, const SimClusterOptions& options);
  ~SimCluster();

  void startCoordinator();
  /// kill -9 of the coordinator: its store stays, with what was being committed there or not.
  void killCoordinator();
  void addServer();

  static constexpr const char* kClusterName = "sim";
  static constexpr const char* kCoordinatorNode = "coordinator";
  static std::string serverNode(size_t index) { return "server" + std::to_string(index + 1); }

  const SimClusterOptions options;
  runtime::SimScheduler scheduler;
  runtime::SimTraceLog trace;
  transport::SimNetwork network;
  coordinator::MemoryDisk disk;
  uint32_t coordinator_lives = 0;
  std::unique_ptr<SimCoordinator> coordinator;
  std::vector<std::unique_ptr<SimServer>> servers;
};

}  // namespace ramcore::sim
