#include "log/bookkeeping.h"

#include <algorithm>

#include "log/memory/segment.h"
#include "log/memory/tombstone_counts.h"

namespace ramcore::log {

uint64_t bookkeepingBytes(const LogConfig& config) {
  constexpr uint64_t kTombstonesPart = 16;
  // Assumes keys of 16 bytes.
  constexpr uint64_t kTombstoneBytes = alignedTombstoneBytes(16);
  // A segment, and what finds it by its id, lists it and names it in digests.
  constexpr uint64_t kSlotBytes = sizeof(Segment) + 128;
  const uint64_t segments = config.memory_bytes / config.segment_bytes;
  const uint64_t tombstones = config.memory_bytes / kTombstonesPart / kTombstoneBytes;
  const uint64_t pairs = std::min(segments * segments, tombstones);
  return config.segmentSlots() * kSlotBytes + config.memory_bytes / config.seglet_bytes * sizeof(Segment*) +
         pairs * TombstoneCounts::kPairBytes;
}

}  // namespace ramcore::log
