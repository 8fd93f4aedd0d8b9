#pragma once

#include "base/ids.h"
#include "base/status.h"

namespace ramcore::log {

class DurableWaiters;

/// One wait for a log position to become durable, or flushed. It is embedded in a coroutine frame or a call. Unless the
/// wait is cancelled (LogDurability::cancelNotification), `run` is called once, on the thread that learned of the
/// outcome and without locks held; it may free the waiter.
struct DurableWaiter {
  void (*run)(DurableWaiter& self, Status status) = nullptr;

  LogPosition position;  // this field and those below belong to the log
  DurableWaiter* next = nullptr;
  DurableWaiter* previous = nullptr;
  DurableWaiters* in = nullptr;  // nullptr: the waiter does not wait, or is about to be called
};

/// Waiters by position. Positions come nearly in order, so inserting from the end is one step.
class DurableWaiters {
 public:
  bool empty() const { return first_ == nullptr; }
  void insert(DurableWaiter& waiter) {
    DurableWaiter* before = last_;
    while (before != nullptr && before->position > waiter.position) before = before->previous;
    waiter.previous = before;
    waiter.next = before != nullptr ? before->next : first_;
    (before != nullptr ? before->next : first_) = &waiter;
    (waiter.next != nullptr ? waiter.next->previous : last_) = &waiter;
    waiter.in = this;
  }
  /// Removes a waiter that is in this list.
  void remove(DurableWaiter& waiter) {
    (waiter.previous != nullptr ? waiter.previous->next : first_) = waiter.next;
    (waiter.next != nullptr ? waiter.next->previous : last_) = waiter.previous;
    waiter.in = nullptr;
  }
  /// Moves all waiters at or before `position` to `ready`, for runAll(). They do not count as waiting any more, so they
  /// cannot be cancelled.
  void takeUpTo(LogPosition position, DurableWaiters& ready) {
    while (first_ != nullptr && first_->position <= position) moveFirstTo(ready);
  }
  void takeAll(DurableWaiters& ready) {
    while (first_ != nullptr) moveFirstTo(ready);
  }
  /// Calls all waiters. The caller holds no locks.
  void runAll(Status status) {
    while (first_ != nullptr) {
      DurableWaiter* const waiter = popFirst();
      waiter->run(*waiter, status);
    }
  }

 private:
  DurableWaiter* popFirst() {
    DurableWaiter* const waiter = first_;
    first_ = waiter->next;
    (first_ != nullptr ? first_->previous : last_) = nullptr;
    return waiter;
  }
  // `in` is read and written under the log's lock only. It is cleared here because runAll() does not hold that lock.
  void moveFirstTo(DurableWaiters& ready) {
    DurableWaiter* const waiter = popFirst();
    waiter->in = nullptr;
    ready.append(*waiter);
  }
  void append(DurableWaiter& waiter) {
    waiter.next = nullptr;
    waiter.previous = last_;
    (last_ != nullptr ? last_->next : first_) = &waiter;
    last_ = &waiter;
  }

  DurableWaiter* first_ = nullptr;
  DurableWaiter* last_ = nullptr;
};

}  // namespace ramcore::log
