#pragma once

#include "transport/registry.h"

namespace CLI {
class App;
}

namespace ramcore::tools {

/// Adds the flags that choose ports of DPDK, each with its environment variable RAMCORE_DPDK_...; `choice` is filled by
/// the parsing, which it outlives.
void addDpdkFlags(CLI::App& app, transport::DpdkChoice& choice);

}  // namespace ramcore::tools
