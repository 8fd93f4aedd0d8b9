// The simulator: whole clusters in simulated time, one seed after the other. Exits with 0 only if every seed passed
// every check and every total reached its floor.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/mutation.h"
#include "runtime/frame_pool.h"
#include "sim/cluster/sim_run.h"

namespace ramcore::sim {
namespace {

struct Arguments {
  uint64_t first = 1;
  uint64_t seeds = 50;
  uint64_t calls = 250;
  bool faults = true;
  bool print = false;
  bool hashes = false;
  std::string mutation;
};

constexpr const char* kUsage =
    "simulator [--seeds N] [--first SEED] [--seed SEED] [--calls N] [--no-faults] [--print] [--hashes] [--mutation "
    "NAME]\n"
    "  --seeds N        how many seeds to run, from --first on (50)\n"
    "  --first SEED     the first one (1)\n"
    "  --seed SEED      just this one\n"
    "  --calls N        calls of each of the 8 clients (250)\n"
    "  --no-faults      only moves and splits\n"
    "  --print          print every trace line\n"
    "  --hashes         print the trace hash of each seed\n"
    "  --mutation NAME  plant this bug (builds with RAMCORE_MUTATIONS): succeeds if a seed catches it\n";

bool parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto number = [&](uint64_t& out) {
      if (i + 1 >= argc) return false;
      char* end = nullptr;
      out = std::strtoull(argv[++i], &end, 10);
      return *end == '\0';
    };
    bool ok = true;
    if (flag == "--seeds") {
      ok = number(arguments.seeds);
    } else if (flag == "--first") {
      ok = number(arguments.first);
    } else if (flag == "--seed") {
      ok = number(arguments.first);
      arguments.seeds = 1;
    } else if (flag == "--calls") {
      ok = number(arguments.calls);
    } else if (flag == "--no-faults") {
      arguments.faults = false;
    } else if (flag == "--print") {
      arguments.print = true;
    } else if (flag == "--hashes") {
      arguments.hashes = true;
    } else if (flag == "--mutation" && i + 1 < argc) {
      arguments.mutation = argv[++i];
    } else {
      ok = false;
    }
    if (!ok) return false;
  }
  return arguments.seeds > 0;
}

struct Floor {
  const char* what;
  uint64_t seen;
  double least_per_seed;
};

// A fault that never happens proves nothing: each total has a floor, low enough for chance, far above zero.
bool checkFloors(const RunCounts& counts, uint64_t seeds, bool faults) {
  const Floor floors[] = {
      {"operations", counts.operations, 2000},
      {"outcomes unknown", counts.outcomes_unknown, faults ? 1.0 : 0},
      {"messages lost", counts.messages_lost, faults ? 5.0 : 0},
      {"messages delayed", counts.messages_delayed, faults ? 20.0 : 0},
      {"requests after their session", counts.requests_given_up_late, faults ? 0.5 : 0},
      {"messages duplicated", counts.messages_duplicated, faults ? 5.0 : 0},
      {"duplicates suppressed", counts.duplicates_suppressed, faults ? 5.0 : 0},
      {"messages reordered", counts.messages_reordered, faults ? 3.0 : 0},
      {"partitions", counts.partitions, faults ? 1.0 : 0},
      {"sessions cut", counts.sessions_cut, faults ? 2.0 : 0},
      {"pauses longer than the lease", counts.long_pauses, faults ? 0.1 : 0},
      {"coordinator restarts", counts.coordinator_restarts, faults ? 0.2 : 0},
      {"moves done", counts.moves_done, 1.0},
      {"splits done", counts.splits_done, 0.5},
      {"stale epochs refused", counts.stale_epochs, 1.0},
      {"lease refusals", counts.lease_refusals, faults ? 0.1 : 0},
      {"duplicates answered", counts.duplicates_answered, faults ? 1.0 : 0},
      {"segments cleaned", counts.segments_cleaned, 20.0},
      {"moves back at once", counts.moves_back, 2.0},
      {"servers declared dead", counts.servers_retired, faults ? 0.1 : 0},
      {"index buckets split", counts.bucket_splits, 5.0},
      {"answers judged for durability", counts.answers_judged, 200.0},
      {"logs replayed", counts.logs_replayed, 10.0},
  };
  bool ok = true;
  for (const Floor& floor : floors) {
    const auto least = static_cast<uint64_t>(floor.least_per_seed * static_cast<double>(seeds));
    std::printf("  %-30s %12llu  (floor %llu)%s\n", floor.what, static_cast<unsigned long long>(floor.seen),
                static_cast<unsigned long long>(least), floor.seen < least ? "  TOO FEW" : "");
    // A few seeds say little about totals.
    ok = ok && (floor.seen >= least || seeds < 20);
  }
  for (size_t kind = 0; kind < kCallKindCount; ++kind) {
    std::printf("  calls: %-23s %12llu\n", name(static_cast<CallKind>(kind)),
                static_cast<unsigned long long>(counts.calls[kind]));
    ok = ok && counts.calls[kind] >= seeds;
  }
  return ok;
}

int run(const Arguments& arguments) {
#if defined(RAMCORE_MUTATIONS)
  if (!arguments.mutation.empty()) setMutation(arguments.mutation);
#else
  if (!arguments.mutation.empty()) {
    std::fprintf(stderr, "simulator: --mutation needs a build with RAMCORE_MUTATIONS (preset mutation)\n");
    return 2;
  }
#endif
  RunCounts totals;
  uint64_t failed = 0;
  double simulated_s = 0;
  const auto began = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < arguments.seeds; ++i) {
    // A planted bug may end the process: whoever reads this knows at which seed.
    if (!arguments.mutation.empty()) std::printf("seed %llu\n", static_cast<unsigned long long>(arguments.first + i));
    RunOptions options;
    options.seed = arguments.first + i;
    options.calls_per_client = arguments.calls;
    options.faults = arguments.faults;
    if (arguments.print) {
      options.print = [](std::string_view line) { std::printf("%.*s\n", static_cast<int>(line.size()), line.data()); };
    }
    const int64_t frames_before = runtime::framesAlive();
    RunReport report = runSimulation(options);
    if (report.ok && runtime::framesAlive() != frames_before) {
      report.ok = false;
      report.failure = std::to_string(runtime::framesAlive() - frames_before) + " coroutines were left suspended\n";
    }
    totals.add(report.counts);
    simulated_s += static_cast<double>(report.simulated_ns) * 1e-9;
    if (arguments.hashes) {
      std::printf("seed %llu hash %016llx\n", static_cast<unsigned long long>(options.seed),
                  static_cast<unsigned long long>(report.trace_hash));
    }
    if (report.ok) continue;
    ++failed;
    if (!arguments.mutation.empty()) {
      std::printf("mutation %s: caught by seed %llu\n", arguments.mutation.c_str(),
                  static_cast<unsigned long long>(options.seed));
      return 0;
    }
    std::printf("seed %llu FAILED; repeat it with: simulator --seed %llu --calls %llu%s\n%s\n",
                static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(options.seed),
                static_cast<unsigned long long>(arguments.calls), arguments.faults ? "" : " --no-faults",
                report.failure.c_str());
    std::fflush(stdout);
    if (failed >= 3) break;
  }
  const double real_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (!arguments.mutation.empty()) {
    std::printf("mutation %s: NOT caught by %llu seeds\n", arguments.mutation.c_str(),
                static_cast<unsigned long long>(arguments.seeds));
    return 1;
  }
  std::printf("totals of %llu seeds (%.0f simulated seconds in %.1f):\n",
              static_cast<unsigned long long>(arguments.seeds), simulated_s, real_s);
  const bool floors_reached = checkFloors(totals, arguments.seeds, arguments.faults);
  std::printf("%llu seeds, %llu failed%s\n", static_cast<unsigned long long>(arguments.seeds),
              static_cast<unsigned long long>(failed), floors_reached ? "" : ", a total is under its floor");
  return failed == 0 && floors_reached ? 0 : 1;
}

}  // namespace
}  // namespace ramcore::sim

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--help") {
    std::fputs(ramcore::sim::kUsage, stdout);
    return 0;
  }
  ramcore::sim::Arguments arguments;
  if (!ramcore::sim::parse(argc, argv, arguments)) {
    std::fputs(ramcore::sim::kUsage, stderr);
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what was found stays found if a later seed crashes
  // First of all how to repeat this run.
  std::printf("simulator --first %llu --seeds %llu --calls %llu%s\n", static_cast<unsigned long long>(arguments.first),
              static_cast<unsigned long long>(arguments.seeds), static_cast<unsigned long long>(arguments.calls),
              arguments.faults ? "" : " --no-faults");
  return ramcore::sim::run(arguments);
}
