#pragma once

#include <string>

#include "base/result.h"

namespace ramcore::runtime {

/// Reads a cluster's secret: the whole file without white space at its end, 16 to 4096 bytes. No path: no secret, "".
/// Failure: IoError or BadConfig, with cause and remedy.
Outcome<std::string> readSecretFile(const std::string& path);

}  // namespace ramcore::runtime
