#pragma once

#include <memory>
#include <optional>
#include <string>

#include "coordinator/coordinator.h"
#include "coordinator/state/memory_state_store.h"
#include "runtime/sim/sim_node.h"
#include "sim/cluster/sim_dispatch.h"
#include "transport/sim/sim_transport.h"

namespace ramcore::sim {

/// One life of the coordinator process in a simulated cluster. Its disk outlives it.
class SimCoordinator {
 public:
  /// @param name  of this life, for random streams and trace lines. @param node  its place on the network, for all
  /// lives.
  SimCoordinator(runtime::SimScheduler& scheduler, runtime::SimTraceLog& log, transport::SimNetwork& network,
                 const std::string& name, const std::string& node, coordinator::MemoryDisk& disk,
                 const coordinator::CoordinatorOptions& options);
  /// kill -9: cut off from the network first, then unwound.
  ~SimCoordinator();

  coordinator::Coordinator& coordinator() { return *coordinator_; }
  const coordinator::Coordinator& coordinator() const { return *coordinator_; }
  rpc::Dispatch& dispatch() { return dispatch_.dispatch(); }
  /// With which status reading the state has ended; nothing before that.
  std::optional<Status> started() const { return started_; }

 private:
  struct Start : runtime::Job {
    explicit Start(SimCoordinator& owner)
        : Job([](runtime::Job& job) {
            SimCoordinator& self = static_cast<Start&>(job).owner;
            self.coordinator_->start([&self](Status status) { self.started_ = status; });
          }),
          owner(owner) {}
    SimCoordinator& owner;
  };

  transport::SimNetwork& network_;
  const std::string node_name_;
  runtime::SimNode node_;
  transport::Identity identity_;
  transport::SimTransport transport_;
  std::unique_ptr<transport::Endpoint> endpoint_;  // outlives the messages that wait in the dispatch
  SimDispatch dispatch_;
  std::unique_ptr<rpc::Caller> caller_;
  std::unique_ptr<coordinator::MemoryStateStore> store_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  Start start_;
  std::optional<Status> started_;
};

}  // namespace ramcore::sim
