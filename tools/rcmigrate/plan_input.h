#pragma once

#include <map>
#include <string>
#include <vector>

#include "client/coordinator_stub.h"
#include "tools/rcmigrate/plan.h"

namespace ramcore::rcmigrate {

/// What a plan is made of.
struct PlanInput {
  client::ClusterStatus cluster;
  std::vector<PlanServer> servers;  ///< those that live and have answered
  std::vector<PlanTablet> tablets;  ///< theirs
  std::map<TabletId, std::string> hot_keys;
  std::vector<ServerId> silent;  ///< servers that live and have not answered: nothing is moved from there or there
};

/// @param loads  of the same servers, `seconds` after those in `before`, which may be empty if loads do not matter
/// @param moves  what was moved lately is not moved back
/// Pure.
PlanInput makeInput(client::ClusterStatus cluster, const std::vector<client::TabletLoad>& before,
                    const std::vector<client::TabletLoad>& loads, double seconds,
                    const std::vector<client::MigrationRecord>& moves);

}  // namespace ramcore::rcmigrate
