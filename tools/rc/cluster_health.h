#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/coordinator_stub.h"

namespace ramcore::rc {

/// What the status of a cluster means for its operator.
struct ClusterHealth {
  enum class State : uint8_t {
    Ok,
    Degraded,     ///< something is wrong, such as fewer replicas than wanted, or a server that does not answer
    Unavailable,  ///< tablets are unavailable, half of the servers or more are silent together, or no server is alive
  };
  State state = State::Ok;
  std::vector<std::string> reasons;  ///< the worst first; none if it is ok
  uint32_t replicas_wanted = 0;      ///< the most that a server wants
  uint32_t replicas_least = 0;       ///< the fewest that a segment of any server has
  /// How many more servers may die at the same instant without loss of anything that was acknowledged. A server that is
  /// alive and does not answer counts as one that has no replicas.
  uint32_t survivable_deaths = 0;
};

ClusterHealth healthOf(const client::ClusterStatus& status);
/// "ok", "degraded", "unavailable".
const char* name(ClusterHealth::State state);
/// Whether the status shows this server: it is alive, or its tablets are not back.
bool isOfInterest(const client::ClusterStatus& status, const client::ServerStatus& server);

}  // namespace ramcore::rc
