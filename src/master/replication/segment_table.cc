#include "master/replication/segment_table.h"

#include <algorithm>

#include "base/mutation.h"

namespace ramcore::master {

ReplicatedSegment* SegmentTable::find(SegmentId id) const {
  const auto found = segments_.find(id);
  return found == segments_.end() ? nullptr : found->second.get();
}

bool SegmentTable::isNeeded(SegmentId segment) const {
  const ReplicatedSegment* const found = find(segment);
  if (found == nullptr) return false;
  return !found->isClosed() || found->completeCount() < placement_.targetCount();
}

bool SegmentTable::areEarlierHeadsClosed(SegmentId segment) const {
  for (const auto& [id, earlier] : segments_) {
    if (id >= segment) break;
    // A recovery ignores open replicas below the floor: it would miss this head.
    if (earlier->isHead() && !earlier->isClosed() && !RC_MUTATION("raise-the-floor-past-open-heads")) return false;
  }
  return true;
}

ReplicaCounts SegmentTable::counts() const {
  ReplicaCounts counts{
      .wanted = placement_.wantedCount(), .demanded = placement_.leastCount(), .least = 0, .repairing = 0};
  counts.least = counts.wanted;
  bool any = false;
  for (const auto& [id, segment] : segments_) {
    // A head that was never open, or another segment that was never closed, holds nothing that was acknowledged.
    if (segment->isHead() ? !segment->isOpened() : !segment->isClosed()) continue;
    any = true;
    const uint32_t complete = segment->completeCount();
    counts.least = std::min(counts.least, complete);
    if (complete < placement_.targetCount()) ++counts.repairing;
  }
  if (!any) counts.least = 0;
  return counts;
}

std::vector<ReplicaHolder> SegmentTable::closedHolders(SegmentId segment) const {
  std::vector<ReplicaHolder> holders;
  const ReplicatedSegment* const found = find(segment);
  if (found == nullptr) return holders;
  for (const auto& replica : found->replicas().all()) {
    if (replica->closed) holders.push_back({.address = replica->address, .replica_epoch = replica->epoch});
  }
  return holders;
}

std::vector<KnownReplica> SegmentTable::replicas() const {
  std::vector<KnownReplica> known;
  for (const auto& [id, segment] : segments_) {
    for (const auto& replica : segment->replicas().all()) {
      known.push_back({.segment = id,
                       .backup = replica->backup,
                       .certified_bytes = replica->certified_bytes,
                       .sent_bytes = replica->sent_bytes,
                       .is_closed = replica->closed});
    }
  }
  return known;
}

}  // namespace ramcore::master
