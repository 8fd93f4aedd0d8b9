#include "transport/sim/sim_transport.h"

#include <utility>

#include "base/check.h"
#include "transport/sim/sim_endpoint.h"
#include "transport/sim/sim_frames.h"
#include "wire/frame.h"

namespace ramcore::transport {
namespace {

constexpr uint64_t kRegionAlignment = 2 * 1024 * 1024;

}  // namespace

SimTransport::SimTransport(SimNetwork& network, runtime::SimClock& clock, std::string node, std::function<void()> wake)
    : SimTransport(network, clock, std::move(node), std::move(wake), network.options().slots_per_session) {}

SimTransport::SimTransport(SimNetwork& network, runtime::SimClock& clock, std::string node, std::function<void()> wake,
                           uint16_t slots_per_session)
    : network_(network),
      clock_(clock),
      node_(std::move(node)),
      wake_(std::move(wake)),
      limits_{.name = "sim",
              .message_bytes_max = wire::kMessageBytesMax,
              .gather_count_max = TxBuffer::kChunkCountMax,
              .inline_bytes_max = 0,
              .burst_messages_max = kBurstMessagesMax,
              .slots_per_session = slots_per_session,
              .zero_copy = true,
              .one_sided = false,
              .needs_registration = false,
              .idle_poll_is_syscall_free = true} {
  RC_CHECK(limits_.slots_per_session >= 1 && limits_.slots_per_session <= wire::kSlotCountMax);
  if (network_.frames() == nullptr) return;
  limits_ = datagram::DatagramEndpoint::limitsOf(SimFramesEndpoint::optionsOf(network_, slots_per_session));
}

Outcome<RegionId> SimTransport::registerMemory(std::byte* base, size_t bytes, Access access) {
  static_cast<void>(access);
  if (!isAligned(reinterpret_cast<uint64_t>(base), kRegionAlignment) || !isAligned(bytes, kRegionAlignment) ||
      bytes == 0) {
    return Failure{Status::BadConfig, "memory to be registered must start and end at a multiple of 2 MB"};
  }
  return ++last_region_;
}

std::unique_ptr<Endpoint> SimTransport::makeEndpoint(const Identity& identity) {
  if (network_.frames() != nullptr) {
    return std::make_unique<SimFramesEndpoint>(network_, clock_, limits_, node_, identity, wake_);
  }
  return std::make_unique<SimEndpoint>(network_.sessions(), network_.endpointRandom(), clock_, limits_, node_, identity,
                                       wake_);
}

}  // namespace ramcore::transport
