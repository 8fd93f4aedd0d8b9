#include "transport/session/cluster_name.h"

#include <string>

#include "wire/handshake_messages.h"

namespace ramcore::transport {

Outcome<bool> checkClusterName(std::string_view name) {
  if (!name.empty() && name.size() <= wire::kClusterNameBytesMax) return true;
  return Failure{Status::BadConfig, "the name of the cluster has " + std::to_string(name.size()) +
                                        " bytes; give one of 1 to " + std::to_string(wire::kClusterNameBytesMax) +
                                        " bytes, the same everywhere (--cluster)"};
}

}  // namespace ramcore::transport
