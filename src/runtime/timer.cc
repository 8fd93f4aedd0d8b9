#include "runtime/timer.h"

#include "base/check.h"
#include "runtime/clock.h"

namespace ramcore::runtime {

void Timer::cancel() {
  if (heap_ != nullptr) heap_->remove(*this);
}

TimerHeap::~TimerHeap() {
  for (Timer* timer : heap_) timer->heap_ = nullptr;
}

bool TimerHeap::before(const Timer& a, const Timer& b) const {
  return a.deadline_ns_ != b.deadline_ns_ ? a.deadline_ns_ < b.deadline_ns_ : a.order_ < b.order_;
}

void TimerHeap::place(size_t slot, Timer* timer) {
  heap_[slot] = timer;
  timer->slot_ = slot;
}

void TimerHeap::siftUp(size_t slot) {
  Timer* timer = heap_[slot];
  while (slot > 0) {
    const size_t parent = (slot - 1) / 2;
    if (!before(*timer, *heap_[parent])) break;
    place(slot, heap_[parent]);
    slot = parent;
  }
  place(slot, timer);
}

void TimerHeap::siftDown(size_t slot) {
  Timer* timer = heap_[slot];
  for (;;) {
    size_t child = 2 * slot + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && before(*heap_[child + 1], *heap_[child])) ++child;
    if (!before(*heap_[child], *timer)) break;
    place(slot, heap_[child]);
    slot = child;
  }
  place(slot, timer);
}

void TimerHeap::arm(Timer& timer, int64_t deadline_ns) {
  timer.cancel();
  timer.heap_ = this;
  timer.deadline_ns_ = deadline_ns;
  timer.order_ = next_order_++;
  heap_.push_back(&timer);
  timer.slot_ = heap_.size() - 1;
  siftUp(timer.slot_);
}

void TimerHeap::remove(Timer& timer) {
  RC_CHECK(timer.heap_ == this);
  const size_t slot = timer.slot_;
  timer.heap_ = nullptr;
  Timer* last = heap_.back();
  heap_.pop_back();
  if (last == &timer) return;
  place(slot, last);
  siftUp(slot);
  siftDown(last->slot_);
}

int64_t TimerHeap::earliestNs() const { return heap_.empty() ? kNever : heap_.front()->deadline_ns_; }

size_t TimerHeap::fireDue(int64_t now_ns, size_t fires_max) {
  size_t fired = 0;
  while (fired < fires_max && !heap_.empty() && heap_.front()->deadline_ns_ <= now_ns) {
    Timer& timer = *heap_.front();
    remove(timer);
    timer.fire_(timer);  // may arm it again, or destroy it
    ++fired;
  }
  return fired;
}

}  // namespace ramcore::runtime
