#pragma once

#include "master/replica_manager.h"
#include "rpc/service_table.h"

namespace ramcore::master {

/// What backups ask a master about replicas that they found in their storage. On the dispatch thread.
class ReplicaService {
 public:
  explicit ReplicaService(const ReplicaManager& replicas) : replicas_(replicas) {}
  void addTo(rpc::ServiceTable& table);

  void checkReplicas(rpc::Request request);

 private:
  const ReplicaManager& replicas_;
};

}  // namespace ramcore::master
