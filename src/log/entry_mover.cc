#include "log/entry_mover.h"

#include <algorithm>

namespace ramcore::log {

bool EntryMover::move(Segment& from, uint32_t& offset, uint32_t bytes_max, MoveTarget& target) {
  const uint32_t end = offset + std::min(bytes_max, from.committedBytes() - offset);
  bool has_room = true;
  while (offset < end && has_room) {
    std::array<Candidate, kWindow> window;
    size_t count = 0;
    uint32_t seen = offset;
    while (seen < end && count < kWindow) {
      const EntryRef ref = from.refAt(seen);
      const EntryView entry = log_.view(ref);
      seen += entry.alignedBytes();
      Candidate& candidate = window[count];
      candidate = {.ref = ref, .end = seen};
      if (isWanted(ref, entry, candidate)) ++count;
    }
    for (size_t i = 0; i < count && has_room; ++i) {
      has_room = moveOne(from, window[i], target);
      if (has_room) offset = window[i].end;
    }
    if (has_room) offset = seen;
  }
  settle(from);
  return has_room;
}

/// Whether the entry is to be moved, as far as that is known without the owner's lock.
bool EntryMover::isWanted(EntryRef ref, const EntryView& entry, Candidate& candidate) {
  switch (entry.type()) {
    case EntryType::SegmentHeader:
    case EntryType::LogDigest:
    case EntryType::SafeVersion:
      return false;  // every head since has newer ones
    case EntryType::Object:
    case EntryType::ResultRecord:
      if (entry.state() == EntryState::Superseded) return false;
      break;
    case EntryType::Tombstone:
      candidate.is_own_tombstone = log_.isOwnTombstone(entry);
      if (!candidate.is_own_tombstone) {
        if (!owner_.isLive(ref, entry)) return false;
        break;
      }
      candidate.named = find(entry.payloadAs<TombstonePayload>().segment);
      if (!log_.isTombstoneLive(candidate.named)) {
        owner_.dropped(ref, entry);
        return false;
      }
      break;
  }
  candidate.hint = owner_.willBeRelocated(entry);
  return true;
}

/// False: there is no room for it.
bool EntryMover::moveOne(Segment& from, const Candidate& candidate, MoveTarget& target) {
  const EntryView entry = log_.view(candidate.ref);
  const uint32_t bytes = entry.alignedBytes();
  const MoveTarget::Place place = target.place(bytes);
  if (place.segment == nullptr) return false;
  if (place.segment != to_ || tombstones_.size() >= kTombstonesMax) settle(from);
  to_ = place.segment;
  copyEntry(log_.pool().memory().at(place.ref), entry);
  const EntryView copied = log_.view(place.ref);
  to_->noteEntryBytes(bytes);
  if (!owner_.relocated(candidate.ref, place.ref, copied, candidate.hint) && !candidate.is_own_tombstone) {
    // It died, and its tombstone names the old place: the copy must not exist.
    to_->rewind(place.before);
    return true;
  }
  copied_bytes_ += bytes;
  if (candidate.is_own_tombstone) {
    tombstones_.push_back({candidate.named, entry.payloadAs<TombstonePayload>().segment, bytes});
  } else {
    moved_bytes_ += bytes;
    if (copied.type() == EntryType::ResultRecord) moved_result_bytes_ += bytes;
    if (copied.type() == EntryType::Object && bytes > log_.config().smallEntryBytesMax()) moved_large_bytes_ += bytes;
  }
  return true;
}

/// Counts what was moved where it lies now. A death in between was counted at the new place already; sums are right
/// whatever the order.
void EntryMover::settle(Segment& from) {
  if (to_ == nullptr) return;
  from.addLive(-moved_bytes_);
  to_->addLive(moved_bytes_);
  from.addLiveResults(-moved_result_bytes_);
  to_->addLiveResults(moved_result_bytes_);
  from.addLiveLarge(-moved_large_bytes_);
  to_->addLiveLarge(moved_large_bytes_);
  if (!tombstones_.empty()) log_.moveTombstones(from, *to_, tombstones_);
  log_.stats().cleaner_bytes_copied.fetch_add(copied_bytes_, std::memory_order_relaxed);
  moved_bytes_ = 0;
  moved_result_bytes_ = 0;
  moved_large_bytes_ = 0;
  copied_bytes_ = 0;
  tombstones_.clear();
  to_ = nullptr;
}

/// The segment with this id, or nullptr if it is gone.
Segment* EntryMover::find(SegmentId id) {
  Known& known = known_[id.value % kKnownSegments];
  if (known.id != id) known = {id, log_.pool().find(id)};
  return known.segment != nullptr && known.segment->id() == id ? known.segment : nullptr;
}

}  // namespace ramcore::log
