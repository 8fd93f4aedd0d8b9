#pragma once

/// The counting for every append and every death: inline, because it runs under the lock of the log.

#include "log/live_counts.h"

namespace ramcore::log {

inline void LiveCounts::countAppended(Segment& segment, const EntryInput& input, uint32_t bytes) {
  segment.live().noteEntryBytes(bytes);
  countParts(segment, input.type, bytes, {.all = bytes, .results = input.resultBytes()});
}

inline void LiveCounts::countKilledBy(const EntryInput& input, uint32_t bytes, Segment& segment,
                                      Segment* named_by_dead) {
  Segment& named = segmentNamedFor(input.dead);
  if (input.type == EntryType::Tombstone) {
    countTombstone(segment, named, bytes);
  } else {
    countSuccessor(named, alignedTombstoneBytes(static_cast<uint32_t>(input.key.size())));
  }
  countDead(input.dead, named_by_dead);
}

inline void LiveCounts::countAnchored(uint32_t bytes, Segment& segment, Segment* anchor) {
  if (anchor != nullptr && anchor->state() != SegmentState::Unlinked) countTombstone(segment, *anchor, bytes);
}

inline void LiveCounts::addLive(Segment& segment, int64_t bytes) {
  segment.live().add(bytes);
  stats_.live_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

/// @param entry_bytes  the length of the whole entry
/// @param bytes  how many of its bytes live from now on, and how many of those belong to the result that it carries;
///               negative when they are counted out
inline void LiveCounts::countParts(Segment& segment, EntryType type, uint32_t entry_bytes, const Parts& bytes) {
  const int64_t results = type == EntryType::ResultRecord ? bytes.all : bytes.results;
  if (results != 0) {
    segment.live().addResults(results);
    stats_.result_bytes.fetch_add(results, std::memory_order_relaxed);
  }
  if (type == EntryType::Object && entry_bytes > pool_.config().smallEntryBytesMax()) {
    segment.live().addLarge(bytes.all);
    stats_.large_bytes.fetch_add(bytes.all, std::memory_order_relaxed);
  }
}

/// @param bytes  of a tombstone in `holder`, written or due
inline void LiveCounts::countTombstone(Segment& holder, Segment& named, int64_t bytes) {
  pool_.tombstones().add(named.slot(), holder.slot(), bytes);
  named.live().addNamedBy(bytes);
  stats_.tombstone_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

/// @param tombstone_bytes  the length of the tombstone that would be due if an object that names `named` died; negative
///                         when such an object dies
inline void LiveCounts::countSuccessor(Segment& named, int64_t tombstone_bytes) {
  named.live().addSucceeded(tombstone_bytes);
  stats_.succeeded_bytes.fetch_add(tombstone_bytes, std::memory_order_relaxed);
}

inline Segment* LiveCounts::namedBy(const EntryView& entry) const {
  return entry.namesSegment() ? pool_.find(entry.namedSegment()) : nullptr;
}

/// The segment that counts as named when the entry at `dead` dies: the one that is found by the id of the segment in
/// which the entry lies. A copy that has not taken the place of its original yet, or never will, has the id of the
/// original, and then the original counts.
inline Segment& LiveCounts::segmentNamedFor(EntryRef dead) const {
  Segment& in = *pool_.segmentOf(dead);
  if (in.compactionCount() == 0) return in;
  Segment* const named = pool_.find(in.id());
  return named != nullptr ? *named : in;
}

/// Sets the state byte of a dead entry and counts it out.
/// @param due_bytes  the length of the tombstone that the entry now stands for. It is counted at once, or the segment
///                   would look emptier than it is
inline void LiveCounts::countOut(EntryRef ref, int64_t due_bytes) {
  std::byte* const at = memory_.at(ref);
  bool is_acknowledged = false;
  const std::atomic_ref<uint8_t> state(reinterpret_cast<uint8_t&>(at[1]));
  const auto superseded = static_cast<uint8_t>(EntryState::Superseded);
  if (EntryView(at).carriesResult()) {
    // An exchange, because the client may be acknowledging the result at the same time: the bytes of the result are
    // counted out either here or in markAcknowledged(), and not twice.
    is_acknowledged = EntryView::isAcknowledgedState(state.exchange(superseded, std::memory_order_acq_rel));
  } else {
    state.store(superseded, std::memory_order_release);
  }
  countLoss(ref, is_acknowledged, due_bytes);
}

/// @param is_acknowledged  the result that the entry carries, if it does, was counted out before
inline void LiveCounts::countLoss(EntryRef ref, bool is_acknowledged, int64_t due_bytes) {
  const EntryView entry = view(ref);
  const uint32_t entry_bytes = entry.alignedBytes();
  const uint32_t results = entry.resultBytes();
  const Parts bytes = is_acknowledged ? Parts{.all = entry_bytes - results, .results = 0}
                                      : Parts{.all = entry_bytes, .results = results};
  Segment& segment = *pool_.segmentOf(ref);
  segment.live().add(due_bytes - bytes.all);
  stats_.live_bytes.fetch_add(due_bytes - bytes.all, std::memory_order_relaxed);
  countParts(segment, entry.type(), entry_bytes, {.all = -bytes.all, .results = -bytes.results});
}

/// As countOut(), for an entry that may name a segment. If that segment is still there, the entries in it that were
/// kept dead by this one have to stay dead: a tombstone becomes due, which the cleaner writes when it drops the entry.
/// @param named  namedBy() the entry, asked before the lock was taken
inline void LiveCounts::countDead(EntryRef ref, Segment* named) {
  const EntryView entry = view(ref);
  // The lengths of a damaged entry mean nothing. The death is counted when the entry has been restored (release()),
  // which is before its segment is cleaned.
  if (isDamaged(entry.state())) return integrity_.noteDied(ref);
  countOut(ref, countDue(ref, named));
}

/// Counts the tombstone that a dead entry stands for.
/// @param named  as in countDead
/// @return its bytes; 0: none is due
inline int64_t LiveCounts::countDue(EntryRef ref, Segment* named) {
  const EntryView entry = view(ref);
  // The named segment may have been compacted since it was found.
  while (named != nullptr && named->membership().is_replaced) named = namedBy(entry);
  // The state is read before the id: a segment that is neither given up nor free stays what it is as long as the lock
  // is held.
  const SegmentState state = named == nullptr ? SegmentState::Free : named->state();
  const bool is_gone = state == SegmentState::Unlinked || state == SegmentState::Free;
  if (is_gone || named->id() != entry.namedSegment()) return 0;
  const int64_t due_bytes = alignedTombstoneBytes(entry.keyBytes());
  countSuccessor(*named, -due_bytes);
  countTombstone(*pool_.segmentOf(ref), *named, due_bytes);
  return due_bytes;
}

}  // namespace ramcore::log
