#pragma once

#include "base/ids.h"
#include "base/status.h"

namespace ramcore::log {

class DurableWaiters;

/// Somebody who waits for a position to become durable: part of a coroutine frame or a call. `run` is called once, on
/// whatever thread learned of it, without locks; it may free the waiter.
struct DurableWaiter {
  void (*run)(DurableWaiter& self, Status status) = nullptr;

  LogPosition position;  // from here on the log's
  DurableWaiter* next = nullptr;
  DurableWaiter* previous = nullptr;
  DurableWaiters* in = nullptr;  // none: nobody has it wait, or it is about to be called
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
  /// Takes out one of these.
  void remove(DurableWaiter& waiter) {
    (waiter.previous != nullptr ? waiter.previous->next : first_) = waiter.next;
    (waiter.next != nullptr ? waiter.next->previous : last_) = waiter.previous;
    waiter.in = nullptr;
  }
  /// Moves everyone at or before `position` to `ready`, to be called: nobody has them wait any more.
  void takeUpTo(LogPosition position, DurableWaiters& ready) {
    while (first_ != nullptr && first_->position <= position) moveFirstTo(ready);
  }
  void takeAll(DurableWaiters& ready) {
    while (first_ != nullptr) moveFirstTo(ready);
  }
  /// Calls everyone, without locks.
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
  // Under the log's lock, as all that looks at `in`: runAll() has none.
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
