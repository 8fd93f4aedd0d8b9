#pragma once

#include <string>
#include <vector>

#include "runtime/random.h"
#include "sim/checkers/history.h"
#include "sim/cluster/sim_server.h"

namespace ramcore::sim {

/// Proves that the log of a server says the same as its index: replays the segments that the newest digest lists, their
/// entries in a random order, newest version first, and compares with what lookups find, for every key of the workload
/// that lies in a tablet the server owns. What lies before a tablet's first segment belongs to an earlier ownership and
/// is ignored, as a recovery would.
///
/// Between two events of the simulation, at any time.
/// @return one line for each difference; empty if all is well.
std::vector<std::string> checkReplay(const master::Master& master, const std::vector<HistoryKey>& keys,
                                     runtime::Random& random);

}  // namespace ramcore::sim
