#pragma once

#include <map>
#include <memory>

#include "master/replication/replica_placement.h"
#include "rpc/caller.h"
#include "rpc/dispatch.h"

namespace ramcore::master {

/// Tells backups which replicas they need not keep any more: each backup one segment after the other, repeated until
/// the backup has answered or is no member any more.
/// Thread: the dispatch's.
class ReplicaFreeing {
 public:
  /// @param placement  whose members are told. All are borrowed
  ReplicaFreeing(const ReplicaPlacement& placement, rpc::Dispatch& dispatch, rpc::Caller& caller);
  ~ReplicaFreeing();

  /// Has the replica of `segment` on `backup` freed. A server that is no member is not told: its next life asks which
  /// replicas are needed.
  void free(ServerId backup, SegmentId segment);
  /// Called when the members of the placement have changed: forgets what servers that have left were to be told.
  void membersChanged();
  /// Ends all calls; no backup is told anything any more.
  void stop();

 private:
  struct Backup;

  void tellNext(Backup& backup);
  void tell(Backup& backup);
  static void told(rpc::OutgoingCall& call);

  const ReplicaPlacement& placement_;
  rpc::Dispatch& dispatch_;
  rpc::Caller& caller_;
  std::map<ServerId, std::unique_ptr<Backup>> backups_;
  bool stopped_ = false;
};

}  // namespace ramcore::master
