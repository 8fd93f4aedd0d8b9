#include "sim/cluster/interludes.h"

#include "base/check.h"
#include "base/point.h"

namespace ramcore::sim {
namespace {

constexpr uint64_t kOfPoints = 2;  // one of so many is taken

Interludes* g_current = nullptr;  // the product does not know of runs

}  // namespace

Interludes::Interludes(SimCluster& cluster, runtime::Random random) : cluster_(cluster), random_(random) {
  RC_CHECK(g_current == nullptr);
  g_current = this;
#if defined(RAMCORE_MUTATIONS)
  setPointHook([](Point point) { g_current->reached(point); });
#endif
}

Interludes::~Interludes() {
#if defined(RAMCORE_MUTATIONS)
  setPointHook(nullptr);
#endif
  g_current = nullptr;
}

void Interludes::reached(Point point) {
  if (static_cast<uint32_t>(point) >= kPointsBetween) {
    ++counts_[static_cast<size_t>(point)];
    return;
  }
  if (is_between_ || (point != Point::Reserved && random_.below(kOfPoints) != 0)) return;
  for (size_t index = 0; index < cluster_.servers.size(); ++index) {
    SimServer& server = *cluster_.servers[index];
    if (cluster_.isDown(index) || server.node().isPaused() || !server.isInJob()) continue;
    is_between_ = true;
    if (server.runDispatchBetween()) ++counts_[static_cast<size_t>(point)];
    is_between_ = false;
    return;
  }
}

const char* name(Point point) {
  switch (point) {
    case Point::Locked:
      return "in between: a stripe held";
    case Point::Found:
      return "in between: before a mutation";
    case Point::Reserved:
      return "in between: a reservation open";
    case Point::Appended:
      return "in between: before the index";
    case Point::Moving:
      return "in between: an entry moving";
    case Point::Read:
      return "in between: before reading";
    case Point::StripeTaken:
      return "stripes found taken";
    case Point::BehindReservation:
      return "appends behind reservations";
  }
  return "?";
}

}  // namespace ramcore::sim
