#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "log/memory/log_config.h"
#include "runtime/sim/sim_scheduler.h"
#include "runtime/sim/sim_trace.h"
#include "sim/cluster/sim_client.h"
#include "sim/cluster/sim_coordinator.h"
#include "sim/cluster/sim_run.h"
#include "sim/cluster/sim_server.h"
#include "transport/sim/sim_network.h"

namespace ramcore::sim {

inline constexpr int64_t kMilli = runtime::kNanosPerMilli;
inline constexpr int64_t kSecond = runtime::kNanosPerSecond;

/// What differs between clusters.
struct SimClusterOptions {
  transport::SimNetworkOptions network;
  SimReplicator::Options replication;
  /// Servers have disks, and copies on each other's: they may die.
  bool durable = false;
  uint64_t storage_bytes = 16u << 20;
  log::LogConfig log = smallLog();    ///< of each server
  uint32_t worker_count = 3;          ///< likewise
  uint32_t cleaners_max = 2;          ///< likewise
  bool one_processor = true;          ///< a third of them has one, and its dispatch helps the cleaner
  unsigned initial_buckets_log2 = 0;  ///< of each server's index, which splits all the time; it has as many stripes
  runtime::SimExecutor::Delays dispatch_delays;  ///< of servers
  backup::ScrubOptions scrub;
  master::MemoryScrubOptions memory_scrub;
  master::ReplicationOptions replicas;
  int64_t verdict_after_ns = 10 * runtime::kNanosPerSecond;
  int64_t client_lease_ns = coordinator::ClientLeases::kLeaseNsDefault;
  DurableLedger* ledger = nullptr;  ///< outlives the cluster

  /// Two heads and the reserves take 40 percent of the memory: cleaning begins soon.
  static log::LogConfig smallLog() {
    log::LogConfig config = log::LogConfig::forTest();
    config.clean_below_free_permille = 250;
    return config;
  }
};

/// Options that an operator may change when a process is started again. They apply to processes started from then on.
struct SimProcessOptions {
  // Of the coordinator.
  int64_t lease_ns = 2 * runtime::kNanosPerSecond;
  int64_t verdict_after_ns = 10 * runtime::kNanosPerSecond;
  int64_t client_lease_ns = coordinator::ClientLeases::kLeaseNsDefault;
  /// Of servers that fall silent together.
  int64_t togetherNs() const { return std::max(3 * verdict_after_ns, 9 * runtime::kNanosPerSecond); }
  // Of servers.
  master::ReplicationOptions replicas;
  uint64_t memory_bytes = 0;
};

/// A whole simulated cluster: one coordinator (that may be restarted), servers and clients on one network.
struct SimCluster {
  SimCluster(uint64_t seed, const SimClusterOptions& options);
  ~SimCluster();

  void startCoordinator();
  /// Another coordinator in the place of the one that was killed: of another cluster, or with an older copy of the
  /// state. Until it is killed there is no coordinator here.
  void startImpostor(std::unique_ptr<coordinator::MemoryDisk> disk);
  void killImpostor();
  /// kill -9 of the coordinator: its store stays, with what was being committed there or not.
  void killCoordinator();
  /// @param storage_bytes_min  of its storage, if that is more than what the others have
  void addServer(uint64_t storage_bytes_min = 0);
  /// kill -9 of a server, or with `power` the loss of its machine's power. Its disk stays.
  void killServer(size_t index, bool power);
  /// Starts a server on the disk of one that was killed, as a new process.
  void restartServer(size_t index);
  /// The counts of all processes of servers and coordinators, those that have died included.
  RunCounts countAll() const;
  bool isDown(size_t index) const { return down_.contains(index); }
  /// Whether all servers serve. Before that, the tablets of a new table go only to those that do.
  bool allServe() const;
  /// Down since its machine lost power: what is left on its disk is nobody's yet.
  bool isPowerless(size_t index) const { return powerless_.contains(index); }
  /// The machine has lost its power since the process of that name, of any machine, was started.
  bool hasLostPowerSince(size_t index, const std::string& process) const;
  /// Called right before and after a process is killed or a server started again.
  std::function<void(const char* what)> on_fault;

  static constexpr const char* kClusterName = "sim";
  static constexpr const char* kCoordinatorNode = "coordinator";
  /// Of the first process on a machine; for those that came later ask the server.
  static std::string serverNode(size_t index) { return "server" + std::to_string(index + 1); }

  const SimClusterOptions options;
  SimProcessOptions process_options;  ///< at first as `options` say
  runtime::SimScheduler scheduler;
  runtime::SimTraceLog trace;
  transport::SimNetwork network;
  coordinator::MemoryDisk disk;
  std::unique_ptr<coordinator::MemoryDisk> impostor_disk;
  std::unique_ptr<SimCoordinator> impostor;
  uint32_t coordinator_lives = 0;
  std::unique_ptr<SimCoordinator> coordinator;
  std::vector<std::unique_ptr<runtime::SimDisk>> disks;
  std::vector<std::unique_ptr<SimServer>> servers;

 private:
  std::unique_ptr<SimCoordinator> makeCoordinator(coordinator::MemoryDisk& on);
  std::unique_ptr<SimServer> makeServer(size_t index);

  std::vector<std::unique_ptr<SimServer>> dead_;  // processes that were replaced
  RunCounts counts_of_coordinators_;              // those that were killed
  std::vector<uint32_t> lives_;
  std::vector<uint64_t> storage_bytes_;  // of each server
  std::set<size_t> down_;
  std::set<size_t> powerless_;
  std::map<size_t, int64_t> power_lost_ns_;  // the last time, of machines that have
  std::map<std::string, int64_t> began_ns_;  // every process of a server, by its name
};

}  // namespace ramcore::sim
