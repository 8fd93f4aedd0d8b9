#pragma once

#include <span>

#include "log/format/entry_writer.h"
#include "log/integrity/integrity.h"
#include "log/memory/log_lock.h"
#include "log/memory/log_stats.h"
#include "log/memory/segment_pool.h"

namespace ramcore::log {

/// A tombstone that was copied from one segment to another, or that was due in one and written in the other.
struct MovedTombstone {
  Segment* named;
  SegmentId named_id;
  uint32_t bytes;
};

/// Counts which bytes of a log are alive, in each segment and together, as entries are appended, die and are moved; and
/// which tombstones, written and due, name which segment. The counts lie in LogStats, SegmentLiveBytes and
/// TombstoneCounts.
///
/// Threads: any, inside a read section. Counts of bytes are relaxed atomics; tombstones, and what names a segment, are
/// counted under the lock of the log. The functions that every append needs are in live_counts_inline.h.
class LiveCounts {
 public:
  /// Everything passed by reference outlives this object.
  LiveCounts(SegmentPool& pool, LogStats& stats, Integrity& integrity, LogLock& lock)
      : pool_(pool), memory_(pool.memory()), stats_(stats), integrity_(integrity), lock_(lock) {}
  LiveCounts(const LiveCounts&) = delete;
  LiveCounts& operator=(const LiveCounts&) = delete;

  /// The segment that the entry will name: the one in which the entry lies that dies by it, or its anchor. None: it
  /// names none.
  SegmentId namedFor(const EntryInput& input) const {
    return input.dead ? pool_.segmentOf(input.dead)->id() : input.anchor;
  }
  /// The segment that an entry names, or nullptr if it names none or that is gone.
  Segment* namedBy(const EntryView& entry) const;

  // For appends at the head.

  /// Counts an entry that was placed in the head, except in the sum of the live bytes (addLive).
  /// @param bytes  its length
  void countAppended(Segment& segment, const EntryInput& input, uint32_t bytes) RC_REQUIRES(kLogLock);
  /// Counts what dies by an entry that was placed in the head: the entry has a `dead`.
  /// @param named_by_dead  namedBy() the dead entry, asked before the lock was taken
  void countKilledBy(const EntryInput& input, uint32_t bytes, Segment& segment, Segment* named_by_dead)
      RC_REQUIRES(kLogLock);
  /// Counts a tombstone that was placed in the head and names an anchor.
  /// @param anchor  found before the lock was taken; nullptr: it is gone
  void countAnchored(uint32_t bytes, Segment& segment, Segment* anchor) RC_REQUIRES(kLogLock);
  void addLive(Segment& segment, int64_t bytes);

  // For all.

  /// Counts an entry as live in `segment`, and the entry that dies by it as dead. Called before any thread can kill the
  /// new entry.
  /// @param dead  the entry that dies by it; none if none does
  void countLive(Segment& segment, const EntryView& entry, EntryRef dead) RC_EXCLUDES(kLogLock);
  /// As Log::markDead().
  void markDead(EntryRef ref) RC_EXCLUDES(kLogLock);
  /// As Log::markAcknowledged().
  void markAcknowledged(EntryRef ref);
  /// As Log::release().
  Integrity::Released release(const Damage& damage) RC_EXCLUDES(kLogLock);

  // For the cleaner.

  /// Sets whether a pass of the cleaner has `segment`. Then tombstones that name `segment` count as leaving together
  /// with it (see isTombstoneLive). Only the cleaner asks, and during a pass it asks only about entries of segments
  /// that leave with the same digest.
  void setInPass(Segment& segment, bool in_pass) { segment.membership().in_pass = in_pass; }
  /// Whether a tombstone, or another entry that names a segment, still keeps an older entry dead: the segment that it
  /// names is in a digest that a recovery could choose, and is not about to leave together with the entry.
  /// @param named  the segment that it names; nullptr if that is gone
  bool isTombstoneLive(const Segment* named) const;
  /// Marks the result that the object at `ref` carries as not needed any more. The caller counts it.
  /// @return false: the object is dead
  bool dropResult(EntryRef ref);
  /// Tombstones that were counted in `from` are counted in `to` from now on.
  void moveTombstones(Segment& from, Segment& to, std::span<const MovedTombstone> moved) RC_EXCLUDES(kLogLock);

  // For segments that leave the log.

  /// Counts out what is alive in a segment that is being unlinked, all at once. The tombstones that name it, and those
  /// that it holds, are counted out by the reclaimer.
  void countUnlinked(Segment& segment) RC_REQUIRES(kLogLock);
  /// Tombstones that name the original name the copy from now on, and so will those that become due when objects that
  /// name it die. This is done once: no entry of the original can be killed any more, because no reference leads to
  /// one, so no further tombstone can name it.
  void takeOverTombstones(Segment& original, Segment& copy) RC_REQUIRES(kLogLock);
  /// Counts out the tombstones that name an unlinked segment: there is nothing left that they could keep dead. None are
  /// added any more. Each costs a few cache misses, so this is done in slices, because appends wait for the lock.
  void forgetNamingTombstones(Segment& named) RC_EXCLUDES(kLogLock);
  /// Counts out the tombstones that an unlinked segment held, in the same way.
  void forgetHeldTombstones(Segment& holder) RC_EXCLUDES(kLogLock);

 private:
  struct Parts {
    int64_t all = 0;
    int64_t results = 0;
  };

  EntryView view(EntryRef ref) const { return EntryView(memory_.at(ref)); }
  void countParts(Segment& segment, EntryType type, uint32_t entry_bytes, const Parts& bytes);
  void countTombstone(Segment& holder, Segment& named, int64_t bytes) RC_REQUIRES(kLogLock);
  void countSuccessor(Segment& named, int64_t tombstone_bytes) RC_REQUIRES(kLogLock);
  Segment& segmentNamedFor(EntryRef dead) const;
  void countOut(EntryRef ref, int64_t due_bytes);
  void countLoss(EntryRef ref, bool is_acknowledged, int64_t due_bytes);
  void countResultOut(EntryRef ref);
  int64_t countDue(EntryRef ref, Segment* named) RC_REQUIRES(kLogLock);
  void countDead(EntryRef ref, Segment* named) RC_REQUIRES(kLogLock);

  SegmentPool& pool_;
  const LogMemory& memory_;
  LogStats& stats_;
  Integrity& integrity_;
  LogLock& lock_;
};

}  // namespace ramcore::log
