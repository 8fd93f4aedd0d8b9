#pragma once

#include "transport/registry/registry.h"

namespace CLI {
class App;
}

namespace ramcore::tools {

/// Adds the flags that say in which class of the network RDMA travels, each with its environment variable
/// RAMCORE_RDMA_...; `rdma_class` is filled by the parsing, which it outlives.
void addRdmaClassFlags(CLI::App& app, transport::RdmaClass& rdma_class);

}  // namespace ramcore::tools
