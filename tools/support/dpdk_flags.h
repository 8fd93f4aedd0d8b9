#pragma once

#include "transport/registry/registry.h"

namespace ramcore::tools {

class Command;

/// Adds the flags that choose ports of DPDK and how it starts, each with its environment variable RAMCORE_DPDK_...;
/// `choice` is filled by the parsing, which it outlives.
void addDpdkPortFlags(Command& command, transport::DpdkChoice& choice);
/// Adds these flags, and those of a process that has an address among other processes.
void addDpdkFlags(Command& command, transport::DpdkChoice& choice);

}  // namespace ramcore::tools
