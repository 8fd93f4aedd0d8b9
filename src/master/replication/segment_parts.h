#pragma once

#include <algorithm>

#include "log/replicator.h"
#include "master/replication/replica_placement.h"
#include "master/replication/replication_stats.h"
#include "master/replication/write_admission.h"
#include "rpc/caller.h"
#include "rpc/dispatch.h"

namespace ramcore::master {

/// What the replicas of a segment need from the owner of all segments. Implemented by ReplicaManager.
/// Thread: the dispatch's.
class ReplicaOwner {
 public:
  /// True if every earlier log head is closed, so that the floor may pass them.
  virtual bool mayRaiseFloor(SegmentId segment) const = 0;
  /// Has the floor raised; ReplicatedSegment::floorRaised follows.
  virtual void raiseFloor(SegmentId segment, uint64_t replica_epoch) = 0;
  /// A replica on `backup` was lost.
  /// @param frame_flags  with which its storage frame was asked for (see ReplicaSender::frameFlags)
  virtual void noteLost(ServerId backup, Status why, uint8_t frame_flags) = 0;
  /// A replica was lost on its disk; its server is as good for replicas as before.
  virtual void noteRotten(ServerId backup) = 0;
  /// The entry at this offset was damaged in memory before a backup that needs it has received it; the segment is not
  /// closed.
  /// @return True: the entry was mended. False: it cannot be; the server has to stop, and nothing of the segment is
  ///         sent any more
  virtual bool noteSpoilt(const log::Segment& segment, uint32_t offset_bytes) = 0;
  /// Has ReplicatedSegment::step called soon for every segment that has work.
  virtual void wake() = 0;
  /// Calls ReplicatedSegment::step for one segment, unless the segment is freed. The segment may be gone afterwards.
  virtual void stepNow(SegmentId segment) = 0;

 protected:
  ~ReplicaOwner() = default;
};

/// What all segments of a log use. Everything is borrowed.
struct SegmentParts {
  ReplicaOwner& owner;
  ReplicaPlacement& placement;
  WriteAdmission& admission;
  ReplicationStats& stats;
  rpc::Dispatch& dispatch;
  rpc::Caller& caller;
  log::ReplicationEvents& events;
  ClusterId cluster;
  ServerId self;  ///< the server whose log it is
};

/// What a segment is, and what the log has asked for of it so far.
struct SegmentDemand {
  explicit SegmentDemand(const log::Segment& segment)
      : id(segment.id()),
        is_head(segment.isHeadKind()),
        is_of_reserve(segment.kind() == log::SegmentKind::SmallHead),
        copies_awaited(segment.copiesAwaited()) {}

  const SegmentId id;
  const bool is_head;
  const bool is_of_reserve;  ///< a small head: backups keep storage frames for these
  log::CopiesAwaited copies_awaited;
  bool close_wanted = false;
  bool withdraw_wanted = false;
  uint32_t durable_wanted = 0;  ///< a request waits until this many bytes are durable
  uint32_t flush_wanted = 0;    ///< a request waits until this many bytes are flushed everywhere
};

}  // namespace ramcore::master
