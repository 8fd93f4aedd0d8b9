#pragma once

#include "master/replication/replica_set.h"
#include "master/replication/segment_parts.h"
#include "master/replication/segment_reports.h"
#include "master/replication/segment_source.h"

namespace ramcore::master {

/// Sends the replicas of one segment what they lack, and deals with the answers: decides when a write or a flush is
/// due, verifies and certifies what it carries, repeats what failed, and gives up a replica that fails for good.
///
/// See Replica for the calls that are in flight.
/// Thread: the dispatch's.
class ReplicaSender {
 public:
  /// All are borrowed.
  ReplicaSender(const SegmentParts& parts, const SegmentDemand& demand, ReplicaSet& replicas, SegmentSource& source,
                const SegmentReports& reports)
      : parts_(parts), demand_(demand), replicas_(replicas), source_(source), reports_(reports) {}

  /// Whether the replica lacks anything of what is wanted of the segment.
  /// @param committed  bytes of the segment that are committed
  bool needs(const Replica& replica, uint32_t committed) const;
  /// Sends the replica the write and the flush that are due, unless such calls are in flight.
  void sendWhatIsDue(Replica& replica, uint32_t committed);
  /// Which of a backup's storage frames a replica that is opened now may take: kHead and kReserve of
  /// wire::WriteReplica. A segment that a recovery needs, and of which fewer than leastCount() servers have a replica,
  /// may also take a storage frame that is kept for survivors: until it has one, no log head can follow, so no storage
  /// frame would ever come free. A replica beyond leastCount() leaves all kept storage frames to cleaning.
  uint8_t frameFlags() const;
  /// True if a backup may have a certificate for the segment.
  bool hasCertified() const { return has_certified_; }

 private:
  friend struct Replica;

  bool isOpenHead() const { return demand_.is_head && !reports_.isClosed(); }
  bool mayCertify() const;
  bool canFlush(const Replica& replica) const;
  bool isInStep(const Replica& replica) const;
  bool needsWrite(const Replica& replica, uint32_t committed) const;
  bool isSoundToSend(Replica& replica, uint32_t committed);
  bool isSoundChunk(uint32_t from, uint32_t verified, uint32_t committed);
  uint32_t verifiedFor(const Replica& replica) const;
  bool isPatient(const Replica& replica, uint32_t committed) const;
  void send(Replica& replica, uint32_t committed);
  void sendFlush(Replica& replica, uint32_t to);
  uint32_t beginOfNext(const Replica& replica) const;
  transport::TxMessage makeWrite(const Replica& replica, uint32_t to, uint64_t epoch, uint8_t flags, bool closes);
  void noteWrite(uint32_t bytes);
  static void written(rpc::OutgoingCall& call);
  static void flushed(rpc::OutgoingCall& call);
  static Status withoutLostAnswer(Replica& replica, Status status);
  void onWritten(Replica& replica);
  void onFlushed(Replica& replica, uint32_t flushed_bytes);
  void onFailed(Replica& replica, Status status, int64_t& failing_since_ns);
  static void retry(runtime::Timer& timer);

  const SegmentParts& parts_;
  const SegmentDemand& demand_;
  ReplicaSet& replicas_;
  SegmentSource& source_;
  const SegmentReports& reports_;
  bool is_spoilt_ = false;      // the bytes to be sent are damaged in memory for good
  bool has_certified_ = false;  // a backup may have a certificate for it
};

}  // namespace ramcore::master
