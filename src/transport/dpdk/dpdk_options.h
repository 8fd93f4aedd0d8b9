#pragma once

#include <cstdint>

#include "transport/datagram/datagram_options.h"
#include "transport/datagram/faulty_port.h"
#include "transport/dpdk/environment.h"

namespace ramcore::transport::dpdk {

struct DpdkOptions {
  EnvironmentOptions environment;  ///< its ports: all that the process uses
  uint32_t mtu = 1500;             ///< 576..9000
  /// The address by which others know this process; all ports get it. All zeros: that of the first port.
  datagram::MacAddress address;
  bool is_local = false;  ///< the networks of all ports end at this machine: processes without a secret may use them
  uint32_t frame_count = 8192;  ///< in the memory of all ports; a power of two
  datagram::FaultRates faults;  ///< of frames that arrive, for tests
  datagram::DatagramOptions protocol;
};

}  // namespace ramcore::transport::dpdk
