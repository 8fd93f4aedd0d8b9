#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster/frame_judge.h"
#include "sim/cluster/run_counts.h"
#include "sim/cluster/settings.h"

namespace ramcore::sim {

/// A run of full size: the calls of each of 8 clients, and the operations that have to be completed.
inline constexpr uint64_t kCallsPerClient = 320;
inline constexpr uint64_t kOperationsMin = 2000;

/// One simulated run: a cluster, clients, faults, and the checks at the end. Everything follows from the seed.
struct RunOptions {
  uint64_t seed = 1;
  uint32_t client_count = 8;
  uint64_t calls_per_client = kCallsPerClient;
  /// A run in which fewer operations were completed fails. 0: any number will do.
  uint64_t operations_min = 0;
  SettingsSource settings;
  bool faults = true;
  /// Servers keep copies on each other's disks; processes are killed and started again, and who is silent for 3 seconds
  /// is declared dead and recovered.
  bool crashes = false;
  /// With crashes: judges the disks at every step after which a recovery would find something else, or clients know
  /// more, and not at some of them. Takes many times as long.
  bool every_step = false;
  /// With crashes: backups read what they keep again every two seconds.
  bool scrubs = false;
  /// Processes speak the product's protocol over frames of a simulated switch, in place of sessions that the network
  /// makes.
  bool frames = false;
  /// With crashes: who judges some of the moments as well. Has no influence on the run. Outlives it.
  FrameJudge* judge = nullptr;
  /// Dispatches run in the middle of jobs of workers. Needs a build with RAMCORE_MUTATIONS.
  bool interludes = false;
  /// Whether the fingerprint covers the words of trace lines.
  bool hashes_text = true;
  /// Called with each trace line; has no influence on the run.
  std::function<void(std::string_view line)> print;
};

struct RunReport {
  bool ok = false;
  std::string failure;      ///< several lines for people; empty if ok
  std::string settings;     ///< those of this seed
  uint64_t trace_hash = 0;  ///< equal for equal runs
  uint64_t simulated_ns = 0;
  uint64_t events = 0;
  RunCounts counts;
};

/// One thread; no state outlives the call.
RunReport runSimulation(const RunOptions& options);

}  // namespace ramcore::sim
