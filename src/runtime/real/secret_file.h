#pragma once

#include <string>

#include "base/result.h"

namespace ramcore::runtime {

/// Reads a cluster's secret: the whole file without white space at its end, 16 to 4096 bytes. An empty path means no
/// secret: "".
///
/// The file has to belong to this user, without access for group and others; or to root, without access for others and
/// at most readable by its group. No directory above it may let every user replace it, that is, be writable by others
/// without the sticky bit. Something other than a regular file, such as a pipe, is judged by its own owner and rights
/// alone. Failure: IoError or BadConfig, with cause and remedy.
Outcome<std::string> readSecretFile(const std::string& path);

}  // namespace ramcore::runtime
