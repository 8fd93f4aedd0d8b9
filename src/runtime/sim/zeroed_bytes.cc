#include "runtime/sim/zeroed_bytes.h"

#include <sys/mman.h>

namespace ramcore::runtime {

ZeroedBytes::~ZeroedBytes() {
  if (bytes_ != nullptr) ::munmap(bytes_, size_);
}

void ZeroedBytes::resize(size_t size) {
  RC_CHECK(bytes_ == nullptr);
  if (size == 0) return;
  void* const mapping =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  RC_CHECK_MSG(mapping != MAP_FAILED, "no memory for a simulated disk");
  bytes_ = static_cast<std::byte*>(mapping);
  size_ = size;
}

}  // namespace ramcore::runtime
