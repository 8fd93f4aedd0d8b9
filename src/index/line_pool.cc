#include "index/line_pool.h"

#include "base/check.h"

namespace ramcore::index {

void LinePool::push(Batch& batch, uint32_t number) {
  links_[number] = batch.first;
  batch.first = number;
  if (batch.last == kNone) batch.last = number;
}

void LinePool::turnBatches() {
  if (waiting_.first != kNone) {
    if (!rcu_.elapsed(waiting_for_)) return;
    links_[waiting_.last] = free_.first;
    free_.first = waiting_.first;
    if (free_.last == kNone) free_.last = waiting_.last;
    waiting_ = {};
  }
  if (collecting_.first == kNone) return;
  waiting_ = collecting_;
  collecting_ = {};
  waiting_for_ = rcu_.ticket();
}

uint32_t LinePool::allocate() {
  uint32_t number = kNone;
  {
    SpinGuard guard(lock_);
    if (free_.first == kNone) turnBatches();
    if (free_.first != kNone) {
      number = free_.first;
      free_.first = links_[number];
      if (free_.first == kNone) free_.last = kNone;
    } else {
      const uint64_t touched = touched_.load(std::memory_order_relaxed);
      if (touched == lines_.size()) return kNone;
      number = static_cast<uint32_t>(touched);
      touched_.store(touched + 1, std::memory_order_relaxed);
    }
  }
  in_use_.fetch_add(1, std::memory_order_relaxed);
  for (auto& slot : lines_[number].slots) slot.store(0, std::memory_order_relaxed);
  return number;
}

void LinePool::retire(uint32_t number) {
  RC_DCHECK(number < lines_.size());
  in_use_.fetch_sub(1, std::memory_order_relaxed);
  SpinGuard guard(lock_);
  push(collecting_, number);
  turnBatches();
}

void LinePool::giveBack(uint32_t number) {
  in_use_.fetch_sub(1, std::memory_order_relaxed);
  SpinGuard guard(lock_);
  push(free_, number);
}

}  // namespace ramcore::index
