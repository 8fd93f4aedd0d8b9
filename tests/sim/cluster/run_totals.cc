#include "sim/cluster/run_totals.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "sim/cluster/interludes.h"

namespace ramcore::sim {
namespace {

struct Floor {
  std::string what;
  uint64_t seen;
  double per_seed;
};

// In the order of CallKind.
constexpr double kCallsPerSeed[kCallKindCount] = {350, 230, 90, 160, 30, 160, 55, 55, 20, 10};

// Steps of compactions are rarer than those of passes.
constexpr double cleaningCrashesPerSeed(size_t step) { return step < kPassStepCount ? 0.04 : 0.025; }

void addCrashFloors(const RunCounts& counts, bool faults, std::vector<Floor>& floors) {
  const double with_faults = faults ? 1 : 0;
  floors.insert(floors.end(), {
                                  {"servers killed", counts.servers_killed, 8},
                                  {"clusters killed at once", counts.clusters_killed, 0.8},
                                  {"servers told that they are dead", counts.servers_rejected, with_faults * 0.8},
                                  {"replicas lost", counts.replicas_lost, 80},
                                  {"floors raised", counts.floors_raised, 20},
                                  {"replicas copied again", counts.replicas_repaired, 60},
                                  {"replica writes after the fence", counts.fenced_refusals, with_faults * 5},
                                  {"restarts before fetching", counts.restarts_fencing, with_faults * 2},
                                  {"restarts while fetching", counts.restarts_recovering, with_faults * 8},
                                  {"restarts before the taking", counts.restarts_taking, with_faults * 0.6},
                                  {"restarts before the release", counts.restarts_releasing, with_faults * 0.1},
                                  {"servers recovered", counts.servers_recovered, 4},
                                  {"tablets recovered", counts.tablets_recovered, 10},
                                  {"recoveries without places", counts.recoveries_given_up, with_faults * 0.05},
                                  {"replicas refused by full disks", counts.refused_full, 0.1},
                                  {"machines without power", counts.power_losses, with_faults * 2.5},
                                  {"several without power", counts.power_losses_at_once, with_faults * 0.1},
                                  {"servers alone with power", counts.alone_with_power, with_faults * 0.1},
                                  {"sectors lost", counts.sectors_lost, with_faults * 4},
                                  {"sectors torn", counts.sectors_torn, with_faults * 50},
                                  {"flushes failed", counts.flushes_failed, with_faults * 2},
                                  {"writes that waited for a thread", counts.writes_queued, 1'000},
                                  {"of them: the disk stood still", counts.writes_stalled, with_faults * 5},
                                  {"disks slowed", counts.disks_slowed, with_faults * 30},
                                  {"bits turned over", counts.bits_flipped, with_faults * 0.3},
                                  {"bytes scrubbed", counts.bytes_scrubbed, 0},
                                  {"replicas found rotten", counts.replicas_rotten, 0},
                                  {"replicas compared", counts.replicas_compared, 50},
                                  {"of compacted segments", counts.compacted_compared, 0.2},
                                  {"moments judged on the disks", counts.moments_judged, 20},
                                  {"logs replayed from disks", counts.disks_replayed, 100},
                                  {"of them from some machines", counts.partly_replayed, 50},
                                  {"tablets in two logs judged", counts.lent_judged, 0.1},
                                  {"clusters without power", counts.clusters_powerless, 0.1},
                                  {"flushes that somebody waited for", counts.flushes_requested, 500},
                                  {"writers after their verdict", counts.late_writers, with_faults * 0.5},
                                  {"servers silent for ever", counts.silent_for_ever, with_faults * 0.8},
                                  {"of them, to the last client", counts.silences_outlasted, with_faults * 0.08},
                                  {"of these, with a death", counts.silences_with_death, with_faults * 0.03},
                                  {"of these, waited for", counts.silences_waited_for, 0},
                                  {"servers stopped in order", counts.servers_stopped, 3},
                                  {"disks that lied", counts.disks_lied, with_faults * 3},
                                  {"flushes that did nothing", counts.lies, with_faults * 100},
                                  {"losses accepted", counts.losses_accepted, with_faults * 0.08},
                                  {"keys changed by them", counts.keys_lost, with_faults * 0.5},
                                  {"power lost after lies", counts.power_losses_after_lies, with_faults * 1.5},
                              });
}

// In the order of kJudgeCountNames.
constexpr double kJudgedPerSeed[kJudgeCountNames.size()] = {0.7, 3, 60, 8, 1.5, 10, 7, 8, 1.5, 40, 8, 0.05, 2};
// Of the floors with fixed settings, where they are drawn.
constexpr double kDrawnShare = 0.25;

// In the order of Point. Large values, which are copied into an open reservation, are rare where servers are killed.
constexpr double kPointsPerSeed[kPointCount] = {25, 9, 2, 2.5, 2.5, 20, 1.2, 0.04};
constexpr double kPointsPerCrashSeed[kPointCount] = {80, 33, 9, 150, 13, 24, 0.6, 0};

// `crash_free` and `with_crashes` are floors per seed of the two kinds of runs.
std::vector<Floor> floorsOf(const RunCounts& counts, RunKind kind) {
  const auto per_seed = [&](double crash_free, double with_crashes) {
    return kind.crashes ? with_crashes : crash_free;
  };
  const auto withFaults = [&](double floor) { return kind.faults ? floor : 0; };
  // Floors for runs in which sessions are those of the simulated network, and not of the packet protocol.
  const auto ofSessions = [&](double floor) { return kind.faults && !kind.frames ? floor : 0; };
  std::vector<Floor> floors = {
      {"operations completed", counts.operations, kOperationsMin},
      {"operations on sync tables", counts.operations_sync, 400},
      {"outcomes unknown", counts.outcomes_unknown, withFaults(1)},
      {"messages lost", counts.messages_lost, withFaults(kind.frames ? 100 : 5)},
      {"messages blocked by partitions", counts.messages_blocked, withFaults(50)},
      {"messages delayed", counts.messages_delayed, withFaults(kind.frames ? 1'000 : 100)},
      {"requests after their session", counts.requests_given_up_late, ofSessions(0.5)},
      {"messages duplicated", counts.messages_duplicated, withFaults(kind.frames ? 500 : 15)},
      {"duplicates suppressed", counts.duplicates_suppressed, withFaults(kind.frames ? 100 : 5)},
      {"messages reordered", counts.messages_reordered, ofSessions(2)},
      {"partitions", counts.partitions, withFaults(50)},
      {"sessions cut", counts.sessions_cut, ofSessions(100)},
      {"pauses longer than the lease", counts.long_pauses, withFaults(per_seed(4, 2))},
      {"coordinator cut off from all", counts.cuts_from_all, withFaults(0.3)},
      {"coordinator cut off from half", counts.cuts_from_half, withFaults(0.3)},
      {"coordinator cut off from one", counts.cuts_from_one, withFaults(0.3)},
      {"of those from all: judged", counts.cuts_judged, withFaults(0.05)},
      {"coordinators of other clusters", counts.other_clusters, withFaults(0.3)},
      {"coordinators with older copies", counts.older_copies, withFaults(0.1)},
      {"of them found out", counts.older_copies_found, withFaults(0.08)},
      {"coordinator restarts", counts.coordinator_restarts, withFaults(per_seed(10, 6))},
      {"restarts in a move, preparing", counts.restarts_preparing, withFaults(0.1)},
      {"restarts in a move, freezing", counts.restarts_freezing, withFaults(0.1)},
      {"restarts in a move, arriving", counts.restarts_arriving, withFaults(0.1)},
      {"restarts in a move, returning", counts.restarts_returning, withFaults(0.1)},
      {"restarts in a move, arrived", counts.restarts_arrived, withFaults(0.1)},
      {"restarts in a move, giving up", counts.restarts_giving_up, withFaults(2)},
      {"restarts in a split", counts.restarts_splitting, withFaults(0.05)},
      {"moves done", counts.moves_done, per_seed(10, 6)},
      {"moves taken back", counts.moves_taken_back, withFaults(0.2)},
      {"moves back at once", counts.moves_back, per_seed(2, 0.8)},
      {"moves on at once", counts.moves_on, per_seed(0.2, 0.1)},
      {"splits that waited for moves", counts.moves_then_split, withFaults(0.1)},
      {"tables dropped", counts.tables_dropped, withFaults(0.5)},
      {"objects spoiled in a move", counts.objects_spoiled, withFaults(0.4)},
      {"splits done", counts.splits_done, 1},
      {"stale epochs refused", counts.stale_epochs, per_seed(10, 30)},
      {"lease refusals", counts.lease_refusals, withFaults(per_seed(50, 20))},
      {"duplicates answered", counts.duplicates_answered,
       withFaults(kind.frames ? per_seed(0.1, 10) : per_seed(2, 30))},
      {"segments cleaned", counts.segments_cleaned, per_seed(60, 30)},
      {"segments compacted", counts.segments_compacted, per_seed(0.7, 1)},
      {"bytes copied by second cleaners", counts.bytes_shared, per_seed(1'000, 15'000)},
      {"index buckets split", counts.bucket_splits, per_seed(8, 20)},
      {"logs replayed", counts.logs_replayed, per_seed(8, 6)},
      {"logs recounted", counts.logs_recounted, per_seed(8, 6)},
      {"readers that stood still", counts.slow_reads, per_seed(3, 0.8)},
      {"of them with a pin", counts.slow_pins, per_seed(1, 0.4)},
  };
  if (kind.frames) floors.push_back({"frames changed", counts.frames_changed, withFaults(10)});
  if (kind.crashes) {
    addCrashFloors(counts, kind.faults, floors);
    for (size_t i = 0; i < kJudgeCountNames.size() && kind.judged; ++i) {
      floors.push_back({std::string("judge of frames: ") + kJudgeCountNames[i], counts.judged[i], kJudgedPerSeed[i]});
    }
    for (size_t i = 0; i < kMoveVictimsCount; ++i) {
      floors.push_back({"died in a move: " + std::string(name(static_cast<MoveVictims>(i))), counts.move_victims[i],
                        withFaults(0.25)});
    }
    for (size_t i = 0; i < kCleaningStepCount; ++i) {
      floors.push_back({"killed while cleaning: " + std::string(name(static_cast<CleaningStep>(i))),
                        counts.cleaning_crashes[i], cleaningCrashesPerSeed(i)});
    }
  } else {
    floors.push_back({"servers declared dead", counts.servers_retired, withFaults(0.05)});
    floors.push_back({"answers judged for durability", counts.answers_judged, 400});
  }
  for (size_t i = 0; i < kMoveStepCount; ++i) {
    const std::string step(name(static_cast<MoveStep>(i)));
    floors.push_back({"a restart in a move: " + step, counts.move_restarts[i], withFaults(0.08)});
    floors.push_back({"a loss in a move: " + step, counts.move_losses[i], withFaults(per_seed(0.03, 0.05))});
    if (kind.crashes) {
      floors.push_back({"a death in a move: " + step, counts.move_deaths[i], withFaults(0.08)});
      floors.push_back({"power lost in a move: " + step, counts.move_power_losses[i], withFaults(0.05)});
    }
    floors.push_back({"a drop in a move: " + step, counts.move_drops[i], withFaults(0.05)});
  }
  // Some are out of reach with some settings. Operations, which come first, are not.
  if (kind.drawn) {
    for (size_t i = 1; i < floors.size(); ++i) floors[i].per_seed *= kDrawnShare;
  }
  for (size_t i = 0; i < kGuardCount; ++i) {
    const auto guard = static_cast<Guard>(i);
    floors.push_back({std::string(name(guard)), counts.guards.decided[i],
                      withFaults(guardFloor(guard, kind.crashes, kind.drawn && !kind.interludes))});
  }
  for (size_t i = 0; i < kPointCount && kind.interludes; ++i) {
    const double floor = kind.crashes ? kPointsPerCrashSeed[i] : kPointsPerSeed[i];
    floors.push_back({name(static_cast<Point>(i)), counts.points[i], floor});
  }
  if (kind.drawn) {
    floors.insert(floors.end(),
                  {
                      {"calls begun without a coroutine", counts.fast_calls, 250},
                      {"calls with a future", counts.futures, 100},
                      {"of them, dropped at once", counts.futures_dropped, 1},
                      {"calls beside others of their client", counts.overlapping_calls, 250},
                      {"clients that stood still", counts.clients_paused, withFaults(8)},
                      {"of them, longer than their lease", counts.clients_paused_long, withFaults(1)},
                      {"leases raised", counts.leases_raised, withFaults(per_seed(2, 0.4))},
                      {"leases lowered", counts.leases_lowered, withFaults(per_seed(2, 0.5))},
                      {"of them, with a server cut off", counts.lowered_and_cut, withFaults(per_seed(0, 0.3))},
                      {"servers with other options", counts.servers_changed, withFaults(per_seed(0, 4))},
                  });
  }
  for (size_t i = 0; i < kCornerCount && kind.drawn; ++i) {
    const auto corner = static_cast<Corner>(i);
    floors.push_back({"runs: " + std::string(name(corner)), counts.runs_at[i], 0.7 * shareOf(corner)});
  }
  for (size_t call = 0; call < kCallKindCount; ++call) {
    floors.push_back(
        {std::string("calls: ") + name(static_cast<CallKind>(call)), counts.calls[call], kCallsPerSeed[call]});
  }
  return floors;
}

}  // namespace

bool printTotals(const RunCounts& counts, uint64_t seeds, RunKind kind) {
  bool ok = true;
  for (const Floor& floor : floorsOf(counts, kind)) {
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
