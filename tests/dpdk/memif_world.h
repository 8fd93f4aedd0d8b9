#pragma once

#include <filesystem>
#include <memory>

#include "contract/transport_suite.h"

namespace ramcore::transport::contract {

/// One of the two ends of a memif, whose other end is another process's: the sockets are in `folder`. It has one node.
/// @param listens  the end that is there first
std::unique_ptr<World> makeMemifEnd(const std::filesystem::path& folder, bool listens);

}  // namespace ramcore::transport::contract
