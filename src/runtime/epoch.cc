#include "runtime/epoch.h"

#include "base/check.h"

namespace ramcore::runtime {

GraceTicket Rcu::ticket() {
  // A read-modify-write, not a load: either the reclaimer's increment comes later in the order of `started_` and then
  // sees everything the caller unlinked, or it came earlier and the ticket names the period after it. A plain load
  // could be satisfied before the unlinking store has left this core, and name a period that began before it.
  const uint64_t number = started_.fetch_add(0, std::memory_order_acq_rel) + 1;
  uint64_t wanted = wanted_.load(std::memory_order_relaxed);
  while (wanted < number && !wanted_.compare_exchange_weak(wanted, number, std::memory_order_relaxed)) {
  }
  return GraceTicket{number};
}

void Rcu::defer(Deferred& work) {
  RC_CHECK(work.run != nullptr);
  SpinGuard guard(deferred_lock_);
  // Under the lock, so that tickets in the queue never go back.
  work.ticket = ticket();
  work.next = nullptr;
  if (deferred_last_ != nullptr) {
    deferred_last_->next = &work;
  } else {
    deferred_first_ = &work;
  }
  deferred_last_ = &work;
}

bool Rcu::pending() const {
  if (wanted_.load(std::memory_order_relaxed) > completed_.load(std::memory_order_relaxed)) return true;
  SpinGuard guard(deferred_lock_);
  return deferred_first_ != nullptr;
}

void Rcu::advanceGracePeriod() {
  if (!in_grace_period_) {
    if (wanted_.load(std::memory_order_relaxed) <= completed_.load(std::memory_order_relaxed)) return;
    started_.fetch_add(1, std::memory_order_acq_rel);
    beginGracePeriod();
    in_grace_period_ = true;
  }
  if (!finishGracePeriod()) return;
  in_grace_period_ = false;
  completed_.store(started_.load(std::memory_order_relaxed), std::memory_order_release);
}

Deferred* Rcu::takeElapsed() {
  SpinGuard guard(deferred_lock_);
  Deferred* work = deferred_first_;
  if (work == nullptr || !elapsed(work->ticket)) return nullptr;
  deferred_first_ = work->next;
  if (deferred_first_ == nullptr) deferred_last_ = nullptr;
  return work;
}

size_t Rcu::reclaim(size_t work_max) {
  advanceGracePeriod();
  size_t run = 0;
  while (run < work_max) {
    Deferred* work = takeElapsed();
    if (work == nullptr) break;
    work->run(*work);
    ++run;
  }
  return run;
}

void Rcu::drain() {
  constexpr int kSlicesMax = 1 << 20;
  constexpr size_t kWorkPerSlice = 1 << 10;
  for (int slice = 0; pending(); ++slice) {
    RC_CHECK_MSG(slice < kSlicesMax, "a reader neither passes a quiescent state nor is off line");
    reclaim(kWorkPerSlice);
  }
}

}  // namespace ramcore::runtime
