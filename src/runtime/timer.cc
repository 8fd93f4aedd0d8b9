#include "runtime/timer.h"

#include <algorithm>

#include "base/check.h"

namespace ramcore::runtime {
namespace {

// With four children a heap has half the levels that it has with two, and siblings are side by side in memory.
constexpr size_t kChildren = 4;

}  // namespace

void Timer::cancel() {
  if (heap_ != nullptr) heap_->remove(*this);
}

TimerHeap::~TimerHeap() {
  for (const Entry& entry : heap_) entry.timer->heap_ = nullptr;
}

void TimerHeap::place(size_t slot, const Entry& entry) {
  heap_[slot] = entry;
  entry.timer->slot_ = slot;
}

// Puts an entry into `slot`, which is free, or above it. The entry comes in registers. If it had just been written to
// the heap, it would be read back before it got there, in wider pieces than it was written in, and the processor would
// wait for that each time.
inline void TimerHeap::siftUp(size_t slot, int64_t deadline_ns, uint64_t order, Timer* timer) {
  while (slot > 0) {
    const size_t parent = (slot - 1) / kChildren;
    const Entry& above = heap_[parent];
    if (above.deadline_ns < deadline_ns || (above.deadline_ns == deadline_ns && above.order < order)) break;
    place(slot, above);
    slot = parent;
  }
  Entry& entry = heap_[slot];
  entry.deadline_ns = deadline_ns;
  entry.order = order;
  entry.timer = timer;
  timer->slot_ = slot;
}

void TimerHeap::siftDown(size_t slot) {
  const Entry entry = heap_[slot];
  for (;;) {
    const size_t first = kChildren * slot + 1;
    if (first >= heap_.size()) break;
    size_t child = first;
    const size_t end = std::min(first + kChildren, heap_.size());
    for (size_t other = first + 1; other < end; ++other) {
      if (before(heap_[other], heap_[child])) child = other;
    }
    if (!before(heap_[child], entry)) break;
    place(slot, heap_[child]);
    slot = child;
  }
  place(slot, entry);
}

void TimerHeap::arm(Timer& timer, int64_t deadline_ns) {
  timer.cancel();
  timer.heap_ = this;
  timer.deadline_ns_ = deadline_ns;
  heap_.emplace_back();
  siftUp(heap_.size() - 1, deadline_ns, next_order_++, &timer);
}

void TimerHeap::remove(Timer& timer) {
  RC_CHECK(timer.heap_ == this);
  const size_t slot = timer.slot_;
  timer.heap_ = nullptr;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (last.timer == &timer) return;
  if (slot > 0 && before(last, heap_[(slot - 1) / kChildren])) {
    siftUp(slot, last.deadline_ns, last.order, last.timer);
  } else {
    heap_[slot] = last;
    siftDown(slot);
  }
}

size_t TimerHeap::fireDue(int64_t now_ns, size_t fires_max) {
  size_t fired = 0;
  while (fired < fires_max && !heap_.empty() && heap_.front().deadline_ns <= now_ns) {
    Timer& timer = *heap_.front().timer;
    remove(timer);
    timer.fire_(timer);  // may arm it again, or destroy it
    ++fired;
  }
  return fired;
}

}  // namespace ramcore::runtime
