#pragma once

#include "master/replication/replica_sender.h"
#include "master/replication/replica_set.h"
#include "master/replication/segment_parts.h"
#include "master/replication/segment_reports.h"
#include "master/replication/segment_source.h"

namespace ramcore::master {

/// The replicas of one segment: has servers chosen for them, has them written, and has reported what may be reported.
/// Thread: the dispatch's.
class ReplicatedSegment {
 public:
  ReplicatedSegment(const SegmentParts& parts, const log::Segment& segment);
  ReplicatedSegment(const ReplicatedSegment&) = delete;
  ReplicatedSegment& operator=(const ReplicatedSegment&) = delete;

  SegmentId id() const { return demand_.id; }
  bool isHead() const { return demand_.is_head; }
  /// A small head: backups keep storage frames for these.
  bool isOfReserve() const { return demand_.is_of_reserve; }
  const ReplicaSet& replicas() const { return replicas_; }
  /// True for a log head that a backup has refused for want of a storage frame, and that cannot be opened, or cannot be
  /// closed, because too few servers have it.
  bool isStuck() const;
  /// The log does not want it any more: see log::Replicator::withdraw.
  void withdraw() { demand_.withdraw_wanted = true; }
  /// See log::Replicator::awaitLeast.
  void awaitLeast() { demand_.copies_awaited = log::CopiesAwaited::Least; }
  /// True if the segment may be forgotten: it is a log head, withdraw() was called, fewer than leastCount() replicas
  /// have a storage frame, and no certificate for it was ever sent to a backup, so that no recovery can find it.
  bool canBeWithdrawn() const;
  bool isClosed() const { return reports_.isClosed(); }
  /// Complete replicas: those that hold everything that was reported.
  uint32_t completeCount() const;

  /// True if it is closed, cannot be replicated again before its memory is restored, and no write of it is in flight.
  bool isBlocked() const;
  /// True if it is closed, all its replicas are complete, and no server takes the replicas that are lacking.
  bool isOutOfPlaces() const;
  /// True if it is an open head that fewer servers than leastCount() have given a storage frame. A replica that was
  /// placed and has no frame yet may be refused one.
  bool hasNoPlace() const;

  /// True if something may have been acknowledged in it.
  bool isOpened() const { return reports_.isOpened(); }

  /// The segment lies in other memory: see log::Replicator::moved. Replicas that are not complete are begun again.
  void moved(const log::Segment& segment);
  void close() { demand_.close_wanted = true; }
  /// A request waits until the first `bytes` are durable.
  void requestDurable(uint32_t bytes) { demand_.durable_wanted = std::max(demand_.durable_wanted, bytes); }
  /// A request waits until the first `bytes` are flushed everywhere.
  void requestFlush(uint32_t bytes) { demand_.flush_wanted = std::max(demand_.flush_wanted, bytes); }
  /// Gives up replicas on servers that are gone, finds new ones, sends what is to be sent, reports what is to be
  /// reported. Returns false if there is nothing left to do until something happens.
  bool step();
  void floorRaised(uint64_t replica_epoch) { reports_.floorRaised(replica_epoch); }
  /// Gives up the replica on `backup`, unless its epoch is later than `replica_epoch`. Returns false if none was given
  /// up.
  bool loseOn(ServerId backup, uint64_t replica_epoch) { return replicas_.loseOn(backup, replica_epoch); }
  /// Ends the calls; nothing happens afterwards.
  void stop() { replicas_.stop(); }

 private:
  bool isOpenHead() const { return isHead() && !isClosed(); }
  void place();

  const SegmentParts parts_;
  SegmentDemand demand_;
  SegmentSource source_;
  ReplicaSet replicas_;
  SegmentReports reports_;
  ReplicaSender sender_;
};

}  // namespace ramcore::master
