#include "log/memory/log_config.h"

#include <algorithm>

#include "log/format/entry_ref.h"

namespace ramcore::log {

namespace {

Failure bad(std::string message) { return {Status::BadConfig, std::move(message)}; }

constexpr uint32_t kSmallHeadTombstoneBytesMin = 16u << 10;
constexpr uint32_t kSegmentBlocksMin = 4;
// Segments that are free when a pass begins: the next head, the one after it, and one for what is written meanwhile.
constexpr uint64_t kFreeSegments = 3;

}  // namespace

uint32_t LogConfig::extentBytesMin() const { return static_cast<uint32_t>(alignUp(entry_bytes_max, seglet_bytes)); }

uint64_t LogConfig::cleanBelowFreeBytes() const {
  return std::max(memory_bytes / 1000 * clean_below_free_permille, kFreeSegments * segment_bytes);
}

uint32_t LogConfig::segmentSlots() const {
  // Survivors and side segments are cut to their size, so there can be more segments than memory / segment_bytes.
  return static_cast<uint32_t>(memory_bytes / segment_bytes * 3 / 2 + 32);
}

uint32_t LogConfig::smallHeadBytes() const {
  const uint64_t own = alignedEntryBytes(0, sizeof(SegmentHeaderPayload), false) +
                       alignedEntryBytes(0, sizeof(SafeVersionPayload), false) +
                       alignedEntryBytes(0, sizeof(LogDigestPayload) + segmentSlots() * sizeof(SegmentId), false);
  // Room for so many tombstones that what they kill is worth a pass.
  const uint64_t room = std::max<uint64_t>(kSmallHeadTombstoneBytesMin, segment_bytes / 32);
  return static_cast<uint32_t>(alignUp(own + room, seglet_bytes));
}

uint64_t LogConfig::survivorReserveBytes(uint32_t large_segment_count) const {
  constexpr uint64_t kMemoryPart = 24;
  constexpr uint64_t kAllOfMemoryPart = 4;
  const uint64_t all = std::min(uint64_t{large_survivor_segments} * segment_bytes, memory_bytes / kMemoryPart);
  const uint64_t more = all - std::min(all, survivorReserveBytes());
  const uint64_t large_bytes = uint64_t{large_segment_count} * segment_bytes * kAllOfMemoryPart;
  const auto grown = static_cast<unsigned __int128>(more) * std::min(large_bytes, memory_bytes) / memory_bytes;
  return survivorReserveBytes() + static_cast<uint64_t>(grown);
}

uint64_t LogConfig::liveBytesMax(double large_share, uint64_t reserve_bytes) const {
  const uint64_t apart = smallHeadsBytes() + reserve_bytes + uint64_t{apart_segments} * segment_bytes;
  const double percent = live_percent_max - large_share * (live_percent_max - large_live_percent_max);
  return static_cast<uint64_t>(static_cast<double>(memory_bytes - apart) / 100 * percent);
}

Outcome<bool> LogConfig::validate() const {
  const auto power_of_two = [](uint64_t n) { return n != 0 && (n & (n - 1)) == 0; };
  if (!power_of_two(seglet_bytes) || seglet_bytes < 4096) return bad("seglet size must be a power of two >= 4096");
  if (segment_bytes < kSegmentBytesMin || segment_bytes > kSegmentBytesMax || segment_bytes % seglet_bytes != 0) {
    return bad("segment size must be a multiple of the seglet size between 64 KB and 128 MB");
  }
  if (entry_bytes_max < 1024 || entry_bytes_max > kEntryHeaderBytes + kKeyBytesMax + kPayloadBytesMax) {
    return bad("largest entry must be between 1 KB and 16 MB");
  }
  // A group is an object or a tombstone, and at most two result records, and has to fit behind the head's own entries
  // with room lost at the ends of extents.
  if (uint64_t{extentBytesMin()} * kSegmentBlocksMin > segment_bytes)
    return bad("largest entry must be at most a quarter of a segment");
  if (smallHeadBytes() > segment_bytes) return bad("memory too large for this segment size: use larger segments");
  if (memory_bytes % seglet_bytes != 0 || memory_bytes > EntryRef::kMemoryBytesMax) {
    return bad("memory must be a multiple of the seglet size and at most 8 TB");
  }
  if (survivor_segments < 2) return bad("the cleaner needs at least 2 survivor segments");
  if (large_survivor_segments < survivor_segments) {
    return bad("large entries need at least as many survivor segments as small ones");
  }
  if (live_percent_max < 10 || live_percent_max > 97) return bad("live share must be between 10 and 97 percent");
  if (large_live_percent_max < 10 || large_live_percent_max > live_percent_max) {
    return bad("live share of large entries must be between 10 percent and that of small ones");
  }
  if (prepare_head_percent > 100 || clean_below_free_permille > 900) return bad("share out of range");
  const uint64_t least = smallHeadsBytes() + survivorReserveBytes() + 4 * uint64_t{segment_bytes};
  if (memory_bytes < least) return bad("memory too small: at least " + std::to_string(least) + " bytes");
  return true;
}

// A pass has to choose among several segments that are neither heads nor reserve. So segments are smaller in a small
// memory: down to the size that the largest entry allows. Each of their replicas takes a whole frame all the same.
LogConfig LogConfig::forMemory(uint64_t memory_bytes) {
  constexpr uint64_t kMemoryPart = 18;
  LogConfig config;
  config.memory_bytes = memory_bytes / config.seglet_bytes * config.seglet_bytes;
  const uint64_t least = uint64_t{kSegmentBlocksMin} * config.extentBytesMin();
  const uint64_t wanted = config.memory_bytes / kMemoryPart / config.seglet_bytes * config.seglet_bytes;
  config.segment_bytes = static_cast<uint32_t>(std::clamp<uint64_t>(wanted, least, kFrameBytes));
  config.apart_segments = kFreeSegments + 1;
  return config;
}

LogConfig LogConfig::forTest() {
  LogConfig config;
  config.memory_bytes = 1u << 20;
  config.segment_bytes = 64u << 10;
  config.seglet_bytes = 4u << 10;
  config.entry_bytes_max = 8u << 10;
  config.poison_freed = true;
  return config;
}

}  // namespace ramcore::log
