#pragma once

#include <array>
#include <span>
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
  /// Finds room for one entry, behind all that were placed before it.
  /// @param is_settled  true: what was placed before stays. False: some of it may still be taken back. Then the room is
  ///                    in the same segment, or none is given before that is known
  virtual Place place(uint32_t aligned_bytes, bool is_settled) = 0;
};

/// Copies what is alive in a segment to a target, while the owner swaps its references.
///
/// Entries are taken in windows. First all entries of a window are looked at, and announced to the owner, so that the
/// cache misses of its index overlap. Then they are copied. Then the owner swaps its references: by then what it was
/// told to prefetch has come, and it does not hold its locks while a copy is written. The owner is not asked about an
/// entry that is dead by its state byte. If such an entry names a segment that is still there, a tombstone takes its
/// place. Counts of live bytes are settled once for many entries.
///
/// Each object that was dealt with is marked freed where it lies (freed_marking.h). Nothing is decided by that mark
/// here: when the segment is moved once more, the owner is asked again.
///
/// Thread: one at a time, inside one read section of the log's Rcu per call.
class EntryMover {
 public:
  /// Both outlive the mover.
  EntryMover(Log& log, EntryOwner& owner) : log_(log), owner_(owner) {}

  /// Goes on moving from logical offset `offset` of a closed segment, until its end or until `bytes_max` bytes were
  /// looked at.
  /// @param offset  moved behind the last entry that was dealt with
  /// @return false: the target had no room for the entry at `offset`; or, if from.isDamaged(), that entry is not what
  ///         was written, or is still marked as damaged. Nothing behind it can be moved before the mark is taken away
  bool move(Segment& from, uint32_t& offset, uint32_t bytes_max, MoveTarget& target);
  /// The bytes that all calls together have copied.
  uint64_t copiedBytes() const { return counted_bytes_; }

 private:
  static constexpr size_t kWindow = 16;
  static constexpr size_t kTombstonesMax = 64;

  struct Candidate {
    EntryRef ref;
    EntryOwner::Hint hint = 0;
    Segment* named =
        nullptr;           ///< the segment that the entry names, if that still matters (LiveCounts::isTombstoneLive)
    bool carries = false;  ///< the entry carries a result that is still needed
    uint32_t end = 0;      ///< logical offset behind it
    uint32_t bytes = 0;    ///< the length of its copy, or of the tombstone in its place
    bool is_due = false;   ///< the entry is dead, and a tombstone has to take its place
    MoveTarget::Place place{};  ///< the place of the copy
  };

  bool isWanted(EntryRef ref, const EntryView& entry, Candidate& candidate);
  size_t copyTo(std::span<Candidate> candidates, Segment& from, MoveTarget& target);
  size_t handOver(std::span<Candidate> copies);
  void countMoved(const EntryView& entry, const Candidate& candidate, bool has_left_result);
  void settle(Segment& from);
  void markDealtWith(EntryRef ref, const EntryView& entry);

  Log& log_;
  EntryOwner& owner_;
  /// Bytes that were moved and are not counted yet: left_ at the old places, kept_ at the new ones. A copy may be
  /// shorter than its original.
  struct Bytes {
    int64_t all = 0;
    int64_t results = 0;
    int64_t large = 0;
  };
  Segment* to_ = nullptr;
  Bytes left_;
  Bytes kept_;
  uint64_t copied_bytes_ = 0;
  uint64_t counted_bytes_ = 0;
  uint64_t marked_count_ = 0;
  std::vector<MovedTombstone> tombstones_;
};

}  // namespace ramcore::log
