#pragma once

#include <csignal>

#include "tools/rcmigrate/plan_input.h"
#include "tools/support/cluster_session.h"

namespace ramcore::rcmigrate {

/// Asks the cluster for what a plan is made of. For loads it asks twice, with `sample_ms` between.
/// @param sample_ms    0: without loads
/// @param interrupted  set by a signal: the time of the sample ends
/// Failure: with cause and remedy.
Outcome<PlanInput> gatherInput(tools::ClusterSession& session, uint32_t sample_ms, uint32_t timeout_ms,
                               const volatile sig_atomic_t& interrupted);

}  // namespace ramcore::rcmigrate
