#pragma once

#include "log/memory/segment.h"

namespace ramcore::log {

/// What a Replicator reports. Implemented by Log. Any thread; may be called from inside the Replicator's own calls.
class ReplicationEvents {
 public:
  virtual ~ReplicationEvents() = default;
  /// A head: everything it held when it was opened, its digest, is flushed on all replicas. Another segment: all of
  /// them have places.
  virtual void segmentOpened(SegmentId segment) = 0;
  /// Of a segment that is no head and not closed yet: servers that it waits for have no place for it; or no longer so.
  virtual void segmentLacksPlaces(SegmentId segment, bool lacks) {
    static_cast<void>(segment);
    static_cast<void>(lacks);
  }
  /// The first `bytes` bytes are on all replicas at the level that acknowledgements need. Never goes back.
  virtual void segmentDurable(SegmentId segment, uint32_t bytes) = 0;
  /// Of those that were reported durable, the first `bytes` survive a power failure of all replicas. Never goes back.
  virtual void segmentFlushed(SegmentId segment, uint32_t bytes) = 0;
  /// All bytes and a closing certificate are flushed on all replicas.
  virtual void segmentClosed(SegmentId segment) = 0;
  /// The answer to Replicator::withdraw: no recovery can find anything of the head, and nothing of it is used any more.
  virtual void segmentWithdrawn(SegmentId segment) { static_cast<void>(segment); }
  /// A closed segment is not copied again: the entry at this logical offset is not what was written. Of this one, and
  /// not of another with the same id. Inside a read section in which it was what is copied.
  virtual void segmentUnsound(const Segment& segment, uint32_t offset_bytes) {
    static_cast<void>(segment);
    static_cast<void>(offset_bytes);
  }
  /// The entry at this logical offset of a segment that is not closed yet is not what was written, and is about to be
  /// copied. As segmentUnsound otherwise.
  /// @return true: it is what was written again. False: no copy may be made of it.
  virtual bool segmentSpoilt(const Segment& segment, uint32_t offset_bytes) {
    static_cast<void>(segment);
    static_cast<void>(offset_bytes);
    return false;
  }
};

/// Keeps copies of the log elsewhere. Implemented by the master; the log decides about order and waits.
///
/// Calls come from any thread that appends or maintains the log, never with a lock of the log held, and do not block:
/// they note what is wanted, and the outcome is reported later (or at once) through ReplicationEvents. Calls about one
/// segment come in the order open, advance..., close, moved..., free, or end with a withdraw that is answered.
/// `segment` stays readable up to free(); what is in transmission beyond that holds a pin. Lost replicas, replica
/// epochs and floors are the implementation's business: it simply does not report durable while a floor is being
/// raised.
class Replicator {
 public:
  virtual ~Replicator() = default;

  /// True if there are no copies, so that everything is durable, and flushed, when it is appended: saves the calls.
  virtual bool durableAtOnce() const { return false; }
  /// How full the storage is that copies of heads go to, as far as is known, in percent: at 100 no head finds a place.
  /// Copies take as much of it as there are segments, however little is alive in them. Any thread.
  virtual uint32_t storagePercent() const { return 0; }
  /// Copies that are made of each segment, this one's memory not counted. Any thread.
  virtual uint32_t copyCount() const { return durableAtOnce() ? 0 : 1; }
  /// Ok: what is written now has a chance to become durable soon. Otherwise what writers are told instead. Any thread.
  virtual Status writeStatus() const { return Status::Ok; }
  /// The same for removals, which go on while there are places for small heads. Any thread.
  virtual Status removeStatus() const { return writeStatus(); }
  /// A head found no place when it was to be opened, or lacks one without which it cannot be closed; and no head that
  /// is not small has found one since: what is left is kept for small heads and survivors. Any thread.
  virtual bool isShortOfPlaces() const { return false; }
  /// Once, before any other call. `events` outlives the replicator's use.
  virtual void attach(ReplicationEvents& events) = 0;

  /// Opens replicas and sends what is committed so far. Then segmentOpened. A small head gets places that are kept from
  /// others.
  virtual void open(const Segment& segment) = 0;
  /// More is committed; segment.committedBytes() says how much. Several threads may call at a time. It becomes durable
  /// soon, also if nobody asks.
  virtual void advance(const Segment& segment) = 0;
  /// Somebody waits until everything before `position` is durable. Without that word it may be reported only with a
  /// flush that somebody asked for. As requestFlush otherwise.
  virtual void requestDurable(LogPosition) {}
  /// Somebody waits until everything before `position`, which is committed or will be, is flushed on all replicas.
  /// Stays wanted until it is reported; also what lies before it in earlier heads, which are being closed and are
  /// flushed unasked. May come when the segment is freed.
  virtual void requestFlush(LogPosition position) = 0;
  /// No more will come. Then segmentClosed.
  virtual void close(const Segment& segment) = 0;
  /// What is alive in a closed segment lies in other memory: `segment`, which has the same id, and less in it, takes
  /// the place of the one that was opened. Replicas that are complete are as good as before; what is made from now on
  /// is made from `segment`, and none partly from the one and partly from the other. The former one stays readable as
  /// long as one that is freed.
  virtual void moved(const Segment& segment) = 0;
  /// The log does not want this head any more, which is not open yet: it has a use for another one, or for none. If it
  /// has found no places it is forgotten, as if freed, and segmentWithdrawn follows; if it finds some, segmentOpened.
  /// Once for a head.
  virtual void withdraw(SegmentId head) { static_cast<void>(head); }
  /// A segment that was opened with CopiesAwaited::All: from now on as with Least.
  virtual void awaitLeast(SegmentId segment) { static_cast<void>(segment); }
  /// No recovery can ask for the segment any more: its replicas can go. Its id is not used again.
  virtual void free(SegmentId segment) = 0;
};

/// For tables that are declared to live in one memory only.
class NoReplicator final : public Replicator {
 public:
  bool durableAtOnce() const override { return true; }
  void attach(ReplicationEvents& events) override { events_ = &events; }
  void open(const Segment& segment) override { events_->segmentOpened(segment.id()); }
  void advance(const Segment& segment) override { events_->segmentDurable(segment.id(), segment.committedBytes()); }
  void requestFlush(LogPosition) override {}
  void close(const Segment& segment) override { events_->segmentClosed(segment.id()); }
  void moved(const Segment&) override {}
  void free(SegmentId) override {}

 private:
  ReplicationEvents* events_ = nullptr;
};

}  // namespace ramcore::log
