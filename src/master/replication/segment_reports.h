#pragma once

#include "master/replication/replica_set.h"
#include "master/replication/segment_parts.h"
#include "master/replication/segment_source.h"

namespace ramcore::master {

/// What was reported of one segment to the log, and the floor that a head's reports wait for.
/// Thread: the dispatch's.
class SegmentReports {
 public:
  /// All are borrowed.
  SegmentReports(const SegmentParts& parts, const SegmentDemand& demand, ReplicaSet& replicas,
                 const SegmentSource& source)
      : parts_(parts), demand_(demand), replicas_(replicas), source_(source) {}

  /// Reports what its replicas allow, and has the floor raised that is needed before more is reported.
  void report();
  void floorRaised(uint64_t replica_epoch);

  /// True if something may have been acknowledged in it.
  bool isOpened() const { return opened_; }
  bool isClosed() const { return closed_; }
  uint32_t durableBytes() const { return durable_bytes_; }

 private:
  void reportPlaces();
  void reportDurable();
  uint32_t awaitedCount() const;

  const SegmentParts& parts_;
  const SegmentDemand& demand_;
  ReplicaSet& replicas_;
  const SegmentSource& source_;
  uint64_t floor_epoch_ = 1;  // the first set needs no floor: there is no older one
  bool raising_ = false;
  bool lacks_places_ = false;  // a backup that is waited for had no storage frame; no other one has taken its place
  bool opened_ = false;
  bool closed_ = false;
  uint32_t durable_bytes_ = 0;
  uint32_t flushed_bytes_ = 0;
};

}  // namespace ramcore::master
