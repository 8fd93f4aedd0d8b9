#include "client/call_tracker.h"

#include <utility>

#include "base/check.h"

namespace ramcore::client {

Sequence CallTracker::begin() {
  RC_CHECK(hasRoom(1));
  if (next_ - next_unfinished_ == finished_.size()) grow();
  slot(next_) = false;
  ++unfinished_count_;
  return Sequence(next_++);
}

bool CallTracker::finish(Sequence sequence) {
  RC_CHECK(sequence.value >= next_unfinished_ && sequence.value < next_ && !slot(sequence.value));
  slot(sequence.value) = true;
  --unfinished_count_;
  const bool is_oldest = sequence.value == next_unfinished_;
  while (next_unfinished_ < next_ && slot(next_unfinished_)) ++next_unfinished_;
  return is_oldest;
}

void CallTracker::grow() {
  std::vector<bool> larger(finished_.size() * 2, false);
  for (uint64_t sequence = next_unfinished_; sequence < next_; ++sequence) {
    larger[sequence & (larger.size() - 1)] = slot(sequence);
  }
  finished_ = std::move(larger);
}

}  // namespace ramcore::client
