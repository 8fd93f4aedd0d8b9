#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/sim/sim_scheduler.h"
#include "transport/sim/sim_ethernet.h"
#include "transport/sim/sim_network_options.h"
#include "transport/sim/sim_paths.h"

namespace ramcore::transport {

class SimFramesEndpoint;

/// The nodes of a simulated network that carries Ethernet frames (SimMode::Frames): the switch between them, and their
/// addresses. One thread. The scheduler and the paths outlive it.
class SimFrameNodes {
 public:
  SimFrameNodes(runtime::SimScheduler& scheduler, const SimNetworkOptions& options, const SimPaths& paths);
  SimFrameNodes(const SimFrameNodes&) = delete;
  SimFrameNodes& operator=(const SimFrameNodes&) = delete;

  SimEthernet& ethernet() { return ethernet_; }
  /// The address of a node: the same for all processes that it ever has.
  const datagram::MacAddress& addressOf(std::string_view node);
  void join(SimFramesEndpoint& endpoint) { endpoints_.push_back(&endpoint); }
  void leave(SimFramesEndpoint& endpoint);
  bool hasEndpoints() const { return !endpoints_.empty(); }

  void setRates(const SimFaultRates& rates);
  /// As SimNetwork::silence().
  void silence(std::string_view node);
  /// Sets whether the process at `node` takes what comes.
  void setTaking(std::string_view node, bool takes);
  /// Replaces the counts of what the switch does, and adds to those of what endpoints have thrown away.
  void addTo(SimFaultCounts& counts) const;

  int64_t nowNs() const { return scheduler_.nowNs(); }
  void callAt(int64_t at_ns, std::function<void()> action) { scheduler_.call(at_ns, std::move(action)); }

 private:
  runtime::SimScheduler& scheduler_;
  const SimPaths& paths_;
  SimEthernet ethernet_;
  std::map<std::string, datagram::MacAddress, std::less<>> addresses_;
  std::map<datagram::MacAddress, std::string> nodes_by_address_;
  std::vector<SimFramesEndpoint*> endpoints_;
  uint64_t suppressed_ = 0;  // by endpoints that have left
};

}  // namespace ramcore::transport
