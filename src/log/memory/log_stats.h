#pragma once

#include <atomic>
#include <cstdint>

namespace ramcore::log {

/// Counters of one log: relaxed, read at any time by the code that prints metrics.
struct LogStats {
  std::atomic<int64_t> live_bytes{0};       ///< objects, results and tombstones that have to be kept
  std::atomic<int64_t> tombstone_bytes{0};  ///< part of live_bytes: tombstones, written and due
  /// The bytes that tombstones would take if all objects that name a segment of the log died; not part of live_bytes.
  std::atomic<int64_t> succeeded_bytes{0};
  std::atomic<int64_t> result_bytes{0};  ///< part of live_bytes: result records, and results that objects carry
  std::atomic<int64_t> large_bytes{0};   ///< part of live_bytes: objects above LogConfig::smallEntryBytesMax()
  /// Memory of segments that have left the log and wait for nothing but pins any more, as of the last reclaim().
  std::atomic<uint64_t> pinned_bytes{0};
  std::atomic<uint64_t> appended_entries{0};
  std::atomic<uint64_t> appended_bytes{0};  ///< padding included; neither the cleaner's copies nor heads' own entries
  std::atomic<uint64_t> side_bytes{0};      ///< of these, in side logs
  std::atomic<uint64_t> heads_opened{0};
  std::atomic<uint64_t> small_heads_opened{0};
  std::atomic<uint64_t> segments_cleaned{0};
  std::atomic<uint64_t> cleaner_bytes_copied{0};
  std::atomic<uint64_t> cleaner_bytes_shared{0};  ///< part of cleaner_bytes_copied: by other workers than the first
  std::atomic<uint32_t> cleaners{0};              ///< workers that clean now
  std::atomic<uint64_t> cleaner_bytes_freed{0};   ///< memory that passes gave back beyond what their survivors keep
  std::atomic<uint64_t> cleaner_passes{0};
  std::atomic<uint64_t> segments_compacted{0};
  std::atomic<uint64_t> compaction_bytes_copied{0};  ///< part of cleaner_bytes_copied: within memory only
  std::atomic<uint64_t> compaction_bytes_freed{0};   ///< part of cleaner_bytes_freed
  std::atomic<uint64_t> entries_marked_freed{0};     ///< see freed_marking.h
  std::atomic<uint64_t> scrubbed_bytes{0};           ///< verified by MemoryScrubber
  std::atomic<uint64_t> damaged_entries{0};          ///< whose bytes were found not to be what was written
  std::atomic<uint64_t> restored_entries{0};
  std::atomic<uint64_t> mended_states{0};  ///< state bytes with a flipped bit
  std::atomic<uint64_t> damaged_now{0};    ///< found and not restored
  std::atomic<uint64_t> refused_no_space{
      0};  ///< writes refused at the limit of live bytes, or because no cleaning gains
  std::atomic<uint64_t> refused_retry_later{0};  ///< appends that met no open head with room
};

}  // namespace ramcore::log
