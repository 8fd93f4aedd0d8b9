#pragma once

#include <array>
#include <vector>

#include "log/log.h"

namespace ramcore::log {

/// Where an EntryMover puts what it keeps.
class MoveTarget {
 public:
  virtual ~MoveTarget() = default;
  struct Place {
    Segment* segment = nullptr;  ///< nullptr: there is no room now
    EntryRef ref;
    Segment::Cursor before;  ///< to give the place back with Segment::rewind
  };
  /// Room for one entry, behind all that were placed before it.
  virtual Place place(uint32_t aligned_bytes) = 0;
};

/// Copies what is alive in a segment to a target, the owner swapping its references.
///
/// Entries are taken in windows: first all of a window are looked at, and the owner is told what it will be asked, so
/// that the cache misses of its index overlap; then they are moved one by one. What is known to be dead by its state
/// byte costs no question. Counts of live bytes are settled once for many entries.
///
/// Thread: one at a time, inside one read section of the log's Rcu per call.
class EntryMover {
 public:
  /// Both outlive the mover.
  EntryMover(Log& log, EntryOwner& owner) : log_(log), owner_(owner) {}

  /// Moves on from logical offset `offset` of a closed segment, until its end or until `bytes_max` were looked at.
  /// @param offset  moved behind the last entry that is dealt with
  /// @return false: the target had no room for the entry at `offset`
  bool move(Segment& from, uint32_t& offset, uint32_t bytes_max, MoveTarget& target);

 private:
  static constexpr size_t kWindow = 16;
  static constexpr size_t kTombstonesMax = 64;
  static constexpr size_t kKnownSegments = 256;

  struct Candidate {
    EntryRef ref;
    EntryOwner::Hint hint = 0;
    Segment* named = nullptr;  ///< by a tombstone of this log
    uint32_t end = 0;          ///< logical offset behind it
    bool is_own_tombstone = false;
  };
  struct Known {
    SegmentId id;
    Segment* segment = nullptr;
  };

  bool isWanted(EntryRef ref, const EntryView& entry, Candidate& candidate);
  bool moveOne(Segment& from, const Candidate& candidate, MoveTarget& target);
  void settle(Segment& from);
  Segment* find(SegmentId id);

  Log& log_;
  EntryOwner& owner_;
  /// Saves the pool's lock for most tombstones. A slot that was used again has another id, and ids are never reused.
  std::array<Known, kKnownSegments> known_{};
  // Moved and not yet counted.
  Segment* to_ = nullptr;
  int64_t moved_bytes_ = 0;
  int64_t moved_result_bytes_ = 0;  ///< of them, result records
  int64_t moved_large_bytes_ = 0;   ///< of them, large objects
  uint64_t copied_bytes_ = 0;
  std::vector<Log::MovedTombstone> tombstones_;
};

}  // namespace ramcore::log
