#include "tools/support/dpdk_flags.h"

#include <CLI/CLI.hpp>

namespace ramcore::tools {

void addDpdkPortFlags(CLI::App& app, transport::DpdkChoice& choice) {
  app.add_option(
         "--dpdk-port", choice.ports,
         "Port of DPDK to use, as its device string: net_memif0,role=client,id=0,socket=/run/x or 0000:3b:00.0; "
         "repeatable")
      ->envname("RAMCORE_DPDK_PORT")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("DEVICE");
  app.add_option("--dpdk-mtu", choice.mtu, "MTU of the ports in bytes; 9000 for jumbo frames")
      ->envname("RAMCORE_DPDK_MTU")
      ->check(CLI::Range(576, 9000))
      ->capture_default_str();
  app.add_option("--dpdk-memory-mb", choice.memory_mb, "Memory of DPDK for frames, in MB")
      ->envname("RAMCORE_DPDK_MEMORY_MB")
      ->check(CLI::Range(32, 65536))
      ->capture_default_str();
  app.add_flag("--dpdk-huge-pages", choice.huge_pages, "Take that memory from reserved huge pages")
      ->envname("RAMCORE_DPDK_HUGE_PAGES");
  app.add_option("--dpdk-eal", choice.arguments, "More arguments of DPDK's own, in one string")
      ->envname("RAMCORE_DPDK_EAL")
      ->type_name("ARGUMENTS");
  app.add_flag("!--no-dpdk-seal", choice.seal,
               "Packets carry a checksum in place of a MAC, unless the other side wants a MAC")
      ->envname("RAMCORE_NO_DPDK_SEAL");
}

void addDpdkFlags(CLI::App& app, transport::DpdkChoice& choice) {
  addDpdkPortFlags(app, choice);
  app.add_option("--dpdk-address", choice.address,
                 "Ethernet address by which others know this process, for all its ports; without it that of the first")
      ->envname("RAMCORE_DPDK_ADDRESS")
      ->type_name("ADDRESS");
  app.add_option("--dpdk-faults", choice.faults,
                 "For tests: what happens to frames that arrive, loss=5,duplicate=1,reorder=2,corrupt=0.1 in per cent, "
                 "delay_us=200,seed=7")
      ->envname("RAMCORE_DPDK_FAULTS")
      ->type_name("RATES");
}

}  // namespace ramcore::tools
