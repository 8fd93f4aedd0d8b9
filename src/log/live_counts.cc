#include "log/live_counts.h"

#include "base/check.h"
#include "base/mutation.h"
#include "log/live_counts_inline.h"

namespace ramcore::log {
namespace {

// How many pairs are counted out while the log's lock is held once: some 10 us if none of them is in a cache.
constexpr uint32_t kTombstonesPerHold = 16;

}  // namespace

void LiveCounts::markDead(EntryRef ref) {
  RC_DCHECK(view(ref).type() != EntryType::Tombstone);
  const EntryView entry = view(ref);
  Segment* const named = isDamaged(entry.state()) ? nullptr : namedBy(entry);
  // No lock is needed: an entry that names no segment leaves no tombstone due.
  if (named == nullptr && !isDamaged(entry.state())) return countOut(ref, 0);
  pool_.tombstones().prepare();
  LogGuard guard(lock_);
  countDead(ref, named);
}

void LiveCounts::markAcknowledged(EntryRef ref) {
  Segment* const segment = pool_.segmentOf(ref);
  RC_CHECK_MSG(segment != nullptr, "an object whose result is needed is alive");
  const EntryView entry = view(ref);
  if (!isDamaged(entry.state()) && !(entry.type() == EntryType::Object && entry.carriesResult())) {
    // The entry is damaged, and that was not noticed before. Bytes that are not committed cannot be looked at: the
    // result counts as needed until the segment goes, or the entry is moved.
    const uint32_t offset = segment->offsetOf(ref);
    if (offset >= segment->committedBytes()) return;
    uint32_t next = 0;
    const bool is_sound = integrity_.isSound(*segment, offset, next);
    RC_CHECK_MSG(!is_sound, "an object whose result is needed is alive");
  }
  std::atomic_ref<uint8_t> state(reinterpret_cast<uint8_t&>(memory_.at(ref)[1]));
  uint8_t was = state.load(std::memory_order_acquire);
  do {
    // The flags and lengths of a damaged entry say nothing until it is restored. Then the acknowledgement that is noted
    // here is counted.
    if (isDamaged(static_cast<EntryState>(was)) && integrity_.noteAcknowledged(ref)) return;
    was = state.load(std::memory_order_acquire);
    // If the entry is dead, all of it was counted. An entry that no lookup leads to any more (Freed) must not come to
    // look alive again. Nothing is left to count for it: the owner was asked about it after it had been released, and
    // by then this acknowledgement had been noted and counted.
    if (isRefused(static_cast<EntryState>(was))) return;
  } while (
      !state.compare_exchange_weak(was, static_cast<uint8_t>(EntryState::Acknowledged), std::memory_order_acq_rel));
  countResultOut(ref);
}

void LiveCounts::countResultOut(EntryRef ref) {
  const EntryView entry = view(ref);
  Segment& segment = *pool_.segmentOf(ref);
  const int64_t bytes = -int64_t{entry.resultBytes()};
  segment.live().add(bytes);
  stats_.live_bytes.fetch_add(bytes, std::memory_order_relaxed);
  countParts(segment, EntryType::Object, entry.alignedBytes(), {.all = bytes, .results = bytes});
}

Integrity::Released LiveCounts::release(const Damage& damage) {
  if (integrity_.segmentOf(damage) == nullptr) return {};
  Segment* const named = namedBy(view(damage.ref));
  // The lock is held over all of this. A thread that finds the entry marked and wants to count it as dead holds the
  // lock until the death is noted, so none is missed here. And no thread moves the tombstone of a dead entry along
  // (moveTombstones) before that tombstone is counted here.
  LogGuard guard(lock_);
  const Integrity::Released released = integrity_.release(damage);
  if (released.is == released.was) return released;
  if (released.is == EntryState::Superseded) {
    const bool is_acknowledged = EntryView::isAcknowledgedState(static_cast<uint8_t>(released.was));
    countLoss(damage.ref, is_acknowledged, countDue(damage.ref, named));
  } else {
    countResultOut(damage.ref);
  }
  return released;
}

bool LiveCounts::dropResult(EntryRef ref) {
  auto was = static_cast<uint8_t>(EntryState::Pending);
  return std::atomic_ref<uint8_t>(reinterpret_cast<uint8_t&>(memory_.at(ref)[1]))
      .compare_exchange_strong(was, static_cast<uint8_t>(EntryState::Acknowledged), std::memory_order_acq_rel);
}

bool LiveCounts::isTombstoneLive(const Segment* named) const {
  if (named == nullptr || named->state() == SegmentState::Unlinked) return false;
  if (RC_MUTATION("drop-tombstone-early") && named->state() == SegmentState::Closed) return false;
  return !named->membership().in_pass;
}

void LiveCounts::countLive(Segment& segment, const EntryView& entry, EntryRef dead) {
  const int64_t bytes = entry.alignedBytes();
  segment.live().add(bytes);
  segment.live().noteEntryBytes(static_cast<uint32_t>(bytes));
  stats_.live_bytes.fetch_add(bytes, std::memory_order_relaxed);
  countParts(segment, entry.type(), entry.alignedBytes(), {.all = bytes, .results = entry.resultBytes()});
  if (!dead) return;
  Segment* const named_by_dead = namedBy(view(dead));
  pool_.tombstones().prepare();
  LogGuard guard(lock_);
  // The named segment is looked up under the lock and not before: meanwhile the copy in which the dead entry lies may
  // take the place of its original.
  Segment& named = segmentNamedFor(dead);
  if (entry.type() == EntryType::Tombstone) {
    countTombstone(segment, named, bytes);
  } else {
    countSuccessor(named, alignedTombstoneBytes(entry.keyBytes()));
  }
  countDead(dead, named_by_dead);
}

void LiveCounts::moveTombstones(Segment& from, Segment& to, std::span<const MovedTombstone> moved) {
  pool_.tombstones().prepare();
  LogGuard guard(lock_);
  int64_t bytes = 0;
  for (const MovedTombstone& tombstone : moved) {
    Segment& named = *tombstone.named;
    // If the named segment was unlinked since the tombstone was judged, the bytes are counted out where they are.
    if (named.id() != tombstone.named_id || named.state() == SegmentState::Unlinked) continue;
    pool_.tombstones().add(named.slot(), from.slot(), -int64_t{tombstone.bytes});
    pool_.tombstones().add(named.slot(), to.slot(), tombstone.bytes);
    bytes += tombstone.bytes;
  }
  from.live().add(-bytes);
  to.live().add(bytes);
}

void LiveCounts::countUnlinked(Segment& segment) {
  stats_.live_bytes.fetch_sub(segment.live().take(), std::memory_order_relaxed);
  stats_.result_bytes.fetch_sub(segment.live().takeResults(), std::memory_order_relaxed);
  stats_.large_bytes.fetch_sub(segment.live().takeLarge(), std::memory_order_relaxed);
  stats_.succeeded_bytes.fetch_sub(segment.live().takeSucceeded(), std::memory_order_relaxed);
}

void LiveCounts::takeOverTombstones(Segment& original, Segment& copy) {
  const auto bytes = static_cast<int64_t>(original.live().namedByTombstoneBytes());
  pool_.tombstones().moveNaming(original.slot(), copy.slot());
  original.live().addNamedBy(-bytes);
  copy.live().addNamedBy(bytes);
  copy.live().addSucceeded(original.live().takeSucceeded());
}

void LiveCounts::forgetNamingTombstones(Segment& named) {
  for (;;) {
    LogGuard guard(lock_);
    for (uint32_t i = 0; i < kTombstonesPerHold; ++i) {
      const TombstoneCounts::Taken naming = pool_.tombstones().takeNaming(named.slot());
      if (naming.bytes == 0) return;
      Segment& holder = pool_.slot(naming.slot);
      // The live bytes of a holder that is unlinked itself were counted out as a whole, in unlink().
      if (holder.state() != SegmentState::Unlinked) {
        holder.live().add(-naming.bytes);
        stats_.live_bytes.fetch_sub(naming.bytes, std::memory_order_relaxed);
      }
      named.live().addNamedBy(-naming.bytes);
      stats_.tombstone_bytes.fetch_sub(naming.bytes, std::memory_order_relaxed);
    }
  }
}

void LiveCounts::forgetHeldTombstones(Segment& holder) {
  for (;;) {
    LogGuard guard(lock_);
    for (uint32_t i = 0; i < kTombstonesPerHold; ++i) {
      const TombstoneCounts::Taken held = pool_.tombstones().takeHeld(holder.slot());
      if (held.bytes == 0) return;
      pool_.slot(held.slot).live().addNamedBy(-held.bytes);
      stats_.tombstone_bytes.fetch_sub(held.bytes, std::memory_order_relaxed);
    }
  }
}

}  // namespace ramcore::log
