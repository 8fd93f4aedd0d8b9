#include "tools/support/dpdk_flags.h"

#include "tools/support/command_line.h"

namespace ramcore::tools {

void addDpdkPortFlags(Command& command, transport::DpdkChoice& choice) {
  command
      .addOption(
          "--dpdk-port", choice.ports,
          "Port of DPDK to use, as its device string: net_memif0,role=client,id=0,socket=/run/x or 0000:3b:00.0; "
          "repeatable")
      .ofAdapters()
      .environment("RAMCORE_DPDK_PORT")
      .oneValueEach()
      .typeName("DEVICE");
  command.addOption("--dpdk-mtu", choice.mtu, "MTU of the ports in bytes; 9000 for jumbo frames")
      .ofAdapters()
      .environment("RAMCORE_DPDK_MTU")
      .inRange(576, 9000)
      .showDefault();
  command.addOption("--dpdk-memory-mb", choice.memory_mb, "Memory of DPDK for Ethernet frames, in MB")
      .ofAdapters()
      .environment("RAMCORE_DPDK_MEMORY_MB")
      .inRange(32, 65536)
      .showDefault();
  command.addFlag("--dpdk-huge-pages", choice.huge_pages, "Take that memory from reserved huge pages")
      .ofAdapters()
      .environment("RAMCORE_DPDK_HUGE_PAGES");
  command.addOption("--dpdk-eal", choice.arguments, "More arguments for DPDK itself, in one string")
      .ofAdapters()
      .environment("RAMCORE_DPDK_EAL")
      .typeName("ARGUMENTS");
  command
      .addFlag("!--no-dpdk-seal", choice.seal,
               "Packets carry a checksum in place of a MAC, unless the other side wants a MAC")
      .ofAdapters()
      .environment("RAMCORE_NO_DPDK_SEAL");
}

void addDpdkFlags(Command& command, transport::DpdkChoice& choice) {
  addDpdkPortFlags(command, choice);
  command
      .addOption(
          "--dpdk-address", choice.address,
          "Ethernet address by which others know this process, for all its ports; without it that of the first port")
      .ofAdapters()
      .environment("RAMCORE_DPDK_ADDRESS")
      .typeName("ADDRESS");
  command
      .addOption("--dpdk-faults", choice.faults,
                 "For tests: what happens to Ethernet frames that arrive, loss=5,duplicate=1,reorder=2,corrupt=0.1 in "
                 "per cent, delay_us=200,seed=7")
      .ofAdapters()
      .environment("RAMCORE_DPDK_FAULTS")
      .typeName("RATES");
}

}  // namespace ramcore::tools
