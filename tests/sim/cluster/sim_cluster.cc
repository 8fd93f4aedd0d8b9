#include "sim/cluster/sim_cluster.h"

namespace ramcore::sim {

SimCluster::SimCluster(uint64_t seed, const SimClusterOptions& chosen)
    : options(chosen),
      scheduler(seed),
      trace(scheduler),
      network(scheduler, options.network),
      disk(ClusterId(seed | 1), kClusterName) {}

SimCluster::~SimCluster() {
  coordinator.reset();
  servers.clear();
}

void SimCluster::startCoordinator() {
  // A name of its own for each life, so that it does not draw the same numbers again; the node on the network stays.
  const std::string name = std::string(kCoordinatorNode) + "#" + std::to_string(++coordinator_lives);
  coordinator = std::make_unique<SimCoordinator>(scheduler, trace, network, name, kCoordinatorNode, disk);
}

void SimCluster::killCoordinator() { coordinator.reset(); }

void SimCluster::addServer() {
  SimServer::Options server;
  server.cluster_name = kClusterName;
  server.coordinator_node = kCoordinatorNode;
  server.log.clean_below_free_percent = options.clean_below_free_percent;
  server.index.initial_buckets_log2 = 0;  // and its index splits all the time
  server.replication = options.replication;
  server.ledger = options.ledger;
  servers.push_back(std::make_unique<SimServer>(scheduler, trace, network, serverNode(servers.size()),
                                                runtime::SimClock::Options{}, server));
}

}  // namespace ramcore::sim
