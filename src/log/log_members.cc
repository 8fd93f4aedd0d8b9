#include "log/log_members.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutation.h"

namespace ramcore::log {

LogMembers::LogMembers(SegmentPool& pool, LiveCounts& counts, SegmentSettling& settling, JoiningSegments& joining,
                       SegmentReclaimer& reclaimer, LogLock& lock)
    : pool_(pool), counts_(counts), settling_(settling), joining_(joining), reclaimer_(reclaimer), lock_(lock) {
  leaving_.reserve(pool_.slotCount());  // so that it takes no memory under the lock
}

void LogMembers::exchange(std::span<Segment* const> joining, std::span<Segment* const> leaving) {
  // Outside of the log's lock: the pool's lock is never taken inside it.
  pool_.exchange(joining, leaving);
  LogGuard guard(lock_);
  list(joining);
  for (Segment* segment : leaving) {
    RC_CHECK(segment->state() == SegmentState::Closed && segment->isListed());
    settling_.setUnsettled(*segment, SegmentState::Leaving);
    if (!RC_MUTATION("skip-digest-update")) member_changes_.remove(segment->id());
    leaving_.push_back(segment);
  }
}

bool LogMembers::isListed(const Segment& segment) const {
  LogGuard guard(lock_);
  return segment.isListed();
}

void LogMembers::list(std::span<Segment* const> joining) {
  for (Segment* segment : joining) {
    RC_CHECK(segment->state() == SegmentState::Closed && !segment->isListed());
    segment->membership().is_listed = true;
    member_changes_.add(segment->id());
  }
}

void LogMembers::unlist(std::span<Segment* const> joining) {
  for (Segment* segment : joining) {
    segment->membership().is_listed = false;
    member_changes_.remove(segment->id());
  }
}

void LogMembers::listForDigest(Segment& next) {
  next.membership().is_listed = true;
  member_changes_.add(next.id());
  joining_.noteListed(next);
  for (Segment* segment : leaving_) {
    if (!segment->leaveHead()) segment->membership().leave_head = next.id();
  }
  member_changes_.swap(taken_changes_);
}

void LogMembers::unlinkLeft(SegmentId head, std::vector<SegmentId>& freed) {
  const auto hasLeft = [head](const Segment* segment) { return segment->leaveHead() && segment->leaveHead() <= head; };
  for (Segment* segment : leaving_) {
    if (!hasLeft(segment)) continue;
    freed.push_back(segment->id());
    unlink(*segment);
  }
  std::erase_if(leaving_, hasLeft);
}

void LogMembers::unlink(Segment& segment) {
  SegmentMembership& membership = segment.membership();
  // A segment that was replaced stays in the digest: its copy has the same id, and is listed.
  if (std::exchange(membership.is_listed, false) && !membership.is_replaced) member_changes_.remove(segment.id());
  joining_.remove(segment);
  counts_.countUnlinked(segment);
  reclaimer_.add(segment);
}

void LogMembers::replace(Segment& original, Segment& copy) {
  RC_CHECK(original.isListed() && original.state() == SegmentState::Closed && copy.state() == SegmentState::Open);
  copy.replication().durable_bytes = copy.committedBytes();
  copy.replication().flushed_bytes = copy.committedBytes();
  copy.noteCompacted();
  settling_.seal(copy);
  counts_.takeOverTombstones(original, copy);
  copy.membership().is_listed = true;
  copy.setState(SegmentState::Closed);
  original.membership().is_replaced = true;
  unlink(original);
}

}  // namespace ramcore::log
