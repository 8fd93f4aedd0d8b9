#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base/spin_lock.h"
#include "log/memory/free_runs.h"
#include "log/memory/log_config.h"
#include "log/memory/log_stats.h"
#include "log/memory/segment.h"
#include "log/memory/segment_directory.h"
#include "log/memory/tombstone_counts.h"

namespace ramcore::log {

/// Hands out the memory of the log as segments and takes it back.
///
/// A segment's memory is a few runs of seglets ("extents"). Most of it are blocks, runs in which the largest entry has
/// room (LogConfig::extentBytesMin); the last part may be pieces, shorter runs that other segments left over when they
/// were trimmed. A head begins with blocks, so that it takes any group. Not more than half of a segment are pieces:
/// when segments are cleaned and their survivors go into pieces, blocks come back, so a memory whose free part has
/// fallen into pieces mends. The first bytes of the memory are kept apart for small heads.
///
/// Thread: every call from any thread unless it says otherwise. `lock_` is a leaf: no other lock is taken inside.
class SegmentPool {
 public:
  /// @param config  validated. @param memory  has config.memory_bytes.
  SegmentPool(const LogConfig& config, const LogMemory& memory);
  ~SegmentPool();
  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;

  /// A slot with memory, in state Open, with the id `id`. nullptr if there is not enough free memory, or no slot, for
  /// this kind: heads and side segments leave the survivors' reserve alone, survivors may take all, small heads have
  /// their own.
  /// @param entry_bytes_max  the largest entry that will come: a survivor of large ones gets no pieces
  Segment* allocate(SegmentKind kind, SegmentId id, uint32_t entry_bytes_max = 0) RC_EXCLUDES(lock_);
  /// Another slot for what is alive in `original`, of the same kind, in state Open, with no id yet. Otherwise as
  /// allocate() for a survivor.
  Segment* allocateCopy(const Segment& original, uint32_t entry_bytes_max) RC_EXCLUDES(lock_);
  /// From now on find() finds `copy`, which has its id by now, instead of `original`.
  void putInPlace(Segment& original, Segment& copy) RC_EXCLUDES(lock_);
  /// Whether allocate() would succeed, unless other threads allocate in between. Two loads.
  bool mayHaveRoom(SegmentKind kind) const;
  /// Gives back what a closed segment will not use: its last extents and the tail of the one in which it ended, by the
  /// seglet if its entries are small. Cutting off short tails of segments with large entries would turn blocks, which
  /// such entries need, into pieces, which they cannot use.
  void trim(Segment& segment) RC_EXCLUDES(lock_);
  /// Gives back slot and memory. No thread reads the segment any more.
  void release(Segment& segment) RC_EXCLUDES(lock_);

  /// Free bytes, pieces included.
  uint64_t freeBytes() const { return freeBlockBytes() + free_piece_bytes_.load(std::memory_order_relaxed); }
  /// Free bytes in blocks.
  uint64_t freeBlockBytes() const { return free_block_bytes_.load(std::memory_order_relaxed); }
  /// The free bytes that heads may take: those beyond the part of the survivors' reserve that survivors have not taken
  /// yet, and no more pieces than blocks.
  uint64_t freeBytesForHeads() const;
  /// The memory that is kept for survivors. It grows with the number of segments that hold large entries.
  uint64_t survivorReserveBytes() const { return survivor_reserve_bytes_.load(std::memory_order_relaxed); }
  /// Whether the free memory suffices for the whole survivors' reserve.
  bool hasReserve() const;
  /// Notes that the survivors of a pass, or the copy of a compaction, are part of the log from now on, and that the
  /// segments from which they were made are given up. The memory of those segments, when it is released, takes the
  /// place of the survivors' memory in the reserve. Until then heads may take that much more.
  void exchange(std::span<Segment* const> survivors, std::span<Segment* const> given_up) RC_EXCLUDES(lock_);
  /// The memory that survivors have taken, and the memory that was given up for them and is not released yet.
  uint64_t exchangedBytes() const { return exchanged_bytes_.load(std::memory_order_relaxed); }

  /// The segment an entry lies in. One load.
  Segment* segmentOf(EntryRef ref) const {
    return seglets_[ref.offsetBytes() >> seglet_shift_].load(std::memory_order_acquire);
  }
  /// The segment with this id, or nullptr if it is gone. Unlinked ones are still found, unless they were replaced.
  /// Without a lock.
  Segment* find(SegmentId id) const { return directory_.find(id); }
  /// True if small segments have to be merged, because slots are short. It is true well before allocate() refuses any
  /// kind for want of a slot, because nothing else would ask for the merging then.
  bool isShortOfSlots() const;
  /// Slots that are not in use.
  uint32_t freeSlotCount() const { return free_slot_count_.load(std::memory_order_relaxed); }
  uint32_t freeSmallHeadCount() const { return free_small_head_count_.load(std::memory_order_relaxed); }
  uint32_t slotCount() const { return static_cast<uint32_t>(slots_.size()); }
  Segment& slot(uint32_t index) { return *slots_[index]; }
  const Segment& slot(uint32_t index) const { return *slots_[index]; }

  /// Bytes of tombstones in `holder`, written and due, that name `named`. They are live, except for those that name an
  /// unlinked segment and are not counted out yet. Called as tombstones().
  int64_t tombstoneBytes(const Segment& named, const Segment& holder) const {
    return tombstones_.bytesOf(named.slot(), holder.slot());
  }
  /// To be used under the log's lock, except for calls that say otherwise.
  TombstoneCounts& tombstones() { return tombstones_; }
  const TombstoneCounts& tombstones() const { return tombstones_; }

  const LogMemory& memory() const { return memory_; }
  const LogConfig& config() const { return config_; }

 private:
  using Run = FreeRuns::Run;

  /// The free slots that this kind leaves to the kinds that come after it in a full memory.
  static uint32_t slotsApart(SegmentKind kind);
  uint64_t segmentBytesMin() const {
    // A head's own entries, a large object, and what else belongs to its group: each may need an extent of its own.
    return 3 * uint64_t{config_.extentBytesMin()};
  }
  /// With this much memory in blocks a segment is never refused: what is taken falls short of what is wanted by less
  /// than a block.
  uint64_t roomBytesMin() const { return segmentBytesMin() + config_.extentBytesMin(); }

  /// The part of the reserve that heads leave alone. A pass gives up at least what its survivors keep, so all of the
  /// reserve is free again when the pass is over and its segments are released.
  uint64_t reserveLeftBytes() const {
    const uint64_t reserve = survivorReserveBytes();
    return reserve - std::min(reserve, exchangedBytes());
  }
  void addLargeSegments(int32_t count) RC_REQUIRES(lock_);
  uint64_t piecesForSurvivors(uint64_t reserve_bytes) const;
  void setExchanged(Segment& segment, bool is_exchanged) RC_REQUIRES(lock_);
  uint64_t blockBytesFor(SegmentKind kind) const;
  Segment* take(SegmentKind kind, SegmentId id, uint32_t entry_bytes_max) RC_REQUIRES(lock_);
  void putRun(Run run) RC_REQUIRES(lock_);
  void publishFree() RC_REQUIRES(lock_);
  bool allocateSmallHead(Segment& segment) RC_REQUIRES(lock_);
  bool allocateExtents(Segment& segment, uint64_t block_bytes_max, bool takes_pieces) RC_REQUIRES(lock_);
  void addExtent(Segment& segment, Run run) RC_REQUIRES(lock_);
  void setSeglets(Run run, Segment* segment);

  const LogConfig config_;
  const LogMemory& memory_;
  const int seglet_shift_;

  mutable Mutex lock_;
  FreeRuns free_runs_ RC_GUARDED_BY(lock_);
  std::vector<Segment*> free_slots_ RC_GUARDED_BY(lock_);
  std::vector<uint64_t> free_small_heads_ RC_GUARDED_BY(lock_);
  std::atomic<uint64_t> free_block_bytes_{0};
  std::atomic<uint64_t> free_piece_bytes_{0};
  std::atomic<uint64_t> survivor_piece_bytes_{0};  ///< what all survivors could take of the pieces
  std::atomic<uint64_t> exchanged_bytes_{0};
  std::atomic<uint32_t> large_segment_count_{0};  ///< closed ones that hold large entries; changed under lock_
  std::atomic<uint64_t> survivor_reserve_bytes_{0};
  std::atomic<uint32_t> free_slot_count_{0};
  std::atomic<uint32_t> free_small_head_count_{LogConfig::kSmallHeads};

  std::vector<std::unique_ptr<Segment>> slots_;
  SegmentDirectory directory_;  // changed under lock_
  std::unique_ptr<std::atomic<Segment*>[]> seglets_;
  TombstoneCounts tombstones_;
};

}  // namespace ramcore::log
