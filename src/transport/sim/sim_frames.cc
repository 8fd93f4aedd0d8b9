#include "transport/sim/sim_frames.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "transport/sim/sim_network.h"

namespace ramcore::transport {
namespace {

Locator locatorOf(const datagram::MacAddress& address) {
  Locator locator;
  locator.scheme = "sim";
  locator.host = address.toString();
  locator.port = 1;
  return locator;
}

}  // namespace

datagram::DatagramOptions SimFramesEndpoint::optionsOf(const SimNetwork& network, uint16_t slots_per_session) {
  datagram::DatagramOptions options;
  options.scheme = "sim";
  options.slots_per_session = slots_per_session;
  options.silence_close_ns = network.options().give_up_ns_max;
  options.borrowed_ns_max = network.options().borrowed_ns_max;
  options.stall_bytes_max = network.options().unread_bytes_max;
  return options;
}

SimFramesEndpoint::SimFramesEndpoint(SimNetwork& network, runtime::SimClock& clock, const Limits& limits,
                                     std::string node, const Identity& identity, std::function<void()> wake)
    : nodes_(*network.frames()),
      clock_(clock),
      node_(std::move(node)),
      wake_(std::move(wake)),
      entropy_(network.frameSeed()),
      port_(nodes_.ethernet(), nodes_.addressOf(node_), wake_) {
  const datagram::DatagramContext context{
      .clock = clock_, .entropy = entropy_, .trace = silentTrace(), .wake_by = [this](int64_t ns) { wakeBy(ns); }};
  inner_ = std::make_unique<datagram::DatagramEndpoint>(optionsOf(network, limits.slots_per_session), context, limits,
                                                        std::vector<datagram::FramePort*>{&port_}, identity);
  nodes_.join(*this);
}

SimFramesEndpoint::~SimFramesEndpoint() { nodes_.leave(*this); }

Outcome<Locator> SimFramesEndpoint::listen(const Locator& where) {
  RC_CHECK_MSG(where.host == node_, "a process listens at its own node");
  auto listening = inner_->listen(locatorOf(nodes_.addressOf(node_)));
  if (!listening.ok()) return listening;
  return where;
}

SessionId SimFramesEndpoint::connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) {
  return inner_->connect(locatorOf(nodes_.addressOf(where.host)), expected_id, deadline_ns);
}

void SimFramesEndpoint::wakeBy(int64_t local_ns) {
  if (local_ns >= armed_ns_) return;
  armed_ns_ = local_ns;
  const int64_t at_ns = std::max(clock_.simTimeOf(local_ns), nodes_.nowNs());
  nodes_.callAt(at_ns, [this, alive = std::weak_ptr<int>(alive_), local_ns] {
    if (alive.expired() || armed_ns_ != local_ns) return;
    armed_ns_ = runtime::kNever;
    wake_();
  });
}

}  // namespace ramcore::transport
