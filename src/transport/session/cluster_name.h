#pragma once

#include <string_view>

#include "base/result.h"

namespace ramcore::transport {

/// Whether a cluster may be called `name`: 1 to 128 bytes. To be asked before an Identity is made of it; the handshake
/// takes it for granted. Failure: BadConfig, with cause and remedy.
Outcome<bool> checkClusterName(std::string_view name);

}  // namespace ramcore::transport
