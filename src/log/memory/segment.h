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

/// On how many servers a segment is to be before it counts as open, and as closed.
enum class CopiesAwaited : uint8_t {
  Least,  ///< on as many as its master needs to go on; further copies follow when there are places
  All,    ///< on all that are to have one, those without a place for it included. For what takes the place of copies
          ///< that others give up when it is there
};

/// The life of a segment slot. Only the log (under its lock) and, for private segments, their one writer move it on.
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
  std::atomic<uint32_t> stream_begin{0};  ///< logical offset of its first entry, once it was entered
  uint32_t tried_begin = 0;               ///< the same, of the last cursor that came here; its one writer's
};

/// One segment: its memory, what is in it and how far that is committed.
///
/// The *logical* offset counts entry bytes only, through the extents in order: that is how replicas see it. Slots are
/// owned by SegmentPool and live as long; their content is as stable as the entries in it.
class Segment {
 public:
  static constexpr uint32_t kExtentsMax = 16;

  /// Where the next entry goes. A value, so that a group can be tried before anything is touched.
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
  /// Log traffic at the time its entries were written: survivors are filled in its order.
  uint64_t stampBytes() const { return stamp_bytes_; }
  /// Log traffic at the time the segment was opened: its age, for the choice of what to clean.
  uint64_t begunBytes() const { return begun_bytes_; }
  /// Its largest counted entry: what can be lost at the end of an extent that takes its entries over.
  uint32_t largestEntryBytes() const { return largest_entry_bytes_; }
  void noteEntryBytes(uint32_t bytes) { largest_entry_bytes_ = std::max(largest_entry_bytes_, bytes); }
  /// Bytes of live tombstones, written and due, in whatever segment, that name this one.
  uint64_t namedByTombstoneBytes() const { return named_by_bytes_.load(std::memory_order_relaxed); }

  /// The memory of the logical range [from, to), in order.
  /// @param to  at most committedBytes()
  /// @return pieces written to `pieces` (kExtentsMax are always enough)
  size_t spans(uint32_t from, uint32_t to, std::span<ByteSpan> pieces) const;
  /// Parts of the live bytes: result records, and objects above LogConfig::smallEntryBytesMax().
  int64_t liveResultBytes() const { return result_bytes_.load(std::memory_order_relaxed); }
  int64_t liveLargeBytes() const { return large_bytes_.load(std::memory_order_relaxed); }
  /// Bytes of the tombstones that it would take if all live objects died that name this segment.
  int64_t succeededBytes() const { return succeeded_bytes_.load(std::memory_order_relaxed); }
  /// In the digest of the head, or of the next one. Under the log's lock, or while nobody else uses the log.
  bool isListed() const { return listed_; }
  /// The head whose digest is the first without it; none before there is one. As isListed.
  SegmentId leaveHead() const { return leave_head_; }
  /// Copies the logical range [from, to), both ends of entries, with state bytes zero: what goes to replicas.
  void copyOut(uint32_t from, uint32_t to, std::byte* dest) const;
  /// Logical offset of an entry that lies in this segment.
  uint32_t offsetOf(EntryRef ref) const;
  /// The entry at a logical offset below committedBytes().
  EntryRef refAt(uint32_t offset) const;
  /// From a logical offset below committedBytes() to the end of what is committed in its extent. An entry begins where
  /// that ends, whatever the lengths of those before it say.
  ByteSpan restOfExtent(uint32_t offset) const;
  CopiesAwaited copiesAwaited() const { return copies_awaited_; }
  /// Servers that it waits for have had no place for it. Any thread.
  bool lacksPlaces() const { return lacks_places_.load(std::memory_order_acquire); }
  /// Its replicas have been reported opened. Any thread.
  bool hasPlaces() const { return has_places_.load(std::memory_order_acquire); }
  /// An entry in it is known to be damaged, and not restored. Any thread.
  bool isDamaged() const { return damaged_.load(std::memory_order_acquire); }

  // For the log, side logs and the cleaner (the segment's one writer).

  const Cursor& cursor() const { return cursor_; }
  /// What certainly still fits: entries of at most `entry_bytes_max` each, `bytes` together.
  uint64_t certainRoomBytes(uint32_t entry_bytes_max) const;
  /// Room for one more entry after `cursor`; moves it on. False if the segment is full for this size.
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
  /// Makes `cursor` the segment's own: the entries placed on the way belong to it now. No other cursor was tried since.
  void adopt(const Cursor& cursor) {
    for (uint32_t i = cursor_.extent + 1; i <= cursor.extent; ++i) {
      extents_[i].stream_begin.store(extents_[i].tried_begin, std::memory_order_relaxed);
    }
    cursor_ = cursor;
  }
  /// Takes back everything behind `cursor`, an earlier value of the own one. Nothing of it was committed.
  void rewind(const Cursor& cursor);
  void commit(uint32_t offset) { committed_bytes_.store(offset, std::memory_order_release); }
  void setState(SegmentState state) { state_.store(state, std::memory_order_release); }
  void addLive(int64_t bytes) { live_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t takeLive() { return live_bytes_.exchange(0, std::memory_order_relaxed); }
  /// Parts of the live bytes: result records, and large entries.
  void addLiveResults(int64_t bytes) { result_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t takeLiveResults() { return result_bytes_.exchange(0, std::memory_order_relaxed); }
  void addLiveLarge(int64_t bytes) { large_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t takeLiveLarge() { return large_bytes_.exchange(0, std::memory_order_relaxed); }
  void setStamp(uint64_t bytes) { stamp_bytes_ = bytes; }
  void setBegun(uint64_t bytes) { stamp_bytes_ = begun_bytes_ = bytes; }
  /// In the logical range [from, to) no object is believed any more by a one-sided reader. For those that the cleaner
  /// found nothing else says so, so it may not be taken back: if any of them was damaged and is restored, it may be,
  /// and all of the segment is marked once more.
  void noteMarked(uint32_t from, uint32_t to) {
    if (from <= marked_bytes_) marked_bytes_ = std::max(marked_bytes_, to);
  }
  void addNamedBy(int64_t bytes) { named_by_bytes_.fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed); }

  /// Bytes that tombstones would take for live objects, in whatever segment, that name this one: what still may come to
  /// be named.
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
  std::atomic<bool> was_damaged_{false};  ///< ever
  std::atomic<bool> has_places_{false};
  std::atomic<bool> lacks_places_{false};
  CopiesAwaited copies_awaited_ = CopiesAwaited::Least;
  uint64_t stamp_bytes_ = 0;
  uint64_t begun_bytes_ = 0;

  bool is_exchanged_ = false;  ///< counted in SegmentPool::exchangedBytes(); under the pool's lock
  bool is_large_ = false;      ///< closed, and holds large entries; under the pool's lock

  // The log's bookkeeping, under its lock.
  uint32_t durable_bytes_ = 0;          ///< committed on all replicas
  uint32_t flushed_bytes_ = 0;          ///< of them, flushed there
  bool listed_ = false;                 ///< in the digest of the head, or of the next one
  SegmentId joins_with_;                ///< of a side log: may be taken back until there is a head of this id or higher
  SegmentId first_head_;                ///< whose digest is the first with it then, taken over or not; none yet
  bool is_joining_ = false;             ///< in Log::joining_
  bool stays_ = false;                  ///< but not any more: it may be in a pass of the cleaner
  uint32_t own_bytes_ = 0;              ///< of a head: what it begins with; nothing was appended if there is no more
  runtime::GraceTicket sealed_ticket_;  ///< when it is over, all who appended to it have told the owner where
  std::atomic<bool> in_pass_{false};    ///< the cleaner is at it: tombstones naming it leave together with it
  uint32_t largest_entry_bytes_ = 0;
  std::atomic<bool> is_replaced_{false};  ///< unlinked because its segment lies in another slot now
  uint32_t compaction_count_ = 0;
  int64_t compacted_live_bytes_ = 0;
  SegmentId leave_head_;  ///< the head whose digest is the first without it

  // Reclamation: first what names it is counted out, then the grace period, then the pins; then those entries are
  // marked freed that are not yet.
  enum class Wait : uint8_t { Names, Grace, Epoch, Pins, Marks } wait_ = Wait::Names;
  uint32_t marked_bytes_ = 0;  ///< up to here they are, by the cleaner and then by the reclaimer
  runtime::GraceTicket ticket_;
  uint64_t pin_epoch_ = 0;
};

}  // namespace ramcore::log
