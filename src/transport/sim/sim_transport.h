#pragma once

#include <functional>
#include <string>

#include "runtime/sim/sim_clock.h"
#include "transport/sim/sim_network.h"
#include "transport/transport.h"

namespace ramcore::transport {

/// A process's way into a simulated network. Locators are `sim://node`.
class SimTransport final : public Transport {
 public:
  static constexpr uint32_t kBurstMessagesMax = 64;

  /// @param network  outlives the transport and its endpoints, as does `clock`, the process's
  /// @param node     the name that partitions and cuts know this process by
  /// @param wake     called whenever one of the endpoints gets something to poll: it schedules the process's poll
  ///                 round. May be called many times before that round, and must not poll itself
  SimTransport(SimNetwork& network, runtime::SimClock& clock, std::string node, std::function<void()> wake);
  /// @param slots_per_session  instead of the network's; a session has the smaller number of its two ends
  SimTransport(SimNetwork& network, runtime::SimClock& clock, std::string node, std::function<void()> wake,
               uint16_t slots_per_session);

  const Limits& limits() const override { return limits_; }
  std::string_view scheme() const override { return "sim"; }
  Outcome<RegionId> registerMemory(std::byte* base, size_t bytes, Access access) override;
  std::unique_ptr<Endpoint> makeEndpoint(const Identity& identity) override;

 private:
  SimNetwork& network_;
  runtime::SimClock& clock_;
  std::string node_;
  std::function<void()> wake_;
  Limits limits_;
  RegionId last_region_ = 0;
};

}  // namespace ramcore::transport
