#include "log/log_durability.h"

#include "base/mutation.h"
#include "log/format/entry_view.h"

namespace ramcore::log {

LogPosition LogDurability::endOf(EntryRef ref) const {
  const Segment& segment = *pool_.segmentOf(ref);
  return {segment.id(), segment.offsetOf(ref) + EntryView(pool_.memory().at(ref)).alignedBytes(), 0};
}

bool LogDurability::isBefore(EntryRef ref, LogPosition position) const {
  const Segment& segment = *pool_.segmentOf(ref);
  if (!segment.isHeadKind()) return true;
  if (segment.id() != position.segment) return segment.id() < position.segment;
  return segment.offsetOf(ref) + EntryView(pool_.memory().at(ref)).alignedBytes() <= position.offset_bytes;
}

bool LogDurability::notifyDurable(LogPosition position, DurableWaiter& waiter) {
  if (isDurable(position)) return false;
  Status failed = Status::Ok;
  bool is_news = false;
  {
    LogGuard guard(lock_);
    // Checked again under the lock, under which refresh() takes waiters out: a waiter that is inserted after refresh()
    // has passed its position would never be called.
    if (isDurable(position)) return false;
    failed = failed_.load(std::memory_order_relaxed);
    if (failed == Status::Ok) {
      waiter.position = position;
      waiters_.insert(waiter);
      is_news = position > durable_requested_;
      if (is_news) durable_requested_ = position;
    }
  }
  if (failed != Status::Ok) {
    waiter.run(waiter, failed);
  } else if (is_news) {
    replicator_.requestDurable(position);  // the waiter may be gone
  }
  return true;
}

bool LogDurability::notifyFlushed(LogPosition position, DurableWaiter& waiter) {
  if (at_once_) return notifyDurable(position, waiter);
  if (isFlushed(position)) return false;
  Status failed = Status::Ok;
  {
    LogGuard guard(lock_);
    if (isFlushed(position)) return false;
    failed = failed_.load(std::memory_order_relaxed);
    if (failed == Status::Ok) {
      waiter.position = position;
      flush_waiters_.insert(waiter);
    }
  }
  if (failed != Status::Ok) {
    waiter.run(waiter, failed);
  } else {
    requestFlush(position);  // the waiter may be gone
  }
  return true;
}

bool LogDurability::cancelNotification(DurableWaiter& waiter) {
  LogGuard guard(lock_);
  if (waiter.in == nullptr) return false;
  waiter.in->remove(waiter);
  return true;
}

void LogDurability::requestFlush(LogPosition position) {
  if (at_once_ || isFlushed(position)) return;
  {
    LogGuard guard(lock_);
    if (position <= flush_requested_) return;
    flush_requested_ = position;
  }
  replicator_.requestFlush(position);
}

void LogDurability::refresh(const Segment* head, const Segment* closing, DurableWaiters& ready) {
  // The head counts only once its predecessor is closed everywhere: until then a recovery may end with the
  // predecessor.
  const bool ignores_closing = RC_MUTATION("acknowledge-in-head-before-old-is-closed");
  const Segment* const last = closing != nullptr && !ignores_closing ? closing : head;
  if (last == nullptr) return;
  const uint64_t packed = pack(last->id(), last->replication().durable_bytes);
  if (packed > durable_.load(std::memory_order_relaxed)) durable_.store(packed, std::memory_order_release);
  waiters_.takeUpTo(unpack(durable_.load(std::memory_order_relaxed)), ready);
  if (at_once_) return;
  const uint64_t flushed = pack(last->id(), last->replication().flushed_bytes);
  if (flushed > flushed_.load(std::memory_order_relaxed)) flushed_.store(flushed, std::memory_order_release);
  flush_waiters_.takeUpTo(unpack(flushed_.load(std::memory_order_relaxed)), ready);
}

void LogDurability::fail(Status status) {
  DurableWaiters ready;
  {
    LogGuard guard(lock_);
    if (failed_.load(std::memory_order_relaxed) != Status::Ok) return;
    failed_.store(status, std::memory_order_release);
    waiters_.takeAll(ready);
    flush_waiters_.takeAll(ready);
  }
  ready.runAll(status);
}

}  // namespace ramcore::log
