#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "client/coordinator_stub.h"

namespace ramcore::tools {

// Formats that all tools have in common.

/// "1.5 GiB", "512 B".
std::string formatBytes(uint64_t bytes);
/// As --memory takes it: "1GiB", "1537KiB"; bytes without a unit if no unit divides them.
std::string formatSize(uint64_t bytes);
/// Ids of servers, as in the log lines: "17"; "none" for no server.
std::string formatServer(ServerId id);
/// What a tablet does: "normal", "moving", "unavailable".
std::string_view stateOf(const client::TabletInfo& tablet);

}  // namespace ramcore::tools
