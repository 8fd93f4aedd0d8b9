#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "master/replication/replica_placement.h"
#include "master/replication/replicated_segment.h"

namespace ramcore::master {

/// How many replicas there are of a log.
struct ReplicaCounts {
  uint32_t wanted = 0;     ///< replicas, by configuration
  uint32_t demanded = 0;   ///< replicas without which nothing is reported, by configuration
  uint32_t least = 0;      ///< complete replicas of the segment that has the fewest; 0 before the first is open
  uint32_t repairing = 0;  ///< segments with fewer complete replicas than the live servers allow
};

/// One replica as the server whose log it is of knows it.
struct KnownReplica {
  SegmentId segment;
  ServerId backup;
  uint32_t certified_bytes = 0;  ///< bytes under a certificate, at least; 0: it is being made
  uint32_t sent_bytes = 0;       ///< bytes that it may have, including those in flight
  bool is_closed = false;
};

/// A server with a closed replica of a segment, and the replica's epoch: for ReplicaManager::noteLostReplica.
struct ReplicaHolder {
  rpc::PeerAddress address;
  uint64_t replica_epoch = 0;
};

/// The segments of a log that are not freed, by id, and what is to be known of all of them.
/// Thread: the dispatch's.
class SegmentTable {
 public:
  using Map = std::map<SegmentId, std::unique_ptr<ReplicatedSegment>>;

  /// @param placement  borrowed
  explicit SegmentTable(const ReplicaPlacement& placement) : placement_(placement) {}

  const Map& all() const { return segments_; }
  /// nullptr: there is no such segment. Valid until erase().
  ReplicatedSegment* find(SegmentId id) const;
  /// @param id  the id under which the log opened the segment. A segment that the log has dropped since has no id any
  ///            more
  void add(SegmentId id, std::unique_ptr<ReplicatedSegment> segment) { segments_.emplace(id, std::move(segment)); }
  void erase(SegmentId id) { segments_.erase(id); }

  /// As ReplicaManager's functions of these names.
  bool isNeeded(SegmentId segment) const;
  ReplicaCounts counts() const;
  std::vector<KnownReplica> replicas() const;
  std::vector<ReplicaHolder> closedHolders(SegmentId segment) const;
  /// True if every log head before `segment` is closed, so that the floor may pass them.
  bool areEarlierHeadsClosed(SegmentId segment) const;

 private:
  const ReplicaPlacement& placement_;
  Map segments_;
};

}  // namespace ramcore::master
