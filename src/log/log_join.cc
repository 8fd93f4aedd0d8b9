/// The part of Log for what comes from other servers: it joins with a new head, and can be taken back before that.

#include <algorithm>

#include "base/check.h"
#include "log/log.h"

namespace ramcore::log {

SegmentId Log::requestHeadToJoin() {
  SegmentId request;
  SegmentId fresh;
  SegmentId next;
  {
    SpinGuard guard(lock_);
    if (isHeadUntouched()) fresh = head_->id();
    if (next_ != nullptr) next = next_->id();
  }
  // Outside of the lock: all slots are looked at. What is opened meanwhile comes after this call.
  if (fresh && hasNewer(fresh, next)) fresh = {};
  {
    SpinGuard guard(lock_);
    if (fresh && isHeadUntouched() && head_->id() == fresh) return fresh;
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

/// A head that was opened now would say no more, unless hasNewer().
bool Log::isHeadUntouched() const {
  return head_ != nullptr && !head_full_ && head_->cursor().offset == head_->own_bytes_;
}

/// A head that was opened now would be above more segments that hold something.
/// @param next  the next head, which holds nothing; or none
bool Log::hasNewer(SegmentId head, SegmentId next) const {
  for (uint32_t i = 0; i < pool_.slotCount(); ++i) {
    const Segment& segment = pool_.slot(i);
    const SegmentState state = segment.state();
    if (state == SegmentState::Free || state == SegmentState::Unlinked) continue;
    if (const SegmentId id = segment.id(); id > head && id != next) return true;
  }
  return false;
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
      member_changes_.add(segment->id());
      segment->joins_with_ = request;
      segment->is_joining_ = true;
      joining_.push_back(segment);
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
        member_changes_.remove(segment->id());
        segment->joins_with_ = {};
        segment->is_joining_ = false;
      }
      std::erase_if(joining_, [](const Segment* segment) { return !segment->is_joining_; });
      forgetJoinRoll(roll);
      if (next_ != nullptr && !isNextWanted()) unwanted_next_ = next_->id();
      is_back = true;
    }
  }
  maintain();
  return is_back;
}

}  // namespace ramcore::log
