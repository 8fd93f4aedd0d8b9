#pragma once

#include <string>
#include <vector>

#include "master/master.h"

namespace ramcore::sim {

/// Compares what the log of a server has counted with a walk of it, if that can be done now; see
/// accounting::recount. Between two events of the simulation.
/// @param recounted  one more if it could
/// @return one line for each of the first differences; empty if all is well
std::vector<std::string> checkAccounting(const master::Master& master, uint64_t& recounted);

}  // namespace ramcore::sim
