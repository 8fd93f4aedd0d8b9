#pragma once

#include <string>

#include "base/result.h"

namespace ramcore::runtime {

/// Reads a cluster's secret: the whole file without white space at its end, 16 to 4096 bytes. No path: no secret, "".
///
/// The file has to be this user's and open to nobody else, or root's and open to a group besides; and nobody may be
/// able to put another one in its place. What is no file, as a pipe, is judged by itself alone. Failure: IoError or
/// BadConfig, with cause and remedy.
Outcome<std::string> readSecretFile(const std::string& path);

}  // namespace ramcore::runtime
