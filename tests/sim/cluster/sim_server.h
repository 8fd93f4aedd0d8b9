#pragma once

#include <memory>
#include <string>

#include "master/master.h"
#include "runtime/sim/sim_epoch.h"
#include "runtime/sim/sim_node.h"
#include "sim/cluster/sim_dispatch.h"
#include "sim/cluster/sim_replicator.h"
#include "transport/sim/sim_transport.h"

namespace ramcore::sim {

/// One server process of a simulated cluster: the product's Master on simulated threads and network.
class SimServer final : private master::MasterObserver {
 public:
  struct Options {
    std::string cluster_name = "sim";
    std::string coordinator_node = "coordinator";
    log::LogConfig log = log::LogConfig::forTest();
    index::IndexConfig index = index::IndexConfig::forTest();
    uint32_t worker_count = 2;  // at least 1
    SimReplicator::Options replication;
    DurableLedger* ledger = nullptr;
  };
  SimServer(runtime::SimScheduler& scheduler, runtime::SimTraceLog& log, transport::SimNetwork& network,
            const std::string& name, const runtime::SimClock::Options& clock, const Options& options);
  /// Unwinds the process: nothing it started is left.
  ~SimServer() override;

  runtime::SimNode& node() { return node_; }
  master::Master& master() { return *master_; }
  bool isServing() const { return serving_; }
  /// Not empty when the server cannot go on.
  const std::string& rejected() const { return rejected_; }

 private:
  void onServing(ServerId id) override;
  void onRejected(const std::string& why) override { rejected_ = why; }

  runtime::SimNode node_;
  runtime::SimRcu rcu_;
  master::Threads threads_;
  SimDispatch dispatch_;
  transport::Identity identity_;
  transport::SimTransport transport_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  std::unique_ptr<rpc::Caller> caller_;
  std::unique_ptr<log::LogMemory> memory_;
  std::unique_ptr<SimReplicator> replicator_;
  std::unique_ptr<master::Master> master_;
  bool serving_ = false;
  std::string rejected_;
};

}  // namespace ramcore::sim
