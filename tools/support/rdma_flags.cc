#include "tools/support/rdma_flags.h"

#include <cstdint>

#include "tools/support/command_line.h"

namespace ramcore::tools {

void addRdmaClassFlags(Command& command, transport::RdmaClass& rdma_class) {
  const auto add = [&](const char* name, const char* variable, uint8_t& value, int most, const char* about) {
    command.addOption(name, value, about).ofAdapters().environment(variable).inRange(0, most).showDefault("0");
  };
  add("--rdma-traffic-class", "RAMCORE_RDMA_TRAFFIC_CLASS", rdma_class.traffic_class, 255,
      "RoCE: traffic class of what is sent, four times the DSCP that switches look at");
  add("--rdma-service-level", "RAMCORE_RDMA_SERVICE_LEVEL", rdma_class.service_level, 15,
      "Service level of what is sent: the virtual lane of InfiniBand, the priority of RoCE in a VLAN");
}

}  // namespace ramcore::tools
