#include "sim/cluster/run_totals.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace ramcore::sim {
namespace {

struct Floor {
  std::string what;
  uint64_t seen;
  double per_seed;
};

// In the order of CallKind.
constexpr double kCallsPerSeed[kCallKindCount] = {350, 230, 90, 160, 30, 160, 55, 55, 20, 10};

std::vector<Floor> floorsOf(const RunCounts& counts, bool faults) {
  const auto withFaults = [&](double per_seed) { return faults ? per_seed : 0; };
  std::vector<Floor> floors = {
      {"operations completed", counts.operations, kOperationsMin},
      {"outcomes unknown", counts.outcomes_unknown, withFaults(1)},
      {"messages lost", counts.messages_lost, withFaults(5)},
      {"messages blocked by partitions", counts.messages_blocked, withFaults(50)},
      {"messages delayed", counts.messages_delayed, withFaults(100)},
      {"requests after their session", counts.requests_given_up_late, withFaults(0.5)},
      {"messages duplicated", counts.messages_duplicated, withFaults(15)},
      {"duplicates suppressed", counts.duplicates_suppressed, withFaults(5)},
      {"messages reordered", counts.messages_reordered, withFaults(2)},
      {"partitions", counts.partitions, withFaults(50)},
      {"sessions cut", counts.sessions_cut, withFaults(100)},
      {"pauses longer than the lease", counts.long_pauses, withFaults(4)},
      {"coordinator restarts", counts.coordinator_restarts, withFaults(10)},
      {"moves done", counts.moves_done, 10},
      {"moves back at once", counts.moves_back, 3},
      {"splits done", counts.splits_done, 1},
      {"stale epochs refused", counts.stale_epochs, 10},
      {"lease refusals", counts.lease_refusals, withFaults(50)},
      {"duplicates answered", counts.duplicates_answered, withFaults(2)},
      {"segments cleaned", counts.segments_cleaned, 60},
      {"servers declared dead", counts.servers_retired, withFaults(0.05)},
      {"index buckets split", counts.bucket_splits, 8},
      {"answers judged for durability", counts.answers_judged, 400},
      {"logs replayed", counts.logs_replayed, 8},
  };
  for (size_t kind = 0; kind < kCallKindCount; ++kind) {
    floors.push_back(
        {std::string("calls: ") + name(static_cast<CallKind>(kind)), counts.calls[kind], kCallsPerSeed[kind]});
  }
  return floors;
}

}  // namespace

bool printTotals(const RunCounts& counts, uint64_t seeds, bool faults) {
  bool ok = true;
  for (const Floor& floor : floorsOf(counts, faults)) {
    const double expected = floor.per_seed * static_cast<double>(seeds);
    const auto least = static_cast<uint64_t>(std::max(0.0, expected - 3 * std::sqrt(expected)));
    const bool too_few = floor.seen < least && seeds >= kSeedsForFloors;
    std::printf("  %-32s %12llu  (floor %llu)%s\n", floor.what.c_str(), static_cast<unsigned long long>(floor.seen),
                static_cast<unsigned long long>(least), too_few ? "  TOO FEW" : "");
    ok = ok && !too_few;
  }
  return ok;
}

}  // namespace ramcore::sim
