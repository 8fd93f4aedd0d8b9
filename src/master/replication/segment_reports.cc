#include "master/replication/segment_reports.h"

#include <algorithm>
#include <utility>

#include "base/mutation.h"

namespace ramcore::master {

// The replicas without which the segment is neither open nor closed. A server that is full counts as one that can keep
// a replica, whether it can be asked again now or not: it may get room when other replicas are freed.
uint32_t SegmentReports::awaitedCount() const {
  const uint32_t least = parts_.placement.leastCount();
  if (demand_.copies_awaited == log::CopiesAwaited::Least) return least;
  return std::max(least, parts_.placement.possibleCount(replicas_));
}

void SegmentReports::reportPlaces() {
  if (demand_.is_head || closed_) return;
  const bool lacks = replicas_.isRefused() && replicas_.openedCount() < awaitedCount();
  if (!lacks) replicas_.forgetRefusal();
  if (std::exchange(lacks_places_, lacks) != lacks) parts_.events.segmentLacksPlaces(demand_.id, lacks);
}

void SegmentReports::report() {
  // A refusal counts for as long as no other server has taken its place.
  if (demand_.is_head && replicas_.count() >= parts_.placement.leastCount()) replicas_.forgetRefusal();
  reportPlaces();
  if (replicas_.count() < awaitedCount()) return;
  if (closed_) return;
  if (!demand_.is_head && !opened_) {
    if (!replicas_.allOf([](const Replica& replica) { return replica.opened; })) return;
    opened_ = true;
    parts_.events.segmentOpened(demand_.id);
  }
  if (demand_.is_head) {
    const uint64_t epoch = replicas_.epoch();
    if (!replicas_.allOf([epoch](const Replica& replica) { return replica.certified_epoch == epoch; })) return;
    if (!opened_) {
      // Nothing in the head is acknowledged before its predecessor is closed; the floor may follow until then.
      opened_ = true;
      parts_.admission.noteOpened(demand_.is_of_reserve);
      parts_.events.segmentOpened(demand_.id);
    }
    // Nothing is acknowledged until the coordinator has the floor: before that, a recovery would still believe the
    // replica that was lost, which ends earlier.
    if (floor_epoch_ < epoch && !RC_MUTATION("go-on-without-the-floor")) {
      if (raising_ || !parts_.owner.mayRaiseFloor(demand_.id)) return;
      raising_ = true;
      parts_.owner.raiseFloor(demand_.id, epoch);
      return;
    }
    reportDurable();
  }
  if (demand_.close_wanted && replicas_.allOf([](const Replica& replica) { return replica.closed; })) {
    closed_ = true;
    parts_.events.segmentClosed(demand_.id);
  }
}

// Called when all replicas are certified under the present epoch, and a recovery would ignore those of earlier epochs.
void SegmentReports::reportDurable() {
  uint32_t durable = UINT32_MAX;
  uint32_t flushed = UINT32_MAX;
  for (const auto& replica : replicas_.all()) {
    durable = std::min(durable, replica->certified_bytes);
    flushed = std::min(flushed, replica->flushed_epoch == replicas_.epoch() ? replica->flushed_bytes : 0);
  }
  if (RC_MUTATION("acknowledge-before-replication")) durable = source_.committedBytes();
  if (durable > durable_bytes_) {
    durable_bytes_ = durable;
    parts_.events.segmentDurable(demand_.id, durable);
  }
  if (flushed > flushed_bytes_) {
    flushed_bytes_ = flushed;
    parts_.events.segmentFlushed(demand_.id, flushed);
  }
}

void SegmentReports::floorRaised(uint64_t replica_epoch) {
  raising_ = false;
  floor_epoch_ = std::max(floor_epoch_, replica_epoch);
}

}  // namespace ramcore::master
