/// What a hostile server may offer as shared memory: any offer, and a descriptor of any size with any seals. Either the
/// client refuses, or all of what it maps can be touched.
///
/// Input: Head, then the bytes of the offer.
#include <fcntl.h>
#include <sys/mman.h>

#include <cstring>

#include "base/check.h"
#include "fuzz/planted.h"
#include "transport/shm/shared_memory.h"

namespace ramcore::transport::shm {
namespace {

struct Head {
  int8_t more_bytes;  // than the offer says
  uint8_t seals;      // F_SEAL_... that are missing
};

void touch(std::byte& byte) {
  const_cast<volatile std::byte&>(byte) = std::byte{1};
  RC_CHECK(const_cast<volatile std::byte&>(byte) == std::byte{1});
}

void run(const Head& head, const SharedOffer& offer) {
  // A hostile server may well make that much; here it would only take time.
  if (offer.ring_bytes > 2 * kRingBytesMax) return;
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const Descriptor descriptor(::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  RC_CHECK(descriptor);
  const off_t bytes = static_cast<off_t>(sharedBytes(offer.ring_bytes)) + head.more_bytes;
  RC_CHECK(::ftruncate(descriptor.get(), bytes) == 0);
  const int seals = kSeals & ~head.seals;
  if (seals != 0) RC_CHECK(::fcntl(descriptor.get(), F_ADD_SEALS, seals) == 0);
  auto mapped = SharedMemory::map(offer, descriptor);
  if (!mapped.ok()) {
    RC_CHECK(mapped.status() == Status::Refused && !mapped.error().message.empty());
    return;
  }
  const SharedMemory memory = std::move(mapped).value();
  RC_CHECK(head.more_bytes == 0 && seals == kSeals && isRingSize(memory.ringBytes()));
  fuzz::crashIfPlanted(memory.ringBytes() != kRingBytesMin);
  memory.control().to_server.produced.store(8);
  for (std::byte* ring : {memory.ringToServer(), memory.ringToClient()}) {
    touch(ring[0]);
    touch(ring[memory.ringBytes() - 1]);
  }
}

}  // namespace
}  // namespace ramcore::transport::shm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ramcore::transport::shm;
  Head head;
  SharedOffer offer;
  if (size != sizeof(head) + sizeof(offer)) return 0;
  std::memcpy(&head, data, sizeof(head));
  std::memcpy(&offer, data + sizeof(head), sizeof(offer));
  run(head, offer);
  return 0;
}
