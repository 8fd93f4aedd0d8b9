#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <span>

#include "base/ids.h"
#include "log/format/segment_format.h"
#include "log/memory/log_memory.h"
#include "log/memory/segment_bookkeeping.h"
#include "log/memory/segment_live_bytes.h"

namespace ramcore::log {

enum class SegmentKind : uint8_t {
  Head,       ///< opened as the log's end, holds a digest
  SmallHead,  ///< a head of the reserve: digest and removes only
  Survivor,   ///< what the cleaner kept of others
  Side,       ///< part of a side log
};

/// The life of a segment slot. Only the log (under its lock) and, for private segments, their one writer change the
/// state.
enum class SegmentState : uint8_t {
  Free,
  Open,      ///< takes entries: next head, head, survivor or side segment under construction
  Closing,   ///< complete; not yet closed on all replicas
  Closed,    ///< closed on all replicas
  Leaving,   ///< cleaned; a digest that lists it can still be chosen by a recovery
  Unlinked,  ///< in no such digest; memory waits for the last reader
};

/// A run of seglets. Entries do not straddle extents; groups may.
struct Extent {
  uint64_t begin = 0;                     ///< offset in LogMemory
  std::atomic<uint32_t> bytes{0};         ///< shrinks once, when the segment is trimmed
  std::atomic<uint32_t> stream_begin{0};  ///< logical offset of its first entry, once entries were placed in it
  uint32_t tried_begin = 0;               ///< as stream_begin, for the last cursor that was tried; used by the one
                                          ///< writer only
};

/// One segment: its memory, what is in it and how far that is committed.
///
/// The *logical* offset counts entry bytes only, through the extents in order: replicas use the same offsets. Slots are
/// owned by SegmentPool and live as long; their content is as stable as the entries in it.
class Segment {
 public:
  static constexpr uint32_t kExtentsMax = 16;

  /// Where the next entry goes. A value, so that the placing of a group can be tried before anything is touched.
  struct Cursor {
    uint32_t extent = 0;
    uint32_t extent_used = 0;
    uint32_t offset = 0;
  };

  SegmentId id() const { return SegmentId(id_.load(std::memory_order_acquire)); }
  SegmentKind kind() const { return kind_; }
  SegmentState state() const { return state_.load(std::memory_order_acquire); }
  /// How often what is alive in it was moved to other memory. Not 0: its replicas may hold more than its memory does.
  uint32_t compactionCount() const { return compaction_count_; }
  /// Live bytes after the last compaction.
  int64_t compactedLiveBytes() const { return compacted_live_bytes_; }
  bool isHeadKind() const { return kind_ == SegmentKind::Head || kind_ == SegmentKind::SmallHead; }
  uint32_t slot() const { return slot_; }
  /// Memory taken, and the most that entries can fill of it.
  uint64_t memoryBytes() const { return memory_bytes_; }
  uint32_t capacityBytes() const { return capacity_bytes_; }

  /// Bytes that readers, replicas and certificates may look at; always the end of a group. Any thread.
  uint32_t committedBytes() const { return committed_bytes_.load(std::memory_order_acquire); }
  /// What is alive in it. Any thread.
  SegmentLiveBytes& live() { return live_; }
  const SegmentLiveBytes& live() const { return live_; }
  /// Log traffic at the time its entries were written. The cleaner fills survivors in the order of this value.
  uint64_t stampBytes() const { return stamp_bytes_; }
  /// Log traffic at the time the segment was opened: its age, for the choice of what to clean.
  uint64_t begunBytes() const { return begun_bytes_; }

  /// The memory of the logical range [from, to), in order.
  /// @param to  at most committedBytes()
  /// @return pieces written to `pieces` (kExtentsMax are always enough)
  size_t spans(uint32_t from, uint32_t to, std::span<ByteSpan> pieces) const;
  /// Whether the digest of the head lists it, or a later digest will. Read under the log's lock, or while no other
  /// thread uses the log.
  bool isListed() const { return membership_.is_listed; }
  /// The head whose digest is the first that does not list it any more; none before there is one. Read as isListed().
  SegmentId leaveHead() const { return membership_.leave_head; }
  /// Copies the logical range [from, to) as replicas get it: with all state bytes zero. Both ends are ends of entries.
  void copyOut(uint32_t from, uint32_t to, std::byte* dest) const;
  /// Logical offset of an entry that lies in this segment.
  uint32_t offsetOf(EntryRef ref) const;
  /// The entry at a logical offset below committedBytes().
  EntryRef refAt(uint32_t offset) const;
  /// The bytes from a logical offset below committedBytes() to the end of what is committed in its extent. The next
  /// entry begins at the logical offset at which they end, whatever the lengths of the entries before it say.
  ByteSpan restOfExtent(uint32_t offset) const;
  CopiesAwaited copiesAwaited() const { return replication_.copies_awaited; }
  /// Servers that it waits for have no place for it. Any thread.
  bool lacksPlaces() const { return replication_.lacks_places.load(std::memory_order_acquire); }
  /// Its replicas have been reported opened. Any thread.
  bool hasPlaces() const { return replication_.has_places.load(std::memory_order_acquire); }
  /// An entry in it is known to be damaged, and not restored. Any thread.
  bool isDamaged() const { return damaged_.load(std::memory_order_acquire); }
  /// An entry in it was damaged at some time. Any thread.
  bool wasDamaged() const { return was_damaged_.load(std::memory_order_relaxed); }

  // For the log, side logs and the cleaner (the segment's one writer).

  const Cursor& cursor() const { return cursor_; }
  /// The bytes that certainly still fit, if no entry has more than `entry_bytes_max`.
  uint64_t certainRoomBytes(uint32_t entry_bytes_max) const;
  /// Finds room for one more entry at `cursor`, and moves the cursor on. False if the segment is full for this size.
  bool place(Cursor& cursor, uint32_t aligned_bytes, EntryRef& ref) {
    if (cursor.offset + uint64_t{aligned_bytes} > capacity_bytes_) return false;
    if (cursor.extent_used + uint64_t{aligned_bytes} > extents_[cursor.extent].bytes) [[unlikely]] {
      const uint32_t extent = nextExtent(cursor, aligned_bytes);
      if (extent == cursor.extent) return false;
      cursor.extent = extent;
      cursor.extent_used = 0;
    }
    ref = EntryRef::fromOffset(extents_[cursor.extent].begin + cursor.extent_used);
    cursor.extent_used += aligned_bytes;
    cursor.offset += aligned_bytes;
    return true;
  }
  /// Makes `cursor` the segment's own cursor: the entries that were placed with it belong to the segment now. No other
  /// cursor was tried since.
  void adopt(const Cursor& cursor) {
    for (uint32_t i = cursor_.extent + 1; i <= cursor.extent; ++i) {
      extents_[i].stream_begin.store(extents_[i].tried_begin, std::memory_order_relaxed);
    }
    cursor_ = cursor;
  }
  /// Takes back everything behind `cursor`, an earlier value of the segment's own cursor. Nothing of it was committed.
  void rewind(const Cursor& cursor);
  void commit(uint32_t offset) { committed_bytes_.store(offset, std::memory_order_release); }
  void setState(SegmentState state) { state_.store(state, std::memory_order_release); }
  void setStamp(uint64_t bytes) { stamp_bytes_ = bytes; }
  void setBegun(uint64_t bytes) { stamp_bytes_ = begun_bytes_ = bytes; }
  /// Notes that in the logical range [from, to) a one-sided reader believes no object any more. For objects that the
  /// cleaner has dealt with only their state says so, so no such state may be taken back. The restoring of a damaged
  /// entry may do that; therefore all of a segment in which an entry was ever damaged is marked once more.
  void noteMarked(uint32_t from, uint32_t to) {
    if (from <= reclamation_.marked_bytes) reclamation_.marked_bytes = std::max(reclamation_.marked_bytes, to);
  }

  // For the log, each under the lock or on the thread that segment_bookkeeping.h names.

  SegmentReplication& replication() { return replication_; }
  const SegmentReplication& replication() const { return replication_; }
  SegmentMembership& membership() { return membership_; }
  const SegmentMembership& membership() const { return membership_; }
  SegmentReclamation& reclamation() { return reclamation_; }
  /// Gives the copy of a compaction the id of its original.
  void takeIdOf(const Segment& original) { id_.store(original.id().value, std::memory_order_release); }
  /// Notes that a compaction has filled it, with what is alive now.
  void noteCompacted() { compacted_live_bytes_ = live_.bytes(); }

 private:
  friend class SegmentPool;
  friend class SegmentDirectory;
  friend class Integrity;

  uint32_t nextExtent(const Cursor& cursor, uint32_t aligned_bytes);

  const LogMemory* memory_ = nullptr;
  uint32_t slot_ = 0;
  std::atomic<uint64_t> id_{0};
  std::atomic<Segment*> next_in_directory_{nullptr};
  std::atomic<SegmentState> state_{SegmentState::Free};
  SegmentKind kind_ = SegmentKind::Head;
  std::array<Extent, kExtentsMax> extents_;
  std::atomic<uint32_t> extent_count_{0};
  uint64_t memory_bytes_ = 0;
  uint32_t capacity_bytes_ = 0;

  Cursor cursor_;
  std::atomic<uint32_t> committed_bytes_{0};
  SegmentLiveBytes live_;
  SegmentReplication replication_;
  uint64_t stamp_bytes_ = 0;
  uint64_t begun_bytes_ = 0;
  int64_t compacted_live_bytes_ = 0;
  uint32_t compaction_count_ = 0;

  bool is_exchanged_ = false;  ///< counted in SegmentPool::exchangedBytes(); under the pool's lock
  bool is_large_ = false;      ///< closed, and holds large entries; under the pool's lock
  std::atomic<bool> damaged_{false};
  std::atomic<bool> was_damaged_{false};  ///< an entry in it was damaged at some time

  SegmentMembership membership_;
  SegmentReclamation reclamation_;
};

}  // namespace ramcore::log
