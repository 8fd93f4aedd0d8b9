#include "log/joining_segments.h"

#include <algorithm>
#include <utility>

namespace ramcore::log {

void JoiningSegments::noteRoll(SegmentId request, SegmentId head) {
  std::erase_if(rolls_, [head](SegmentId roll) { return head >= roll; });
  rolls_.push_back(request);
  wanted_roll_ = std::max(wanted_roll_, request);
}

// Erases one request only: other side logs may have asked for the same head.
void JoiningSegments::forgetRoll(SegmentId request) {
  const auto own = std::find(rolls_.begin(), rolls_.end(), request);
  if (own != rolls_.end()) rolls_.erase(own);
  const auto highest = std::max_element(rolls_.begin(), rolls_.end());
  wanted_roll_ = highest != rolls_.end() ? *highest : SegmentId();
}

void JoiningSegments::add(std::span<Segment* const> joining, SegmentId request) {
  for (Segment* segment : joining) {
    segment->membership().joins_with = request;
    segment->membership().is_joining = true;
    segments_.push_back(segment);
  }
}

JoiningSegments::TakenBack JoiningSegments::takeBack(std::span<Segment* const> joining, SegmentId request,
                                                     const NextHead& next) {
  const void* const holder = joining.data();  // identifies the side log; `request` may be that of others, too
  bool is_listed = false;
  bool is_late = next.head >= request;
  for (const Segment* segment : joining) {
    const SegmentMembership& membership = segment->membership();
    const bool is_same = segment->state() == SegmentState::Closed && membership.joins_with == request;
    if (!is_same || membership.stays) {
      is_late = true;
      break;
    }
    is_listed = is_listed || membership.first_head;
    is_late = is_late || (membership.first_head && membership.first_head != next.unopened);
  }
  if (!is_late && (next.is_preparing || is_listed)) {
    if (held_by_ == nullptr) held_by_ = holder;
    return TakenBack::Wait;
  }
  if (held_by_ == holder) held_by_ = nullptr;
  if (is_late) return TakenBack::Late;
  for (Segment* segment : joining) {
    segment->membership().joins_with = {};
    segment->membership().is_joining = false;
  }
  std::erase_if(segments_, [](const Segment* segment) { return !segment->membership().is_joining; });
  forgetRoll(request);
  return TakenBack::Yes;
}

void JoiningSegments::noteListed(const Segment& next) {
  for (Segment* segment : segments_) {
    if (!segment->membership().first_head) segment->membership().first_head = next.id();
  }
}

void JoiningSegments::noteOpened() {
  // A side log that was being taken back comes too late, or its next takeBack() sets this again.
  held_by_ = nullptr;
  for (Segment* segment : segments_) segment->membership().is_joining = !segment->membership().first_head;
  std::erase_if(segments_, [](const Segment* segment) { return !segment->membership().is_joining; });
}

void JoiningSegments::noteWithdrawn(SegmentId next) {
  for (Segment* segment : segments_) {
    if (segment->membership().first_head == next) segment->membership().first_head = {};
  }
}

void JoiningSegments::remove(Segment& segment) {
  if (std::exchange(segment.membership().is_joining, false)) std::erase(segments_, &segment);
}

}  // namespace ramcore::log
