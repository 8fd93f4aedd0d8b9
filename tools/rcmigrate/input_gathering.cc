#include "tools/rcmigrate/input_gathering.h"

#include <algorithm>
#include <utility>

#include "tools/rcmigrate/program.h"
#include "tools/support/cluster_flags.h"

namespace ramcore::rcmigrate {
namespace {

constexpr int64_t kSliceNs = 100 * runtime::kNanosPerMilli;

}  // namespace

Outcome<PlanInput> gatherInput(tools::ClusterSession& session, uint32_t sample_ms, uint32_t timeout_ms,
                               const volatile sig_atomic_t& interrupted) {
  client::CoordinatorStub& coordinator = session.client().coordinator();
  const auto deadlineNs = [&] { return session.nowNs() + timeout_ms * runtime::kNanosPerMilli; };
  const auto failure = [&](Status status) { return tools::explain(status, "the cluster", coordinator); };
  std::vector<client::TabletLoad> before;
  const int64_t begin_ns = session.nowNs();
  if (sample_ms != 0) {
    auto loads = session.await(coordinator.clusterLoads(deadlineNs()));
    if (!loads) return failure(loads.error());
    before = std::move(loads->tablets);
    const int64_t end_ns = begin_ns + sample_ms * runtime::kNanosPerMilli;
    while (interrupted == 0 && session.nowNs() < end_ns) {
      session.await(pause(session.dispatch(), std::min(kSliceNs, end_ns - session.nowNs())));
    }
  }
  const auto loads = session.await(coordinator.clusterLoads(deadlineNs()));
  if (!loads) return failure(loads.error());
  const double seconds = sample_ms == 0 ? 0 : static_cast<double>(session.nowNs() - begin_ns) * 1e-9;
  const auto moves = session.await(coordinator.listMigrations(deadlineNs()));
  if (!moves) return failure(moves.error());
  auto cluster = session.await(coordinator.clusterStatus(deadlineNs()));
  if (!cluster) return failure(cluster.error());
  return makeInput(std::move(*cluster), before, *loads, seconds, *moves);
}

}  // namespace ramcore::rcmigrate
