#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "tools/rcnic/probes/probe.h"

namespace ramcore::rcnic {

/// The memory that holds the records: far larger than caches, filled, in pages of one size.
class RecordMemory {
 public:
  /// @param page_kb  4, or 2048 for huge pages, which are used as far as the machine has them (hugePercent()).
  /// Failure: NoSpace.
  static Outcome<RecordMemory> open(size_t bytes, uint32_t page_kb);
  RecordMemory(RecordMemory&& other) noexcept;
  RecordMemory& operator=(RecordMemory&&) = delete;
  ~RecordMemory();

  std::span<std::byte> bytes() const { return {base_, bytes_}; }
  /// How much of this memory is in huge pages now, in per cent, as the kernel says.
  uint32_t hugePercent() const;

  /// The pieces of `count` transmissions of that shape, one behind the other. The same seed gives the same pieces.
  std::vector<Piece> choosePieces(const Shape& shape, uint32_t count, uint64_t seed) const;

 private:
  RecordMemory(std::byte* mapping, size_t mapped_bytes, size_t bytes);

  std::byte* mapping_;
  size_t mapped_bytes_;
  std::byte* base_;  ///< a multiple of 2 MB
  size_t bytes_;
};

}  // namespace ramcore::rcnic
