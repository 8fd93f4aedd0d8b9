#pragma once

#include "coordinator/state/memory_state_store.h"
#include "sim/cluster/sim_run.h"

namespace ramcore::sim {

/// Counts one restart of the coordinator for each kind of transition that `disk` says is under way: those have to be
/// taken up in the middle.
void countInterrupted(const coordinator::MemoryDisk& disk, RunCounts& counts);

}  // namespace ramcore::sim
