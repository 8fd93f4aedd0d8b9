#pragma once

#include "transport/registry/registry.h"

namespace CLI {
class App;
}

namespace ramcore::tools {

/// Adds the flags that choose ports of DPDK and how it starts, each with its environment variable RAMCORE_DPDK_...;
/// `choice` is filled by the parsing, which it outlives.
void addDpdkPortFlags(CLI::App& app, transport::DpdkChoice& choice);
/// These, and those of a process that has a name among others.
void addDpdkFlags(CLI::App& app, transport::DpdkChoice& choice);

}  // namespace ramcore::tools
