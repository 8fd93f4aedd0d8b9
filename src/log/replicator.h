#pragma once

#include "log/memory/segment.h"

namespace ramcore::log {

/// What a Replicator reports. Implemented by Log. Any thread; may be called from inside the Replicator's own calls.
class ReplicationEvents {
 public:
  virtual ~ReplicationEvents() = default;
  /// For a head: everything that it held when it was opened, its digest, is flushed on all replicas. For another
  /// segment: all its replicas that are waited for have places on backups.
  virtual void segmentOpened(SegmentId segment) = 0;
  /// For a segment that is not a head and is not closed yet.
  /// @param lacks  true: servers that the segment waits for have no place for it; false: that is no longer so
  virtual void segmentLacksPlaces(SegmentId segment, bool lacks) {
    static_cast<void>(segment);
    static_cast<void>(lacks);
  }
  /// The first `bytes` bytes are on all replicas at the level that acknowledgements need. Never goes back.
  virtual void segmentDurable(SegmentId segment, uint32_t bytes) = 0;
  /// The first `bytes` bytes survive a power failure of all replicas. They were reported durable before. Never goes
  /// back.
  virtual void segmentFlushed(SegmentId segment, uint32_t bytes) = 0;
  /// All bytes and a closing certificate are flushed on all replicas.
  virtual void segmentClosed(SegmentId segment) = 0;
  /// The answer to Replicator::withdraw(): no recovery can find anything of the head, and the replicator does not use
  /// its memory any more.
  virtual void segmentWithdrawn(SegmentId segment) { static_cast<void>(segment); }
  /// A replica of a closed segment is not made again, because the entry at this logical offset is not what was written.
  /// `segment` is the one that has this damage, not another one with the same id. Called inside a read section in which
  /// `segment` was the source of the replica.
  virtual void segmentUnsound(const Segment& segment, uint32_t offset_bytes) {
    static_cast<void>(segment);
    static_cast<void>(offset_bytes);
  }
  /// The entry at this logical offset of a segment that is not closed yet is not what was written, and is about to be
  /// sent to replicas. Otherwise as segmentUnsound().
  /// @return true: the entry is what was written again. False: no replica may be made of it.
  virtual bool segmentSpoilt(const Segment& segment, uint32_t offset_bytes) {
    static_cast<void>(segment);
    static_cast<void>(offset_bytes);
    return false;
  }
};

/// Keeps replicas of the log's segments elsewhere. Implemented by master::ReplicaManager, and by NoReplicator below.
/// The log decides in which order segments are opened, closed and freed, and waits for the reports.
///
/// Calls come from any thread that appends or maintains the log, never with a lock of the log held, and do not block:
/// they note what is wanted, and the outcome is reported later (or at once) through ReplicationEvents. Calls about one
/// segment come in the order open, advance..., close, moved..., free, or end with a withdraw that is answered.
/// `segment` stays readable up to free(); an implementation that transmits from its memory beyond that holds a pin. The
/// implementation deals with lost replicas, replica epochs and floors by itself: it simply does not report durable
/// while a floor is being raised.
class Replicator {
 public:
  virtual ~Replicator() = default;

  /// True if there are no replicas: everything is durable, and flushed, when it is appended, and the log can save
  /// calls.
  virtual bool durableAtOnce() const { return false; }
  /// How full the storage for replicas of heads is, in percent, as far as is known. At 100 no head finds a place.
  /// Replicas take as much of it as there are segments, however little is alive in them. Any thread.
  virtual uint32_t storagePercent() const { return 0; }
  /// The number of replicas that are made of each segment. The memory of this server does not count. Any thread.
  virtual uint32_t copyCount() const { return durableAtOnce() ? 0 : 1; }
  /// Ok: what is written now has a chance to become durable soon. Any other: the status with which writes are refused
  /// instead. Any thread.
  virtual Status writeStatus() const { return Status::Ok; }
  /// As writeStatus(), for removals, which go on while there are places for small heads. Any thread.
  virtual Status removeStatus() const { return writeStatus(); }
  /// True if a head found no place when it was to be opened, or lacks one without which it cannot be closed, and no
  /// head that is not small has found one since. The places that are left are kept for small heads and survivors. Any
  /// thread.
  virtual bool isShortOfPlaces() const { return false; }
  /// True if a head, whether small or not, lacks a place just now without which it can be neither opened nor closed.
  /// Until it has that place no roll ends. Any thread.
  virtual bool isHeadStuck() const { return false; }
  /// Called once, before any other call. `events` outlives its use by the replicator.
  virtual void attach(ReplicationEvents& events) = 0;

  /// Opens replicas of the segment, sends what is committed so far, and then reports segmentOpened(). A small head gets
  /// places that are kept for small heads.
  virtual void open(const Segment& segment) = 0;
  /// More is committed; segment.committedBytes() says how much. Several threads may call at a time. What is committed
  /// becomes durable soon, also if no caller requests it.
  virtual void advance(const Segment& segment) = 0;
  /// A caller waits until everything before `position` is durable. Without this call the replicator may report it only
  /// together with a flush that was requested. Otherwise as requestFlush().
  virtual void requestDurable(LogPosition) {}
  /// A caller waits until everything before `position`, which is committed or will be, is flushed on all replicas. The
  /// request stands until the flush is reported. It covers what lies before `position` in earlier heads, too; those are
  /// being closed, and are flushed without a request. The call may come after the segment was freed.
  virtual void requestFlush(LogPosition position) = 0;
  /// Nothing will be appended to the segment any more. Closes it on all replicas and then reports segmentClosed().
  virtual void close(const Segment& segment) = 0;
  /// The live entries of a closed segment were moved to other memory: `segment`, which has the same id and holds less,
  /// takes the place of the segment that was opened. Replicas that are complete are as good as before. A replica that
  /// is made from now on is made from `segment`; none is made partly from the one and partly from the other. The former
  /// segment stays readable for as long as one that is freed.
  virtual void moved(const Segment& segment) = 0;
  /// The log does not need this head any more, which is not open yet: it needs another one, or none. If the head has
  /// found no places it is forgotten, as if freed, and segmentWithdrawn() follows; if it finds some, segmentOpened()
  /// follows. Called once for a head.
  virtual void withdraw(SegmentId head) { static_cast<void>(head); }
  /// From now on a segment that was opened with CopiesAwaited::All is treated as one with CopiesAwaited::Least.
  virtual void awaitLeast(SegmentId segment) { static_cast<void>(segment); }
  /// No recovery can ask for the segment any more: its replicas can go. Its id is not used again.
  virtual void free(SegmentId segment) = 0;
};

/// For a log without replicas, which lives in the memory of one server only.
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
