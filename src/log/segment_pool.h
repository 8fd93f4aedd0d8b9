#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/spin_lock.h"
#include "log/log_config.h"
#include "log/log_stats.h"
#include "log/segment.h"

namespace ramcore::log {

/// Hands out the memory of the log as segments and takes it back.
///
/// Memory is cut into runs of seglets ("extents"). Neither a free run nor an extent is ever smaller than
/// LogConfig::extentBytesMin, so any free byte can take any entry and "free bytes" means what it says. The first bytes
/// of the memory are kept apart for small heads.
///
/// Thread: every call from any thread unless it says otherwise. `lock_` is a leaf: no other lock is taken inside.
class SegmentPool {
 public:
  /// @param config  validated. @param memory  has config.memory_bytes.
  SegmentPool(const LogConfig& config, const LogMemory& memory);
  ~SegmentPool();
  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;

  /// A slot with memory, in state Open, named `id`. nullptr if there is not enough free memory for this kind: heads and
  /// side segments leave the survivors' reserve alone, survivors may take all, small heads have their own.
  Segment* allocate(SegmentKind kind, SegmentId id) RC_EXCLUDES(lock_);
  /// False if allocate() would fail. (True is a guess.) Two loads.
  bool mayHaveRoom(SegmentKind kind) const;
  /// Gives back what a closed segment will not use: its last extents and the tail of the one it ended in.
  void trim(Segment& segment) RC_EXCLUDES(lock_);
  /// Gives back slot and memory. Nobody reads it any more.
  void release(Segment& segment) RC_EXCLUDES(lock_);

  /// Bytes a survivor could still get.
  uint64_t freeBytes() const { return free_bytes_.load(std::memory_order_relaxed); }
  /// Bytes that heads and side segments could still get.
  uint64_t freeBytesForHeads() const;

  /// The segment an entry lies in. One load.
  Segment* segmentOf(EntryRef ref) const {
    return seglets_[ref.offsetBytes() >> seglet_shift_].load(std::memory_order_acquire);
  }
  /// The segment with this id, or nullptr if it is gone. Unlinked ones are still found.
  Segment* find(SegmentId id) const RC_EXCLUDES(lock_);
  /// Small segments have to be merged: true well before allocate() refuses any kind for want of a slot, because nobody
  /// else would ask for it then.
  bool isShortOfSlots() const;
  /// Slots that nobody uses.
  uint32_t freeSlotCount() const { return free_slot_count_.load(std::memory_order_relaxed); }
  uint32_t freeSmallHeadCount() const { return free_small_head_count_.load(std::memory_order_relaxed); }
  uint32_t slotCount() const { return static_cast<uint32_t>(slots_.size()); }
  Segment& slot(uint32_t index) { return *slots_[index]; }

  /// Bytes of live tombstones in `holder` that name `named`. Under the log's lock, or while no one else knows `holder`.
  uint32_t& tombstoneBytes(const Segment& named, const Segment& holder) {
    return rows_[uint64_t{named.slot()} * slots_.size() + holder.slot()];
  }

  const LogMemory& memory() const { return memory_; }
  const LogConfig& config() const { return config_; }

 private:
  struct Run {
    uint64_t begin;
    uint64_t bytes;
  };
  struct FreeArray {
    void operator()(uint32_t* array) const { std::free(array); }
  };

  /// Slots that this kind leaves to those that come after it in a full memory.
  static uint32_t slotsApart(SegmentKind kind);
  uint64_t segmentBytesMin() const {
    // A head's own entries, a large object, and what else belongs to its group: each may need an extent of its own.
    return 3 * uint64_t{config_.extentBytesMin()};
  }

  std::optional<Run> takeRun(uint64_t bytes_max) RC_REQUIRES(lock_);
  void putRun(Run run) RC_REQUIRES(lock_);
  bool allocateSmallHead(Segment& segment) RC_REQUIRES(lock_);
  bool allocateExtents(Segment& segment, uint64_t bytes_max, uint64_t bytes_min) RC_REQUIRES(lock_);
  void addExtent(Segment& segment, Run run) RC_REQUIRES(lock_);
  void setSeglets(Run run, Segment* segment);

  const LogConfig config_;
  const LogMemory& memory_;
  const int seglet_shift_;

  mutable Mutex lock_;
  std::map<uint64_t, uint64_t> runs_ RC_GUARDED_BY(lock_);  ///< free: begin -> bytes
  std::map<SegmentId, Segment*> by_id_ RC_GUARDED_BY(lock_);
  std::vector<Segment*> free_slots_ RC_GUARDED_BY(lock_);
  std::vector<uint64_t> free_small_heads_ RC_GUARDED_BY(lock_);
  std::atomic<uint64_t> free_bytes_{0};
  std::atomic<uint32_t> free_slot_count_{0};
  std::atomic<uint32_t> free_small_head_count_{LogConfig::kSmallHeads};

  std::vector<std::unique_ptr<Segment>> slots_;
  std::unique_ptr<std::atomic<Segment*>[]> seglets_;
  /// slots x slots counters, rows of the named segment, columns of the holder; pages appear when first used.
  std::unique_ptr<uint32_t[], FreeArray> rows_;
};

}  // namespace ramcore::log
