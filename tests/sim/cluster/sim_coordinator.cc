#include "sim/cluster/sim_coordinator.h"

#include "base/check.h"

namespace ramcore::sim {
SimCoordinator::SimCoordinator(runtime::SimScheduler& scheduler, runtime::SimTraceLog& log,
                               transport::SimNetwork& network, const std::string& name, const std::string& node,
                               coordinator::MemoryDisk& disk, const coordinator::CoordinatorOptions& options)
    : network_(network),
      node_name_(node),
      node_(scheduler, log, name, {}),
      identity_{.role = transport::Role::Coordinator,
                .id = node_.entropy().next() | 1,
                .cluster = disk.cluster().value,
                .cluster_name = disk.clusterName(),
                .secret = {}},
      transport_(network, node_.clock(), node, [this] { dispatch_.wake(); }),
      endpoint_(transport_.makeEndpoint(identity_)),
      dispatch_(node_, {}),
      start_(*this) {
  rpc::Dispatch& dispatch = dispatch_.dispatch();
  auto locator = transport::Locator::parse("sim://" + node);
  RC_CHECK(endpoint_->listen(*locator).ok());
  dispatch.addEndpoint(*endpoint_);
  caller_ = std::make_unique<rpc::Caller>(dispatch);
  store_ = std::make_unique<coordinator::MemoryStateStore>(disk, dispatch, node_.stream("store"),
                                                           coordinator::MemoryStateStore::Options{});
  coordinator_ =
      std::make_unique<coordinator::Coordinator>(coordinator::Coordinator::Environment{.dispatch = dispatch,
                                                                                       .caller = *caller_,
                                                                                       .store = *store_,
                                                                                       .trace = node_.trace(),
                                                                                       .on_failed = [](Status) {},
                                                                                       .start = identity_.id},
                                                 options);
  dispatch.post(start_, runtime::Priority::Membership);
  dispatch_.wake();
}

SimCoordinator::~SimCoordinator() {
  constexpr uint64_t kStepsMax = 100'000;
  network_.cutAll(node_name_);
  network_.silence(node_name_);
  dispatch_.runNow([this] {
    coordinator_->stop();
    caller_->shutDown();
  });
  for (int round = 0; round < 1000 && !coordinator_->isIdle(); ++round) {
    RC_CHECK(dispatch_.drain(kStepsMax) && node_.drain(kStepsMax));
  }
  RC_CHECK_MSG(coordinator_->isIdle(), "a simulated coordinator could not be unwound");
  dispatch_.end();
  node_.kill();
}

}  // namespace ramcore::sim
