#pragma once

#include <atomic>

#include "log/durable_waiters.h"
#include "log/memory/log_lock.h"
#include "log/memory/segment_pool.h"
#include "log/replicator.h"

namespace ramcore::log {

/// Knows up to which positions a log is durable and flushed, and the waiters for such positions. It also knows whether
/// the log has failed, because then no caller may wait any more.
///
/// Threads: any. The positions are read with one load. Requests and waiters are guarded by the lock of the log.
/// Replicator and waiters are called without locks.
class LogDurability {
 public:
  /// Everything passed by reference outlives this object.
  LogDurability(const SegmentPool& pool, Replicator& replicator, LogLock& lock)
      : pool_(pool), replicator_(replicator), at_once_(replicator.durableAtOnce()), lock_(lock) {}
  LogDurability(const LogDurability&) = delete;
  LogDurability& operator=(const LogDurability&) = delete;

  /// Everything before this position is on all replicas at the level that acknowledgements need. Cost: one load.
  LogPosition durableUpTo() const { return unpack(durable_.load(std::memory_order_acquire)); }
  bool isDurable(LogPosition position) const { return position <= durableUpTo(); }
  /// Whether the entry is durable. Entries that the cleaner has moved always are. Entries of side logs count as
  /// durable, because no client is answered from them before the side log has joined the log.
  bool isDurable(EntryRef ref) const { return isBefore(ref, durableUpTo()); }
  /// The position behind an entry of a head, for waiting.
  LogPosition endOf(EntryRef ref) const;
  /// Calls waiter.run once the log is durable up to `position`, or has failed. The waiter stays in place until then.
  /// The replicator is told that a caller waits.
  /// @return false: the log is durable up to there already; `run` is not called
  bool notifyDurable(LogPosition position, DurableWaiter& waiter) RC_EXCLUDES(kLogLock);

  /// Everything before this position survives a power failure of all replicas. It is at most durableUpTo(), and lags
  /// behind it unless a flush is requested. Without replicas both are the same. Cost: one load.
  LogPosition flushedUpTo() const {
    return at_once_ ? durableUpTo() : unpack(flushed_.load(std::memory_order_acquire));
  }
  bool isFlushed(LogPosition position) const { return position <= flushedUpTo(); }
  /// Whether the entry is flushed. As isDurable(EntryRef): what is closed is flushed.
  bool isFlushed(EntryRef ref) const { return isBefore(ref, flushedUpTo()); }
  /// As notifyDurable(), for flushedUpTo(). Requests the flush.
  bool notifyFlushed(LogPosition position, DurableWaiter& waiter) RC_EXCLUDES(kLogLock);
  /// Cancels a notifyDurable() or a notifyFlushed(). Not for waiters that `run` may free, because the waiter is read.
  /// @return false: `run` was called, or is about to be called
  bool cancelNotification(DurableWaiter& waiter) RC_EXCLUDES(kLogLock);
  /// Requests that everything before `position` is flushed soon.
  void requestFlush(LogPosition position) RC_EXCLUDES(kLogLock);

  // For the other parts of the log.

  /// Whether everything is durable, and flushed, when it is committed.
  bool isAtOnce() const { return at_once_; }
  /// Ok, or the status given to fail().
  Status failure() const { return failed_.load(std::memory_order_acquire); }
  /// Calls all waiters with `status`, also those that come from now on. Does nothing if the log has failed before.
  void fail(Status status) RC_EXCLUDES(kLogLock);
  /// Notes how far the head and its predecessor are durable and flushed now.
  /// @param closing  the predecessor, as long as it is not closed everywhere; or nullptr
  /// @param ready  the waiters that have to be called, without the lock, are added to it
  void refresh(const Segment* head, const Segment* closing, DurableWaiters& ready) RC_REQUIRES(kLogLock);
  /// Notes that `head` is committed up to `offset`, in a log in which that is durable at once. Waiters are called by
  /// refresh() only. Inline, because every append calls it.
  /// @param is_first_open  no predecessor of `head` is being closed
  void noteCommitted(Segment& head, uint32_t offset, bool is_first_open) RC_REQUIRES(kLogLock) {
    head.replication().durable_bytes = offset;
    // As in refresh(): nothing in the head counts as durable before its predecessor is closed.
    if (is_first_open) durable_.store(pack(head.id(), offset), std::memory_order_release);
  }

 private:
  /// A position in one word, so that "is it durable?" is one load: 40 bits of segment id, 24 bits of offset / 8.
  static constexpr uint64_t pack(SegmentId segment, uint32_t offset) {
    return segment.value << 24 | offset / kEntryAlignment;
  }
  static constexpr LogPosition unpack(uint64_t packed) {
    return {SegmentId(packed >> 24), static_cast<uint32_t>(packed & 0xffffff) * kEntryAlignment, 0};
  }
  // An offset of kSegmentBytesMax itself would overflow into the id; capacities stay below it.
  static_assert((kSegmentBytesMax - kEntryAlignment) / kEntryAlignment <= 0xffffff);

  bool isBefore(EntryRef ref, LogPosition position) const;

  const SegmentPool& pool_;
  Replicator& replicator_;
  const bool at_once_;

  LogLock& lock_;
  DurableWaiters waiters_ RC_GUARDED_BY(kLogLock);
  DurableWaiters flush_waiters_ RC_GUARDED_BY(kLogLock);
  LogPosition flush_requested_ RC_GUARDED_BY(kLogLock);    ///< the replicator was asked to flush up to here
  LogPosition durable_requested_ RC_GUARDED_BY(kLogLock);  ///< the replicator was told that a caller waits up to here

  std::atomic<uint64_t> durable_{0};  ///< packed LogPosition
  std::atomic<uint64_t> flushed_{0};  ///< packed LogPosition; with replicas only
  std::atomic<Status> failed_{Status::Ok};
};

}  // namespace ramcore::log
