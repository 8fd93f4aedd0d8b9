#include "log/segment_settling.h"

#include "base/mutation.h"

namespace ramcore::log {

bool SegmentSettling::isOver(runtime::GraceTicket ticket) const {
  return rcu_.elapsed(ticket) || RC_MUTATION("free-before-grace");
}

void SegmentSettling::seal(Segment& segment) {
  const runtime::GraceTicket ticket = segment.membership().sealed_ticket = rcu_.ticket();
  uint64_t last = last_sealed_.load(std::memory_order_relaxed);
  while (last < ticket.number && !last_sealed_.compare_exchange_weak(last, ticket.number, std::memory_order_relaxed)) {
  }
}

bool SegmentSettling::isKnownToOwner(const Segment& sealed) const {
  return rcu_.elapsed(sealed.membership().sealed_ticket) || RC_MUTATION("clean-before-grace");
}

void SegmentSettling::setUnsettled(Segment& segment, SegmentState state) {
  const SegmentState was = segment.state();
  const bool was_unsettled = was == SegmentState::Closing || was == SegmentState::Leaving;
  if (!was_unsettled) unsettled_count_.fetch_add(1, std::memory_order_relaxed);
  segment.setState(state);
}

void SegmentSettling::setClosed(Segment& segment) {
  segment.setState(SegmentState::Closed);
  unsettled_count_.fetch_sub(1, std::memory_order_relaxed);
}

bool SegmentSettling::isSettled() const {
  if (unsettled_count_.load(std::memory_order_acquire) != 0) return false;
  return rcu_.elapsed({last_sealed_.load(std::memory_order_relaxed)});
}

}  // namespace ramcore::log
