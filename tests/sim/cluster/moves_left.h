#pragma once

#include <optional>
#include <string>

#include "sim/cluster/sim_cluster.h"

namespace ramcore::sim {

/// What is left of moves that ought to be over: a move that is not stored as over, a tablet with two logs or in
/// transition, and at a server that runs a tablet that it has lent or that arrives, a pull (with its anchor), or room
/// that is held. Empty if nothing is.
/// @param cut_off  a server that the coordinator does not reach any more; it is not looked at
std::string leftOfMoves(const SimCluster& cluster, std::optional<size_t> cut_off);

}  // namespace ramcore::sim
