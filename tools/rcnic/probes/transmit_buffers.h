#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "tools/rcnic/probes/probe.h"
#include "tools/rcnic/probes/tsc.h"

namespace ramcore::rcnic {

/// Where records are copied together: one buffer for each transmission that may be outstanding. The copying is timed.
class TransmitBuffers {
 public:
  TransmitBuffers(uint32_t count, uint32_t bytes_each)
      : bytes_each_(bytes_each), memory_(std::make_unique<std::byte[]>(size_t{count} * bytes_each)), count_(count) {}

  std::span<std::byte> memory() { return {memory_.get(), size_t{count_} * bytes_each_}; }
  /// All pieces, one behind the other, in buffer `index`.
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
  const uint32_t bytes_each_;
  const std::unique_ptr<std::byte[]> memory_;
  const uint32_t count_;
  uint64_t copy_cycles_ = 0;
};

}  // namespace ramcore::rcnic
