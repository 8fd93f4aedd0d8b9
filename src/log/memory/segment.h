#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <span>

#include "base/ids.h"
#include "log/format/segment_format.h"
#include "log/memory/log_memory.h"
#include "runtime/epoch.h"

namespace ramcore::log {

enum class SegmentKind : uint8_t {
  Head,       ///< opened as the log's end, holds a digest
  SmallHead,  ///< a head of the reserve: digest and removes only
  Survivor,   ///< what the cleaner kept of others
  Side,       ///< part of a side log
};

/// On how many servers a segment has to be before it counts as open, and before it counts as closed.
enum class CopiesAwaited : uint8_t {
  Least,  ///< on as many as its master needs to go on; further replicas follow when there are places
  All,    ///< on all that are to have a replica, including those that have no place for it. For segments that take the
          ///< place of replicas which other servers give up once the new ones are there
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
  /// Bytes of entries that have to be kept. Approximate while others append or kill.
  int64_t liveBytes() const { return live_bytes_.load(std::memory_order_relaxed); }
  /// Log traffic at the time its entries were written. The cleaner fills survivors in the order of this value.
  uint64_t stampBytes() const { return stamp_bytes_; }
  /// Log traffic at the time the segment was opened: its age, for the choice of what to clean.
  uint64_t begunBytes() const { return begun_bytes_; }
  /// The size of its largest counted entry: this much can be lost at the end of an extent that takes its entries over.
  uint32_t largestEntryBytes() const { return largest_entry_bytes_; }
  void noteEntryBytes(uint32_t bytes) { largest_entry_bytes_ = std::max(largest_entry_bytes_, bytes); }
  /// Bytes of live tombstones, written and due, that lie in any segment and name this one.
  uint64_t namedByTombstoneBytes() const { return named_by_bytes_.load(std::memory_order_relaxed); }

  /// The memory of the logical range [from, to), in order.
  /// @param to  at most committedBytes()
  /// @return pieces written to `pieces` (kExtentsMax are always enough)
  size_t spans(uint32_t from, uint32_t to, std::span<ByteSpan> pieces) const;
  /// Parts of the live bytes: results (records, and those that objects carry), and objects above
  /// LogConfig::smallEntryBytesMax().
  int64_t liveResultBytes() const { return result_bytes_.load(std::memory_order_relaxed); }
  int64_t liveLargeBytes() const { return large_bytes_.load(std::memory_order_relaxed); }
  /// Bytes of the tombstones that would be due if all live objects that name this segment died.
  int64_t succeededBytes() const { return succeeded_bytes_.load(std::memory_order_relaxed); }
  /// Whether the digest of the head lists it, or a later digest will. Read under the log's lock, or while no other
  /// thread uses the log.
  bool isListed() const { return listed_; }
  /// The head whose digest is the first that does not list it any more; none before there is one. Read as isListed().
  SegmentId leaveHead() const { return leave_head_; }
  /// Copies the logical range [from, to) as replicas get it: with all state bytes zero. Both ends are ends of entries.
  void copyOut(uint32_t from, uint32_t to, std::byte* dest) const;
  /// Logical offset of an entry that lies in this segment.
  uint32_t offsetOf(EntryRef ref) const;
  /// The entry at a logical offset below committedBytes().
  EntryRef refAt(uint32_t offset) const;
  /// The bytes from a logical offset below committedBytes() to the end of what is committed in its extent. The next
  /// entry begins at the logical offset at which they end, whatever the lengths of the entries before it say.
  ByteSpan restOfExtent(uint32_t offset) const;
  CopiesAwaited copiesAwaited() const { return copies_awaited_; }
  /// Servers that it waits for have no place for it. Any thread.
  bool lacksPlaces() const { return lacks_places_.load(std::memory_order_acquire); }
  /// Its replicas have been reported opened. Any thread.
  bool hasPlaces() const { return has_places_.load(std::memory_order_acquire); }
  /// An entry in it is known to be damaged, and not restored. Any thread.
  bool isDamaged() const { return damaged_.load(std::memory_order_acquire); }

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
  void addLive(int64_t bytes) { live_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t takeLive() { return live_bytes_.exchange(0, std::memory_order_relaxed); }
  /// Parts of the live bytes: results, and large entries.
  void addLiveResults(int64_t bytes) { result_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t takeLiveResults() { return result_bytes_.exchange(0, std::memory_order_relaxed); }
  void addLiveLarge(int64_t bytes) { large_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t takeLiveLarge() { return large_bytes_.exchange(0, std::memory_order_relaxed); }
  void setStamp(uint64_t bytes) { stamp_bytes_ = bytes; }
  void setBegun(uint64_t bytes) { stamp_bytes_ = begun_bytes_ = bytes; }
  /// Notes that in the logical range [from, to) a one-sided reader believes no object any more. For objects that the
  /// cleaner has dealt with only their state says so, so no such state may be taken back. The restoring of a damaged
  /// entry may do that; therefore all of a segment in which an entry was ever damaged is marked once more.
  void noteMarked(uint32_t from, uint32_t to) {
    if (from <= marked_bytes_) marked_bytes_ = std::max(marked_bytes_, to);
  }
  void addNamedBy(int64_t bytes) { named_by_bytes_.fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed); }

  /// Bytes of the tombstones that would be due for live objects, in any segment, that name this one: bytes that may
  /// still be added to what names it.
  void addSucceeded(int64_t bytes) { succeeded_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t takeSucceeded() { return succeeded_bytes_.exchange(0, std::memory_order_relaxed); }

 private:
  friend class SegmentPool;
  friend class SegmentDirectory;
  friend class Log;
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
  std::atomic<int64_t> live_bytes_{0};
  std::atomic<int64_t> result_bytes_{0};
  std::atomic<int64_t> large_bytes_{0};
  std::atomic<uint64_t> named_by_bytes_{0};
  std::atomic<int64_t> succeeded_bytes_{0};
  std::atomic<bool> damaged_{false};
  std::atomic<bool> was_damaged_{false};  ///< an entry in it was damaged at some time
  std::atomic<bool> has_places_{false};
  std::atomic<bool> lacks_places_{false};
  CopiesAwaited copies_awaited_ = CopiesAwaited::Least;
  uint64_t stamp_bytes_ = 0;
  uint64_t begun_bytes_ = 0;

  bool is_exchanged_ = false;  ///< counted in SegmentPool::exchangedBytes(); under the pool's lock
  bool is_large_ = false;      ///< closed, and holds large entries; under the pool's lock

  // The log's bookkeeping, under its lock.
  uint32_t durable_bytes_ = 0;          ///< committed on all replicas
  uint32_t flushed_bytes_ = 0;          ///< the part of them that is flushed there
  bool listed_ = false;                 ///< in the digest of the head, or of a later one
  SegmentId joins_with_;                ///< a segment of a side log may be taken back until there is a head of this id
                                        ///< or higher
  SegmentId first_head_;                ///< while it joins: the first head whose digest lists it, open or not; or none
  bool is_joining_ = false;             ///< in Log::joining_
  bool stays_ = false;                  ///< it may not be taken back any more, because a pass of the cleaner may have
                                        ///< it
  uint32_t own_bytes_ = 0;              ///< for a head: the bytes that it begins with; if it has no more, nothing was
                                        ///< appended
  runtime::GraceTicket sealed_ticket_;  ///< when it is over, all writers that appended to it have told the owner where
                                        ///< their entries lie
  std::atomic<bool> in_pass_{false};    ///< a pass of the cleaner has it: tombstones that name it leave together with
                                        ///< it
  uint32_t largest_entry_bytes_ = 0;
  std::atomic<bool> is_replaced_{false};  ///< unlinked because a copy in another slot has taken its place
  uint32_t compaction_count_ = 0;
  int64_t compacted_live_bytes_ = 0;
  SegmentId leave_head_;  ///< the first head whose digest does not list it any more

  // Reclamation: first the tombstones that name it are counted out, then the grace period is waited for, then the pins;
  // then the entries that are not marked freed yet are marked.
  enum class Wait : uint8_t { Names, Grace, Epoch, Pins, Marks } wait_ = Wait::Names;
  uint32_t marked_bytes_ = 0;  ///< entries below this offset are marked, first by the cleaner and then by the reclaimer
  runtime::GraceTicket ticket_;
  uint64_t pin_epoch_ = 0;
};

}  // namespace ramcore::log
