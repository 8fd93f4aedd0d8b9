#include "transport/shm/shm_transport.h"

#include "transport/shm/shared_memory.h"
#include "transport/shm/shm_endpoint.h"
#include "wire/frame.h"

namespace ramcore::transport::shm {

ShmTransport::ShmTransport(const ShmOptions& options, const ShmContext& context)
    : options_(options), context_(context), limits_(ShmEndpoint::limitsOf(options)) {
  RC_CHECK(isRingSize(options.ring_bytes));
  RC_CHECK(options.slots_per_session >= 1 && options.slots_per_session <= wire::kSlotCountMax);
}

Outcome<RegionId> ShmTransport::registerMemory(std::byte*, size_t, Access) { return RegionId{0}; }

std::unique_ptr<Endpoint> ShmTransport::makeEndpoint(const Identity& identity) {
  return std::make_unique<ShmEndpoint>(options_, context_, identity);
}

}  // namespace ramcore::transport::shm
