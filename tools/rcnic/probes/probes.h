#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/rcnic/probes/probe.h"
#include "transport/registry/registry.h"

namespace ramcore::rcnic {

/// Which transport to measure, and for one with devices, between which of them.
struct ProbeChoice {
  std::string transport;
  std::string device;       ///< of the sender, "mlx5_0:1:3" (port and gid may be left out); empty: the first active one
  std::string peer_device;  ///< of the receiver; empty: the same one
  /// For dpdk: how it starts, and no ports, or two: the sender's and the receiver's.
  transport::DpdkChoice dpdk;
};

/// A transport that this build can measure, and what there is of it on this machine.
struct TransportListing {
  struct Device {
    std::string name;  ///< empty: the transport has no devices
    std::string about;
    bool is_software = true;
  };
  std::string transport;
  std::vector<Device> devices;
  std::string absence;  ///< why it cannot be measured here; empty if it can
};

/// Names of the transports that this build has probes for: "shm", "tcp", ...
std::vector<std::string> transportNames();
/// The same with their devices.
std::vector<TransportListing> listTransports();
/// Whether `transport` can be measured on this machine: it has no devices, or one is there.
bool isPresent(const std::string& transport);
/// The one place that maps a transport to its probe.
/// Failure: BadConfig: this build has no such probe, or there is no such device; NoSpace, IoError.
Outcome<std::unique_ptr<Probe>> openProbe(const ProbeChoice& choice);

}  // namespace ramcore::rcnic
