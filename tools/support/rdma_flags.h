#pragma once

#include "transport/registry/registry.h"

namespace ramcore::tools {

class Command;

/// Adds the flags that choose the traffic class and the service level of RDMA, each with its environment variable
/// RAMCORE_RDMA_...; `rdma_class` is filled by the parsing, which it outlives.
void addRdmaClassFlags(Command& command, transport::RdmaClass& rdma_class);

}  // namespace ramcore::tools
