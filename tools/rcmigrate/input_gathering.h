#pragma once

#include "tools/rcmigrate/plan_input.h"
#include "tools/support/cluster_session.h"

namespace ramcore::rcmigrate {

/// Asks the cluster for what a plan is made of. For loads it asks twice, with `sample_ms` between.
/// @param sample_ms  0: without loads
/// Failure: with cause and remedy.
Outcome<PlanInput> gatherInput(tools::ClusterSession& session, uint32_t sample_ms, uint32_t timeout_ms);

}  // namespace ramcore::rcmigrate
