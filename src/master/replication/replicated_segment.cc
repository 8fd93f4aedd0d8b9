#include "master/replication/replicated_segment.h"

#include <algorithm>

#include "base/check.h"

namespace ramcore::master {

ReplicatedSegment::ReplicatedSegment(const SegmentParts& parts, const log::Segment& segment)
    : parts_(parts),
      demand_(segment),
      source_(parts.cluster, parts.self, segment),
      replicas_(parts_),
      reports_(parts_, demand_, replicas_, source_),
      sender_(parts_, demand_, replicas_, source_, reports_) {}

bool ReplicatedSegment::isStuck() const {
  const bool is_awaited = !isOpened() || demand_.close_wanted;
  return isOpenHead() && is_awaited && replicas_.isRefused() && replicas_.count() < parts_.placement.leastCount();
}

bool ReplicatedSegment::canBeWithdrawn() const {
  return demand_.withdraw_wanted && isHead() && !sender_.hasCertified() &&
         replicas_.openedCount() < parts_.placement.leastCount();
}

uint32_t ReplicatedSegment::completeCount() const {
  return replicas_.countOf([this](const Replica& replica) {
    // A segment that waits for its turn may still have replicas on servers that are gone.
    if (!parts_.placement.isMember(replica.backup)) return false;
    if (isClosed() || !isHead()) return replica.closed;
    return replica.certified_epoch == replicas_.epoch() && replica.certified_bytes >= reports_.durableBytes();
  });
}

bool ReplicatedSegment::isBlocked() const {
  return isClosed() && replicas_.countOf([](const Replica& replica) { return replica.is_blocked; }) != 0 &&
         replicas_.allOf([](const Replica& replica) { return !replica.busy; });
}

bool ReplicatedSegment::isOutOfPlaces() const {
  return isClosed() && replicas_.count() < parts_.placement.targetCount() &&
         replicas_.allOf([](const Replica& replica) { return replica.closed; });
}

bool ReplicatedSegment::hasNoPlace() const {
  return isOpenHead() && replicas_.openedCount() < parts_.placement.leastCount();
}

bool ReplicatedSegment::step() {
  replicas_.dropGone();
  place();
  const uint32_t committed = source_.committedBytes();
  bool has_work = !isClosed() || replicas_.count() < parts_.placement.targetCount();
  for (const auto& replica : replicas_.all()) {
    has_work = has_work || sender_.needs(*replica, committed);
    if (!replica->retry.isArmed()) sender_.sendWhatIsDue(*replica, committed);
  }
  reports_.report();
  return has_work;
}

// Replicas that are being made begin again: otherwise their bytes would be partly from the one memory and partly from
// the other. The replica that begins again has a later epoch than what its backup has of the former one. If the last
// write of the former one arrives nevertheless, that replica is complete, and good.
void ReplicatedSegment::moved(const log::Segment& segment) {
  RC_CHECK(isClosed() && segment.id() == id());
  source_.move(segment);
  replicas_.restartUnclosed(sender_);
}

void ReplicatedSegment::place() {
  while (replicas_.count() < parts_.placement.targetCount()) {
    const Member* const member = parts_.placement.choose(replicas_, sender_.frameFlags());
    if (member == nullptr) return;
    replicas_.add(sender_, *member);
  }
}

}  // namespace ramcore::master
