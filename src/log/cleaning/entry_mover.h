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
  /// Room for one entry, behind all that were placed before it.
  /// @param is_settled  what was placed before stays. Else some of it may still be given back: the room is in the same
  ///                    segment then, or there is none before this is known
  virtual Place place(uint32_t aligned_bytes, bool is_settled) = 0;
};

/// Copies what is alive in a segment to a target, the owner swapping its references.
///
/// Entries are taken in windows: first all of a window are looked at, and the owner is told what it will be asked, so
/// that the cache misses of its index overlap; then they are copied; then the owner swaps its references, when what it
/// was told to fetch has come, and without waiting in each of its locks for a copy to be written. What is known to be
/// dead by its state byte costs no question, unless it names a segment that is still there: then a tombstone takes its
/// place. Counts of live bytes are settled once for many entries.
///
/// Each object that is dealt with is marked freed where it lies (freed_marking.h). Its state is not judged by that: who
/// moves the segment once more asks the owner again.
///
/// Thread: one at a time, inside one read section of the log's Rcu per call.
class EntryMover {
 public:
  /// Both outlive the mover.
  EntryMover(Log& log, EntryOwner& owner) : log_(log), owner_(owner) {}

  /// Moves on from logical offset `offset` of a closed segment, until its end or until `bytes_max` were looked at.
  /// @param offset  moved behind the last entry that is dealt with
  /// @return false: the target had no room for the entry at `offset`, or (from.isDamaged()) it is not what was written,
  ///         or still marked: nothing behind it can be moved before its mark is taken away
  bool move(Segment& from, uint32_t& offset, uint32_t bytes_max, MoveTarget& target);
  /// What all calls have copied.
  uint64_t copiedBytes() const { return counted_bytes_; }

 private:
  static constexpr size_t kWindow = 16;
  static constexpr size_t kTombstonesMax = 64;

  struct Candidate {
    EntryRef ref;
    EntryOwner::Hint hint = 0;
    Segment* named = nullptr;   ///< by the entry, if that says anything any more
    bool carries = false;       ///< a result that is still needed
    uint32_t end = 0;           ///< logical offset behind it
    uint32_t bytes = 0;         ///< that its copy takes
    bool is_due = false;        ///< it is dead, and a tombstone has to say what it said
    MoveTarget::Place place{};  ///< of the copy
  };

  bool isWanted(EntryRef ref, const EntryView& entry, Candidate& candidate);
  size_t copyTo(std::span<Candidate> candidates, Segment& from, MoveTarget& target);
  size_t handOver(std::span<Candidate> copies);
  void countMoved(const EntryView& entry, const Candidate& candidate, bool has_left_result);
  void settle(Segment& from);
  void markDealtWith(EntryRef ref, const EntryView& entry);

  Log& log_;
  EntryOwner& owner_;
  /// Moved and not yet counted. An entry may be shorter where it is now.
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
  std::vector<Log::MovedTombstone> tombstones_;
};

}  // namespace ramcore::log
