#include "tools/rcmigrate/input_gathering.h"

#include <utility>

#include "tools/rcmigrate/program.h"
#include "tools/support/cluster_flags.h"

namespace ramcore::rcmigrate {

Outcome<PlanInput> gatherInput(tools::ClusterSession& session, uint32_t sample_ms, uint32_t timeout_ms) {
  client::CoordinatorStub& coordinator = session.client().coordinator();
  const auto deadlineNs = [&] { return session.nowNs() + timeout_ms * runtime::kNanosPerMilli; };
  const auto failure = [&](Status status) { return tools::explain(status, "the cluster", coordinator); };
  std::vector<client::TabletLoad> before;
  const int64_t begin_ns = session.nowNs();
  if (sample_ms != 0) {
    auto loads = session.await(coordinator.clusterLoads(deadlineNs()));
    if (!loads) return failure(loads.error());
    before = std::move(loads->tablets);
    session.await(pause(session.dispatch(), sample_ms * runtime::kNanosPerMilli));
  }
  const auto loads = session.await(coordinator.clusterLoads(deadlineNs()));
  if (!loads) return failure(loads.error());
  const double seconds = static_cast<double>(session.nowNs() - begin_ns) * 1e-9;
  const auto moves = session.await(coordinator.listMigrations(deadlineNs()));
  if (!moves) return failure(moves.error());
  auto cluster = session.await(coordinator.clusterStatus(deadlineNs()));
  if (!cluster) return failure(cluster.error());
  return makeInput(std::move(*cluster), before, loads->tablets, seconds, *moves);
}

}  // namespace ramcore::rcmigrate
