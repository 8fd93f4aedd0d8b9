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
  double seconds = 0;            ///< in which calls were counted; 0: they were not
  size_t moves_under_way = 0;    ///< not counted at either server
  size_t tablets_away = 0;       ///< their owners are dead, and they come back where a recovery brings them
};

/// @param loads  of the same servers, `seconds` after those in `before`, which is empty with 0 seconds: loads do not
///               matter. A server of which `loads` says nothing is silent
/// @param moves  what was moved lately is not moved back
/// Pure.
PlanInput makeInput(client::ClusterStatus cluster, const std::vector<client::TabletLoad>& before,
                    const client::ClusterLoads& loads, double seconds,
                    const std::vector<client::MigrationRecord>& moves);

}  // namespace ramcore::rcmigrate
