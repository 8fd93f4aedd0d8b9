#pragma once

#include <functional>

#include "backup/replica_judge.h"
#include "rpc/coordinators.h"

namespace ramcore::backup {

/// Asks the coordinator (CheckMasters) and the masters (CheckReplicas).
class RpcReplicaJudge final : public ReplicaJudge {
 public:
  /// @param executor  executor of the callers
  /// @param obeys     as in Backup::Environment: answers of other starts of the coordinator count for nothing. Empty:
  ///                  any count
  RpcReplicaJudge(rpc::Caller& caller, runtime::Executor& executor, const rpc::PeerAddress& coordinator,
                  std::function<bool(uint64_t start)> obeys)
      : caller_(caller), executor_(executor), coordinators_(coordinator), obeys_(std::move(obeys)) {}

  runtime::Task<Standings> standings(std::vector<ServerId> masters) override;
  runtime::Task<Needed> needed(rpc::PeerAddress master, std::vector<SegmentId> segments) override;
  runtime::Task<Status> reportLost(rpc::PeerAddress master, std::vector<Lost> lost) override;

 private:
  rpc::CallSettings settings();

  rpc::Caller& caller_;
  runtime::Executor& executor_;
  rpc::Coordinators coordinators_;
  const std::function<bool(uint64_t start)> obeys_;
};

}  // namespace ramcore::backup
