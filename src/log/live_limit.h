#pragma once

#include <atomic>
#include <cstdint>

#include "log/memory/log_stats.h"
#include "log/memory/segment_pool.h"

namespace ramcore::log {

/// How many live bytes a log may have, and whether cleaning could still gain anything: what decides if a write is
/// refused because memory is full.
///
/// Threads: any; relaxed atomics, no lock.
class LiveLimit {
 public:
  /// Both outlive this object.
  LiveLimit(const SegmentPool& pool, const LogStats& stats);

  /// True if a write of `bytes` would not exceed the limit of live bytes. Inline, because every write asks; far below
  /// the limit one comparison is all.
  bool hasSpaceFor(uint64_t bytes) const {
    // succeeded_bytes are the tombstones that would be due if everything were removed. They count as well, or a full
    // memory could not take the removes.
    const int64_t live = stats_.live_bytes.load(std::memory_order_relaxed) +
                         stats_.succeeded_bytes.load(std::memory_order_relaxed) +
                         held_bytes_.load(std::memory_order_relaxed) + static_cast<int64_t>(bytes);
    return live <= static_cast<int64_t>(least_live_bytes_max_) || isBelowMax(live);
  }
  /// The same for those for whom room is held: what is held does not count.
  bool hasSpaceInHeld(uint64_t bytes) const {
    const int64_t held = held_bytes_.load(std::memory_order_relaxed);
    return hasSpaceFor(bytes - static_cast<uint64_t>(held));
  }

  /// Holds room apart from writes, for contents that are to come: hasSpaceFor() counts it as alive.
  /// @param bytes        at most kHeldBytesMax
  /// @param large_bytes  the part in objects above LogConfig::smallEntryBytesMax(), which need more memory
  /// @return false: there is not that much below the limit; nothing is held then
  bool hold(uint64_t bytes, uint64_t large_bytes);
  /// Gives back a part of what hold() has held.
  void release(uint64_t bytes, uint64_t large_bytes);
  /// What is left below the limit, beside what is alive and what is held.
  uint64_t roomBytes() const;
  uint64_t heldBytes() const { return static_cast<uint64_t>(held_bytes_.load(std::memory_order_relaxed)); }
  static constexpr uint64_t kHeldBytesMax = uint64_t{1} << 48;

  /// The live bytes at which writes are refused, for the present sizes of the entries.
  uint64_t liveBytesMax() const;

  /// The bytes that have died since the log began. Grows with every death, and by little else.
  int64_t deathsBytes() const;
  /// Records whether the cleaner has found garbage whose collection gains anything. While it has found none, a write
  /// that finds no room in the head is refused with NoSpace and not with RetryLater, if there is no memory for another
  /// head, none is on its way (no next head, no former head that is still being closed, no open reservation), and less
  /// than a seglet has died since.
  void noteCollectable(bool is_collectable);
  /// Whether there is no memory for another head and, as noteCollectable() says, cleaning gains none.
  bool gainsNothing() const;

 private:
  static constexpr int64_t kCollectable = INT64_MIN;

  bool isBelowMax(int64_t live_bytes) const;

  const SegmentPool& pool_;
  const LogStats& stats_;
  std::atomic<int64_t> held_bytes_{0};
  std::atomic<int64_t> held_large_bytes_{0};
  const uint64_t least_live_bytes_max_;  ///< lower bound of liveBytesMax(), whatever the entries' sizes
  std::atomic<int64_t> nothing_collectable_at_{kCollectable};  ///< deathsBytes() when noteCollectable(false) was called
                                                               ///< last
};

}  // namespace ramcore::log
