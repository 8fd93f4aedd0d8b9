#include "transport/shm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

namespace ramcore::transport::shm {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Failure failed(std::string_view what) {
  return Failure{Status::IoError, std::string(what) + " for shared memory failed: " + std::strerror(errno)};
}

Failure refused(std::string_view why) {
  return Failure{Status::Refused, "the server offered shared memory that " + std::string(why)};
}

}  // namespace

bool isRingSize(uint32_t ring_bytes) {
  return std::has_single_bit(ring_bytes) && ring_bytes >= kRingBytesMin && ring_bytes <= kRingBytesMax;
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this != &other) {
    unmap();
    base_ = std::exchange(other.base_, nullptr);
    ring_bytes_ = std::exchange(other.ring_bytes_, 0);
  }
  return *this;
}

void SharedMemory::unmap() {
  if (base_ != nullptr) ::munmap(std::exchange(base_, nullptr), sharedBytes(ring_bytes_));
}

Outcome<SharedMemory> SharedMemory::create(uint32_t ring_bytes, Descriptor& descriptor) {
  RC_CHECK(isRingSize(ring_bytes));
  Descriptor memory(::memfd_create("ramcore-session", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return failed("memfd_create");
  // Allocated now, not at first touch: the request path takes no page faults, and lack of memory shows here.
  if (::fallocate(memory.get(), 0, 0, static_cast<off_t>(sharedBytes(ring_bytes))) != 0) return failed("fallocate");
  if (::fcntl(memory.get(), F_ADD_SEALS, kSizeSeals) != 0) return failed("sealing");
  auto mapped = mapDescriptor(memory.get(), ring_bytes);
  if (!mapped.ok()) return mapped;
  new (&mapped->control()) SharedControl{};
  descriptor = std::move(memory);
  return mapped;
}

Outcome<SharedMemory> SharedMemory::map(const SharedOffer& offer, const Descriptor& descriptor) {
  if (!offer.isValid()) return refused("has another format");
  if (!isRingSize(offer.ring_bytes)) return refused("has rings of an impossible size");
  struct stat status{};
  if (::fstat(descriptor.get(), &status) != 0) return failed("fstat");
  if (!S_ISREG(status.st_mode) || static_cast<uint64_t>(status.st_size) != sharedBytes(offer.ring_bytes)) {
    return refused("is not of the size it said");
  }
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) return refused("could be cut short under us");
  return mapDescriptor(descriptor.get(), offer.ring_bytes);
}

Outcome<SharedMemory> SharedMemory::mapDescriptor(int fd, uint32_t ring_bytes) {
  void* base = ::mmap(nullptr, sharedBytes(ring_bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (base == MAP_FAILED) return failed("mmap");
  // A child process must not keep the memory of our sessions, and a core file need not have it.
  (void)::madvise(base, sharedBytes(ring_bytes), MADV_DONTFORK);
  (void)::madvise(base, sharedBytes(ring_bytes), MADV_DONTDUMP);
  return SharedMemory(static_cast<std::byte*>(base), ring_bytes);
}

}  // namespace ramcore::transport::shm
