#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/coordinator_stub.h"

namespace ramcore::rc {

/// What a status means for whoever runs the cluster.
struct ClusterHealth {
  enum class State : uint8_t {
    Ok,
    Degraded,     ///< everything can be read and written, with fewer copies than wanted or unknown
    Unavailable,  ///< some of it cannot
  };
  State state = State::Ok;
  std::vector<std::string> reasons;  ///< the worst first; none if it is ok
  uint32_t replicas_wanted = 0;      ///< the most that a server wants
  uint32_t replicas_least = 0;       ///< the fewest that a segment of any server has
  /// How many servers more may die, at the same instant, without loss of anything that was acknowledged. A server that
  /// lives and does not answer counts as one that has no copies.
  uint32_t survivable_deaths = 0;
};

ClusterHealth healthOf(const client::ClusterStatus& status);
/// "ok", "degraded", "unavailable".
const char* name(ClusterHealth::State state);
/// Whether a person wants to hear of this server: it lives, or its tablets are not back.
bool isOfInterest(const client::ClusterStatus& status, const client::ServerStatus& server);

}  // namespace ramcore::rc
