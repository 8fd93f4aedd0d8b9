#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "base/bytes.h"
#include "tools/rcnic/probes/probe.h"
#include "tools/rcnic/probes/tsc.h"

namespace ramcore::rcnic {

/// Where records are copied together: one buffer for each transmission that may be outstanding. The copying is timed.
class TransmitBuffers {
 public:
  TransmitBuffers(uint32_t count, uint32_t bytes_each)
      : bytes_each_(bytes_each),
        bytes_(alignUp(size_t{count} * bytes_each, kRegionBytes)),
        memory_(static_cast<std::byte*>(::operator new(bytes_, std::align_val_t(kRegionBytes)))) {
    std::memset(memory_.get(), 0, bytes_);
  }

  /// The memory of all buffers, in size and alignment as transports want it for registration.
  std::span<std::byte> memory() { return {memory_.get(), bytes_}; }
  /// Copies all pieces, one behind the other, into buffer `index`.
  Piece fill(uint32_t index, std::span<const Piece> pieces) {
    const uint64_t begin = tscNow();
    std::byte* const base = memory_.get() + size_t{index} * bytes_each_;
    uint32_t bytes = 0;
    for (const Piece& piece : pieces) {
      std::memcpy(base + bytes, piece.address, piece.bytes);
      bytes += piece.bytes;
    }
    copy_cycles_ += tscNow() - begin;
    return {base, bytes};
  }
  uint64_t copyCycles() const { return copy_cycles_; }

 private:
  static constexpr size_t kRegionBytes = 64 * 1024;  // Transport::registerMemory
  const uint32_t bytes_each_;
  const size_t bytes_;
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t(kRegionBytes)); }
  };
  const std::unique_ptr<std::byte, Free> memory_;
  uint64_t copy_cycles_ = 0;
};

}  // namespace ramcore::rcnic
