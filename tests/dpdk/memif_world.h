#pragma once

#include <filesystem>
#include <memory>

#include "contract/transport_suite.h"

namespace ramcore::transport::contract {

/// One of the two ends of a memif, whose other end is another process's: the sockets are in `folder`. It has one node.
/// @param listens  the end that is there first
/// @param id       which of the memifs at that socket
std::unique_ptr<World> makeMemifEnd(const std::filesystem::path& folder, bool listens, int id = 0);

}  // namespace ramcore::transport::contract
