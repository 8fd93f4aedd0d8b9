#include "log/cleaning/entry_mover.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutation.h"
#include "base/point.h"
#include "log/integrity/freed_marking.h"

namespace ramcore::log {

namespace {

// How far ahead memory is prefetched. Entries are copied from memory that was not used for long, and to such memory.
// Both are walked through in order, but the processor does not recognise that among the accesses to the index.
constexpr uint32_t kAheadBytes = 2048;

/// @param bytes  as many lines as these have, so that each line is asked for once
/// @tparam kWrites  1: it is going to be written
template <int kWrites>
void fetchAhead(const std::byte* at, uint32_t bytes) {
  constexpr uint32_t kLineBytes = 64;
  for (uint32_t i = 0; i < std::min(bytes, kAheadBytes); i += kLineBytes) {
    __builtin_prefetch(at + kAheadBytes + i, kWrites);
  }
}

}  // namespace

bool EntryMover::move(Segment& from, uint32_t& offset, uint32_t bytes_max, MoveTarget& target) {
  const uint32_t begin = offset;
  const uint32_t end = offset + std::min(bytes_max, from.committedBytes() - offset);
  bool has_room = true;
  bool is_sound = true;
  while (offset < end && has_room && is_sound) {
    std::array<Candidate, kWindow> window;
    size_t count = 0;
    uint32_t seen = offset;
    while (seen < end && count < kWindow) {
      const EntryRef ref = from.refAt(seen);
      const EntryView entry = log_.view(ref);
      fetchAhead<0>(entry.address(), std::max(128u, entry.alignedBytes()));
      // A wrong length would lead past entries to which there are references, so dead entries are verified, too.
      uint32_t next = seen;
      // An entry that is still marked as damaged is not moved even if its bytes are right: it is not reconciled with
      // the owner yet, which looks for it where it lies. The mark of the segment is taken away last.
      if (!log_.integrity().isSound(from, seen, next) || (from.isDamaged() && isDamaged(entry.state()))) {
        is_sound = false;
        break;
      }
      seen = next;
      Candidate& candidate = window[count];
      candidate = {.ref = ref, .end = seen};
      if (isWanted(ref, entry, candidate)) ++count;
    }
    for (std::span<Candidate> left(window.data(), count); !left.empty() && has_room;) {
      const size_t copied = copyTo(left, from, target);
      const size_t done = handOver(left.first(copied));
      if (done > 0) offset = left[done - 1].end;
      left = left.subspan(done);
      has_room = copied > 0;
    }
    if (has_room) offset = seen;
  }
  settle(from);
  // One-sided readers believe nothing in this range any more: the objects about which the owner was asked are marked
  // freed, and the other entries are refused because of their state or their type.
  from.noteMarked(begin, offset);
  log_.stats().entries_marked_freed.fetch_add(std::exchange(marked_count_, 0), std::memory_order_relaxed);
  return has_room && is_sound;
}

/// Whether the entry is to be moved, as far as that is known without the owner's lock.
bool EntryMover::isWanted(EntryRef ref, const EntryView& entry, Candidate& candidate) {
  if (entry.namesSegment()) {
    Segment* const named = log_.pool().find(entry.namedSegment());
    if (log_.counts().isTombstoneLive(named)) candidate.named = named;
  }
  switch (entry.type()) {
    case EntryType::SegmentHeader:
    case EntryType::LogDigest:
    case EntryType::SafeVersion:
      return false;  // every head since has newer ones
    case EntryType::ResultRecord:
      if (entry.state() == EntryState::Superseded) return false;
      break;
    case EntryType::Object:
      candidate.carries = entry.carriesResult() && !entry.isAcknowledged() && !RC_MUTATION("drop-carried-result");
      if (entry.state() != EntryState::Superseded) break;
      candidate.is_due = candidate.named != nullptr && !RC_MUTATION("forget-due-tombstone");
      return candidate.is_due;
    case EntryType::Tombstone:
      if (candidate.named != nullptr) break;
      owner_.dropped(ref, entry);
      return false;
  }
  candidate.hint = owner_.willBeRelocated(entry);
  return true;
}

/// Copies as many of the candidates, one behind the other, as find room in one segment of the target.
/// @return how many; 0: there is no room
size_t EntryMover::copyTo(std::span<Candidate> candidates, Segment& from, MoveTarget& target) {
  size_t copied = 0;
  for (Candidate& candidate : candidates) {
    const EntryView entry = log_.view(candidate.ref);
    const Keep keep{.name = candidate.named != nullptr, .result = candidate.carries};
    candidate.bytes = candidate.is_due ? alignedTombstoneBytes(entry.keyBytes()) : entry.copyBytes(keep);
    const MoveTarget::Place place = target.place(candidate.bytes, copied == 0);
    if (place.segment == nullptr) break;
    fetchAhead<1>(log_.pool().memory().at(place.ref), candidate.bytes);
    if (copied == 0) {
      if (place.segment != to_ || tombstones_.size() >= kTombstonesMax) settle(from);
      to_ = place.segment;
    }
    RC_CHECK_MSG(place.segment == to_, "what may be taken back lies in one segment");
    to_->live().noteEntryBytes(candidate.bytes);
    candidate.place = place;
    std::byte* const at = log_.pool().memory().at(place.ref);
    if (candidate.is_due) {
      writeTombstoneBefore(at, entry);
    } else {
      copyEntry(at, entry, keep);
    }
    ++copied;
  }
  return copied;
}

/// Has the owner refer to the copies, one after the other, until the owner says that the entry of one has died. The
/// entry that killed it names the segment of the old place, so the copy must not exist. It is taken back, together with
/// the copies behind it.
/// @return how many entries are dealt with
size_t EntryMover::handOver(std::span<Candidate> copies) {
  for (size_t i = 0; i < copies.size(); ++i) {
    Candidate& candidate = copies[i];
    const EntryView entry = log_.view(candidate.ref);
    const bool is_tombstone = entry.type() == EntryType::Tombstone;
    auto moved = EntryOwner::Moved::Yes;
    if (!candidate.is_due) {
      const EntryView copy(log_.pool().memory().at(candidate.place.ref));
      RC_POINT(Moving);
      moved = owner_.relocated(candidate.ref, candidate.place.ref, copy, candidate.hint);
      if (moved == EntryOwner::Moved::No && !is_tombstone) {
        to_->rewind(candidate.place.before);
        candidate.is_due = candidate.named != nullptr;
        // The tombstone that is due may find no room, so the entry is looked at once more.
        if (candidate.is_due) return i;
        markDealtWith(candidate.ref, entry);
        return i + 1;
      }
    }
    markDealtWith(candidate.ref, entry);
    copied_bytes_ += candidate.bytes;
    if (is_tombstone || candidate.is_due) {
      // A tombstone that was due has been counted, in the segment of the object, since the object died.
      tombstones_.push_back({candidate.named, entry.namedSegment(), candidate.bytes});
    } else {
      countMoved(entry, candidate, moved == EntryOwner::Moved::WithoutResult);
    }
  }
  return copies.size();
}

/// Marks an object as freed at its old place (freed_marking.h). Called only when the owner has no reference to the
/// object any more, so that nothing can kill it or acknowledge its result here: before that, its state tells the
/// owner's writers whether the result has been counted out. Nothing is left to count of what happened while the object
/// was marked as damaged: its state has told that since the mark was taken away (Log::release). An object that was
/// marked as damaged since it was copied keeps that mark.
void EntryMover::markDealtWith(EntryRef ref, const EntryView& entry) {
  if (entry.type() != EntryType::Object || RC_MUTATION("forget-freed-mark")) return;
  if (markObjectFreed(log_.pool().memory().at(ref))) ++marked_count_;
}

/// @param has_left_result  the copy carries a result that is not needed any more
void EntryMover::countMoved(const EntryView& entry, const Candidate& candidate, bool has_left_result) {
  const uint32_t small_max = log_.config().smallEntryBytesMax();
  if (!entry.carriesResult() && entry.type() == EntryType::Object && entry.alignedBytes() <= small_max) [[likely]] {
    left_.all += entry.alignedBytes();
    kept_.all += candidate.bytes;
    return;
  }
  const auto count = [&](Bytes& bytes, const EntryView& of, uint32_t of_bytes, bool carries) {
    const uint32_t results = of.resultBytes();
    const uint32_t live = of_bytes - (carries ? 0 : results);
    bytes.all += live;
    if (of.type() == EntryType::ResultRecord) bytes.results += live;
    if (carries) bytes.results += results;
    if (of.type() == EntryType::Object && of_bytes > small_max) bytes.large += live;
  };
  const EntryView copy(log_.pool().memory().at(candidate.place.ref));
  count(left_, entry, entry.alignedBytes(), candidate.carries && !has_left_result);
  // If the copy has died since, dropResult() returns false: all of the copy was counted out, its result included.
  const bool carries = candidate.carries && !(has_left_result && log_.counts().dropResult(candidate.place.ref));
  count(kept_, copy, candidate.bytes, carries);
}

/// Counts the moved bytes in the segment in which they lie now. A death in between was counted in that segment already;
/// sums are right whatever the order.
void EntryMover::settle(Segment& from) {
  if (to_ == nullptr) return;
  from.live().add(-left_.all);
  to_->live().add(kept_.all);
  from.live().addResults(-left_.results);
  to_->live().addResults(kept_.results);
  from.live().addLarge(-left_.large);
  to_->live().addLarge(kept_.large);
  LogStats& stats = log_.stats();
  stats.live_bytes.fetch_add(kept_.all - left_.all, std::memory_order_relaxed);
  stats.large_bytes.fetch_add(kept_.large - left_.large, std::memory_order_relaxed);
  stats.result_bytes.fetch_add(kept_.results - left_.results, std::memory_order_relaxed);
  if (!tombstones_.empty()) log_.counts().moveTombstones(from, *to_, tombstones_);
  stats.cleaner_bytes_copied.fetch_add(copied_bytes_, std::memory_order_relaxed);
  counted_bytes_ += copied_bytes_;
  left_ = {};
  kept_ = {};
  copied_bytes_ = 0;
  tombstones_.clear();
  to_ = nullptr;
}

}  // namespace ramcore::log
