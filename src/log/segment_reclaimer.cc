#include "log/segment_reclaimer.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"
#include "log/integrity/freed_marking.h"

namespace ramcore::log {
namespace {

// The bytes that one round of the reclaimer marks: 0.2 ms of small entries. Writers may be waiting for the round.
constexpr uint32_t kMarkBytesPerRound = 1u << 20;

using Wait = SegmentReclamation::Wait;

}  // namespace

SegmentReclaimer::SegmentReclaimer(SegmentPool& pool, LogStats& stats, LiveCounts& counts, SegmentSettling& settling,
                                   runtime::PinRegistry& pins, LogLock& lock)
    : pool_(pool), stats_(stats), counts_(counts), settling_(settling), pins_(pins), lock_(lock) {
  // So that they take no memory under the lock.
  for (std::vector<Segment*>* segments : {&unlinked_, &reclaiming_}) segments->reserve(pool_.slotCount());
}

void SegmentReclaimer::add(Segment& segment) {
  unlinked_.push_back(&segment);
  segment.reclamation().wait = Wait::Names;
  segment.reclamation().ticket = settling_.graceTicket();
  // Last: from here on the segment is the reclaimer's.
  settling_.setUnsettled(segment, SegmentState::Unlinked);
}

SegmentReclaimer::Reclaimed SegmentReclaimer::reclaim(uint64_t now_ns) {
  {
    LogGuard guard(lock_);
    reclaiming_.insert(reclaiming_.end(), unlinked_.begin(), unlinked_.end());
    unlinked_.clear();
  }
  const bool want_epoch = awaitGrace();
  if (reclaiming_.empty()) {
    stats_.pinned_bytes.store(0, std::memory_order_relaxed);
    return {};
  }
  // One pin epoch for all segments whose grace period is over.
  const auto epoch = want_epoch ? pins_.advance(now_ns) : std::nullopt;
  uint64_t pinned_bytes = 0;
  uint32_t mark_bytes_left = kMarkBytesPerRound;
  const auto is_released = [&](Segment* segment) { return isReleased(*segment, epoch, pinned_bytes, mark_bytes_left); };
  const bool has_released = std::erase_if(reclaiming_, is_released) != 0;
  stats_.pinned_bytes.store(pinned_bytes, std::memory_order_relaxed);
  return {.waiting_count = reclaiming_.size(), .has_released = has_released};
}

/// @return whether the grace period of a segment is over, so that it waits for the pins that were taken until now
bool SegmentReclaimer::awaitGrace() {
  bool want_epoch = false;
  for (Segment* segment : reclaiming_) {
    SegmentReclamation& reclamation = segment->reclamation();
    if (reclamation.wait == Wait::Names) {
      counts_.forgetNamingTombstones(*segment);
      // The tombstones that the segment holds are counted out this early because its live bytes were counted out when
      // it was unlinked. Those that are counted for it later are counted out when it is released.
      counts_.forgetHeldTombstones(*segment);
      reclamation.wait = Wait::Grace;
    }
    if (reclamation.wait == Wait::Grace && settling_.isOver(reclamation.ticket)) reclamation.wait = Wait::Epoch;
    if (reclamation.wait == Wait::Epoch) want_epoch = true;
  }
  return want_epoch;
}

/// Gives a segment back if nothing is waited for any more.
/// @param pin_epoch  pins up to this epoch may be those of readers that could find the segment; none if no epoch could
///                   be ended
/// @param pinned_bytes  the memory of the segment is added to it if the segment waits for nothing but pins
/// @param mark_bytes_left  as in markSlice
bool SegmentReclaimer::isReleased(Segment& segment, std::optional<uint64_t> pin_epoch, uint64_t& pinned_bytes,
                                  uint32_t& mark_bytes_left) {
  SegmentReclamation& reclamation = segment.reclamation();
  if (reclamation.wait == Wait::Epoch && pin_epoch) {
    reclamation.wait = Wait::Pins;
    reclamation.pin_epoch = *pin_epoch;
  }
  // A pin that is so old that no epoch can end holds the segment, too.
  if (reclamation.wait == Wait::Epoch) pinned_bytes += segment.memoryBytes();
  if (reclamation.wait == Wait::Pins) {
    if (!pins_.quiesced(reclamation.pin_epoch) && !RC_MUTATION("free-before-last-pin")) {
      pinned_bytes += segment.memoryBytes();
      return false;
    }
    reclamation.wait = Wait::Marks;
    // The cleaner did not mark entries that it found damaged, and one that was restored since has the state of a live
    // entry. So all of a segment in which an entry was ever damaged is marked again.
    if (segment.wasDamaged()) reclamation.marked_bytes = 0;
  }
  if (reclamation.wait != Wait::Marks || !markSlice(segment, mark_bytes_left)) return false;
  // Counts out the tombstones that were counted for the segment since the first time (awaitGrace): from here on its
  // slot may be another segment's.
  counts_.forgetHeldTombstones(segment);
  pool_.release(segment);
  settling_.noteReleased();
  return true;
}

/// Marks some entries of an unlinked segment as freed; those that the cleaner has been through are marked already.
/// Called only when the last reader of the segment has gone, because bytes that it reads may be set to zero.
/// @param bytes_left  how many bytes this round may still look at; reduced by those that were looked at
/// @return true: all entries are marked
bool SegmentReclaimer::markSlice(Segment& segment, uint32_t& bytes_left) {
  uint32_t& marked_bytes = segment.reclamation().marked_bytes;
  const uint32_t before = marked_bytes;
  uint64_t marked = 0;
  marked_bytes = markSegmentFreed(segment, pool_.memory(), before, bytes_left, marked);
  stats_.entries_marked_freed.fetch_add(marked, std::memory_order_relaxed);
  bytes_left -= std::min(bytes_left, marked_bytes - before);
  if (marked_bytes < segment.committedBytes()) return false;
  if (pool_.config().poison_freed) {
    RC_CHECK_MSG(!holdsBelievable(segment), "memory is given back with an object in it");
  }
  return true;
}

}  // namespace ramcore::log
