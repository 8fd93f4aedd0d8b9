#include "tools/rcnic/probes/probes.h"

#include <algorithm>

#include "tools/rcnic/probes/endpoint_probe.h"
#ifdef RAMCORE_HAS_VERBS
#include "tools/rcnic/probes/verbs_probe.h"
#endif

namespace ramcore::rcnic {

std::vector<std::string> transportNames() {
  std::vector<std::string> names;
#ifdef RAMCORE_HAS_VERBS
  names.emplace_back("verbs");
#endif
  names.emplace_back("shm");
  names.emplace_back("tcp");
  // dpdk comes after the transports that need nothing: where DPDK does not start, these have been measured.
#ifdef RAMCORE_HAS_DPDK
  names.emplace_back("dpdk");
#endif
  return names;
}

std::vector<TransportListing> listTransports() {
  std::vector<TransportListing> listings;
#ifdef RAMCORE_HAS_VERBS
  listings.push_back(listVerbs());
#endif
  listings.push_back({"shm", {{"", "rings in shared memory, SEND only", true}}, ""});
  listings.push_back({"tcp", {{"", "a connection over loopback, SEND only", true}}, ""});
#ifdef RAMCORE_HAS_DPDK
  listings.push_back(
      {"dpdk", {{"", "two memifs that are joined, or ports that --dpdk-port names, SEND only", true}}, ""});
#endif
  return listings;
}

bool isPresent(const std::string& transport) {
  const std::vector<TransportListing> listings = listTransports();
  return std::any_of(listings.begin(), listings.end(), [&](const TransportListing& listing) {
    return listing.transport == transport && !listing.devices.empty();
  });
}

Outcome<std::unique_ptr<Probe>> openProbe(const ProbeChoice& choice) {
  const std::vector<std::string> names = transportNames();
  if (std::find(names.begin(), names.end(), choice.transport) == names.end()) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return Failure{Status::BadConfig, "this build measures no transport '" + choice.transport + "'; it has " + text +
                                          "; build with RAMCORE_VERBS=ON for verbs and RAMCORE_DPDK=ON for dpdk"};
  }
#ifdef RAMCORE_HAS_VERBS
  if (choice.transport == "verbs") return openVerbsProbe(choice);
#endif
  if (!choice.device.empty() || !choice.peer_device.empty()) {
    return Failure{Status::BadConfig, choice.transport + " has no devices; leave out --device and --peer-device"};
  }
  if (choice.transport == "dpdk" && !choice.dpdk.ports.empty() && choice.dpdk.ports.size() != 2) {
    return Failure{Status::BadConfig,
                   "dpdk is measured between two ports; give --dpdk-port twice, the sender's first, "
                   "or leave it out for two memifs"};
  }
  return openEndpointProbe(choice);
}

}  // namespace ramcore::rcnic
