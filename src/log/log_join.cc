/// The part of Log for what comes from other servers: it joins with a new head, and can be taken back before that.

#include <algorithm>

#include "base/check.h"
#include "log/log.h"

namespace ramcore::log {

SegmentId Log::requestHeadToJoin() {
  SegmentId request;
  {
    SpinGuard guard(lock_);
    if (isHeadFresh()) return head_->id();
    request = noteJoinRoll();
  }
  maintain();
  return request;
}

SegmentId Log::noteJoinRoll() {
  const SegmentId request(next_id_);
  const SegmentId newest = head_ != nullptr ? head_->id() : SegmentId();
  std::erase_if(join_rolls_, [newest](SegmentId roll) { return newest >= roll; });
  join_rolls_.push_back(request);
  want_join_roll_ = std::max(want_join_roll_, request);
  return request;
}

// One of them: others that join may have asked for the same.
void Log::forgetJoinRoll(SegmentId roll) {
  const auto own = std::find(join_rolls_.begin(), join_rolls_.end(), roll);
  if (own != join_rolls_.end()) join_rolls_.erase(own);
  const auto highest = std::max_element(join_rolls_.begin(), join_rolls_.end());
  want_join_roll_ = highest != join_rolls_.end() ? *highest : SegmentId();
}

// A next head that nobody else wants gives back its places. If it is open by then it stays, and is the next one that is
// needed; so it does no harm to come too late.
void Log::cancelHeadToJoin(SegmentId request) {
  {
    SpinGuard guard(lock_);
    forgetJoinRoll(request);
    if (next_ != nullptr && !isNextWanted()) unwanted_next_ = next_->id();
  }
  maintain();
}

/// A head that was opened now would say no more, and be above no more segments that hold something.
bool Log::isHeadFresh() const {
  if (head_ == nullptr || head_full_ || head_->cursor().offset != head_->own_bytes_) return false;
  for (uint32_t i = 0; i < pool_.slotCount(); ++i) {
    const Segment& segment = pool_.slot(i);
    const SegmentState state = segment.state();
    if (&segment == next_ || state == SegmentState::Free || state == SegmentState::Unlinked) continue;
    if (segment.id() > head_->id()) return false;
  }
  return true;
}

SegmentId Log::addToJoin(std::span<Segment* const> joining) {
  pool_.exchange(joining, {});
  SegmentId request;
  {
    SpinGuard guard(lock_);
    request = noteJoinRoll();
    for (Segment* segment : joining) {
      RC_CHECK(segment->state() == SegmentState::Closed && !segment->listed_);
      segment->listed_ = true;
      segment->joins_with_ = request;
    }
  }
  maintain();
  return request;
}

/// A next head that lists them may not be opened any more, and none may follow on it that does. One that was being
/// prepared when they joined may list them although it is older than what they asked for. The cleaner may have given
/// the memory of one to another segment since: then it has joined, in that one's place, and only its state is looked at
/// here, which whoever has the memory now sets last.
bool Log::takeBack(std::span<Segment* const> joining, SegmentId roll) {
  const void* const holder = joining.data();  // a side log's own; others may have asked for the same head
  bool is_back = false;
  {
    SpinGuard guard(lock_);
    const SegmentId unopened = next_ != nullptr && !next_opened_ ? next_->id() : SegmentId();
    bool is_listed = false;
    bool is_late = head_ != nullptr && head_->id() >= roll;
    for (const Segment* segment : joining) {
      const bool is_same = segment->state() == SegmentState::Closed && segment->joins_with_ == roll;
      if (!is_same || segment->stays_) {
        is_late = true;
        break;
      }
      is_listed = is_listed || segment->first_head_;
      is_late = is_late || (segment->first_head_ && segment->first_head_ != unopened);
    }
    const bool must_wait = !is_late && (next_preparing_ || is_listed);
    if (must_wait) {
      if (held_by_ == nullptr) held_by_ = holder;
      if (!next_preparing_) unwanted_next_ = unopened;
    } else {
      if (held_by_ == holder) held_by_ = nullptr;
    }
    if (!is_late && !must_wait) {
      for (Segment* segment : joining) {
        segment->listed_ = false;
        segment->joins_with_ = {};
      }
      forgetJoinRoll(roll);
      if (next_ != nullptr && !isNextWanted()) unwanted_next_ = next_->id();
      is_back = true;
    }
  }
  maintain();
  return is_back;
}

}  // namespace ramcore::log
