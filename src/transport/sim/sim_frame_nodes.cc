#include "transport/sim/sim_frame_nodes.h"

#include "transport/sim/sim_frames.h"

namespace ramcore::transport {

SimFrameNodes::SimFrameNodes(runtime::SimScheduler& scheduler, const SimNetworkOptions& options, const SimPaths& paths)
    : scheduler_(scheduler),
      paths_(paths),
      ethernet_(scheduler, SimEthernet::Options{.delay_ns_min = options.latency_ns_min,
                                                .delay_ns_max = options.latency_ns_max,
                                                .read_ns_max = options.nic_ns_max,
                                                .attaches_all = true}) {
  ethernet_.setBlocks([this](const datagram::MacAddress& from, const datagram::MacAddress& to) {
    const auto sender = nodes_by_address_.find(from);
    const auto receiver = nodes_by_address_.find(to);
    return sender != nodes_by_address_.end() && receiver != nodes_by_address_.end() &&
           paths_.isBlocked(sender->second, receiver->second);
  });
}

const datagram::MacAddress& SimFrameNodes::addressOf(std::string_view node) {
  const auto found = addresses_.find(node);
  if (found != addresses_.end()) return found->second;
  const size_t number = addresses_.size() + 1;
  const datagram::MacAddress address{
      {2, 0, 0, 0, static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number & 0xff)}};
  nodes_by_address_.emplace(address, node);
  return addresses_.emplace(node, address).first->second;
}

void SimFrameNodes::leave(SimFramesEndpoint& endpoint) {
  suppressed_ += endpoint.packetCounts().copies;
  std::erase(endpoints_, &endpoint);
}

void SimFrameNodes::setRates(const SimFaultRates& rates) {
  constexpr double kOf = 1e6;
  constexpr double kCorruptOfLost = 0.1;
  ethernet_.setRates({.loss = rates.lose_ppm / kOf,
                      .duplicate = rates.duplicate_ppm / kOf,
                      .reorder = (rates.delay_ppm + rates.reorder_ppm) / kOf,
                      .corrupt = kCorruptOfLost * rates.lose_ppm / kOf,
                      .delay_ns_max = rates.delay_ns_max},
                     rates.duplicate_ns_max);
}

void SimFrameNodes::silence(std::string_view node) {
  SimEthernetPort* const port = ethernet_.portOf(addressOf(node));
  if (port != nullptr) port->silence();
}

void SimFrameNodes::setTaking(std::string_view node, bool takes) {
  SimEthernetPort* const port = ethernet_.portOf(addressOf(node));
  if (port != nullptr) port->setTaking(takes);
}

void SimFrameNodes::addTo(SimFaultCounts& counts) const {
  const SimFrameCounts& frames = ethernet_.counts();
  counts.sent = frames.sent;
  counts.lost = frames.lost;
  counts.changed = frames.corrupted;
  counts.blocked = frames.blocked;
  counts.delayed = frames.delayed;
  counts.duplicated = frames.duplicated;
  counts.suppressed += suppressed_;
  for (const SimFramesEndpoint* endpoint : endpoints_) counts.suppressed += endpoint->packetCounts().copies;
}

}  // namespace ramcore::transport
