#pragma once

#include "transport/registry/registry.h"

namespace ramcore::tools {

class Command;

/// Adds the flags that say in which class of the network RDMA travels, each with its environment variable
/// RAMCORE_RDMA_...; `rdma_class` is filled by the parsing, which it outlives.
void addRdmaClassFlags(Command& command, transport::RdmaClass& rdma_class);

}  // namespace ramcore::tools
