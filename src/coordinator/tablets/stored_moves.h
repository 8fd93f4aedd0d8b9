#pragma once

#include <vector>

#include "coordinator/tablets/parts.h"

namespace ramcore::coordinator {

/// Reads the stored moves, and compares them with the tablets, which were read before. Corrupt: they contradict each
/// other, and the trace says in what.
/// @param ids_end  all ids that were given to moves are below
/// @param moves    set with Ok, in the order of their ids
/// Thread: the coordinator's executor.
runtime::Task<Status> readMoves(const Parts& parts, uint64_t ids_end, std::vector<Migration>& moves);

}  // namespace ramcore::coordinator
