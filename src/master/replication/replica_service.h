#pragma once

#include "master/replication/replica_manager.h"
#include "rpc/service_table.h"

namespace ramcore::master {

/// Answers backups that ask a master about replicas which they found in their storage, and takes their reports of
/// replicas that they have lost since. On the dispatch thread.
class ReplicaService {
 public:
  explicit ReplicaService(ReplicaManager& replicas) : replicas_(replicas) {}
  void addTo(rpc::ServiceTable& table);

  void checkReplicas(rpc::Request request);

 private:
  ReplicaManager& replicas_;
};

}  // namespace ramcore::master
