#pragma once

#include <cstdint>

#include "sim/cluster/sim_run.h"

namespace ramcore::sim {

/// The kind of the runs that are added up; each kind has floors of its own.
struct RunKind {
  bool faults = true;
  bool crashes = false;
  bool drawn = false;  ///< their settings were
  bool interludes = false;
  bool frames = false;  ///< messages are frames: what is counted of the network are those
  bool judged = false;  ///< with crashes: some moments by the judge of frames as well
};

/// Prints what happened in `seeds` runs, each line with its floor. A fault that never happens proves nothing: false if
/// a total is under its floor. Floors of totals mean something from kSeedsForFloors seeds on; fewer are only printed.
///
/// A floor is a number per seed, at most half of what was seen on average over thousands of seeds, less three standard
/// deviations of chance, so that it holds for a few seeds as for many.
bool printTotals(const RunCounts& counts, uint64_t seeds, RunKind kind);
inline constexpr uint64_t kSeedsForFloors = 20;

}  // namespace ramcore::sim
