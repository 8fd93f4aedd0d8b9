#pragma once

#include <string>

#include "base/result.h"
#include "log/format/segment_format.h"

namespace ramcore::log {

/// Sizes of one log. `segment_bytes` is at most kFrameBytes. All values but `segment_bytes` and `memory_bytes` are the
/// same for every server of a cluster.
struct LogConfig {
  /// Room for one segment in the storage of every server of a cluster, and the size of segments in memories that are
  /// not small.
  static constexpr uint32_t kFrameBytes = 8u << 20;

  /// Memory of the whole log: live data, garbage and the cleaner's reserve. Everything the log stores is inside.
  uint64_t memory_bytes = uint64_t{256} << 20;
  /// Largest segment. Larger: fewer rolls and less metadata, coarser cleaning, longer recovery of the open head.
  uint32_t segment_bytes = kFrameBytes;
  /// The number of segments that never count as room for objects. Two are the present head and the next one, from which
  /// the cleaner cannot gain anything. A higher value, as forMemory() has it, also covers what is free when a pass
  /// begins: were that counted as room, a small memory would be copied again and again.
  uint32_t apart_segments = 2;
  /// Unit in which memory is handed out.
  uint32_t seglet_bytes = 64u << 10;
  /// Largest single entry (header, key, payload, padding).
  uint32_t entry_bytes_max = alignedEntryBytes(kKeyBytesMax, 1u << 20, true, true, true);
  /// Segments' worth of memory that only the cleaner may take. More: larger and cheaper passes; less for data. A pass
  /// over this much has to gain a granule when the memory is as full as live_percent_max allows.
  uint32_t survivor_segments = 3;
  /// The same as survivor_segments if all segments hold large entries (see smallEntryBytesMax), in memories of at least
  /// 24 times as much. The survivors of large entries, and the head that a pass rolls, give back whole blocks only:
  /// what is lost by that is small beside what a pass over many segments gains.
  uint32_t large_survivor_segments = 8;
  /// Share of the usable memory that may hold live bytes before writes are refused. Higher: more data, dearer cleaning.
  uint32_t live_percent_max = 97;
  /// The same share if all live bytes are in large entries (see smallEntryBytesMax), which leave gaps at the ends of
  /// extents.
  uint32_t large_live_percent_max = 92;
  /// The cleaner runs when less than this share of the memory, in thousandths, or less than three segments, are free
  /// beyond its reserve. Lower: more has died in the segments when they are cleaned, so less is copied; shorter bursts
  /// are absorbed.
  uint32_t clean_below_free_permille = 3;
  /// The next head is opened when the present one is this full. Lower: safer against bursts, staler digests.
  uint32_t prepare_head_percent = 50;
  /// Overwrites memory when it is given back, so that a reader that still uses it is noticed, and checks before that
  /// the objects in it were marked as freed. For tests.
  bool poison_freed = false;

  /// A block, in bytes: any entry fits into it.
  uint32_t extentBytesMin() const;
  /// Entries up to this size waste little of a single seglet: segments of such entries take memory by the seglet.
  uint32_t smallEntryBytesMax() const { return seglet_bytes / 4; }
  /// Unit in which segments whose entries have at most `entry_bytes` give memory back.
  uint32_t granuleBytes(uint32_t entry_bytes) const {
    return entry_bytes <= smallEntryBytesMax() ? seglet_bytes : extentBytesMin();
  }
  /// Free bytes, beyond the survivors' reserve, below which the cleaner runs.
  uint64_t cleanBelowFreeBytes() const;
  /// Segments that can exist at a time; bounds the digest.
  uint32_t segmentSlots() const;
  /// The bytes of a small head. It has room for its own entries (header, digest, safe version) and for tombstones of at
  /// least 16 KB, or a 32nd of a segment if that is more. Small heads are what lets a full memory go on.
  uint32_t smallHeadBytes() const;
  /// Memory kept apart for small heads, at the start of the mapping.
  uint64_t smallHeadsBytes() const { return uint64_t{kSmallHeads} * smallHeadBytes(); }
  /// Live bytes at which writes are refused.
  /// @param large_share  the share of the live bytes that are in large entries: 0..1
  /// @param reserve_bytes  what the cleaner has for its survivors
  uint64_t liveBytesMax(double large_share, uint64_t reserve_bytes) const;
  /// The same where no segment holds large entries.
  uint64_t liveBytesMax() const { return liveBytesMax(0, survivorReserveBytes()); }
  uint64_t survivorReserveBytes() const { return uint64_t{survivor_segments} * segment_bytes; }
  /// The survivors' reserve where `large_segment_count` segments hold large entries: more from the first one on, and
  /// all when a quarter of the memory is such segments, because then there are some among the candidates of every pass.
  uint64_t survivorReserveBytes(uint32_t large_segment_count) const;

  /// The sizes for a server with this much memory: the defaults, and in a small memory smaller segments.
  static LogConfig forMemory(uint64_t memory_bytes);
  /// Ok, or BadConfig with the flag that makes no sense.
  Outcome<bool> validate() const;
  /// 64 KB segments of 4 KB seglets in 1 MB: reaches every limit within milliseconds.
  static LogConfig forTest();

  /// The number of small heads. One is the head, one the next head, one is closed and comes back with the next pass,
  /// and one is for the roll that ends that pass: the last free one is never given to removes, so a pass can always be
  /// ended.
  static constexpr uint32_t kSmallHeads = 4;
  static constexpr uint32_t kSegmentBytesMin = 64u << 10;
};

}  // namespace ramcore::log
