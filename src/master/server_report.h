#pragma once

#include "log/log.h"
#include "master/pinned/pinned_values.h"
#include "master/replication/backup_gauge.h"
#include "master/replication/replica_manager.h"
#include "rpc/dispatch.h"
#include "store/object_store.h"
#include "wire/server_numbers.h"

namespace ramcore::master {

/// The handler of the coordinator's question about the server as a whole: its memory, its replicas and
/// its sessions. Runs on the dispatch executor.
class ServerReport {
 public:
  struct Parts {
    ServerId self;
    store::ObjectStore& store;
    log::Log& log;
    const PinnedValues& pinned;
    rpc::Dispatch& dispatch;
    const ReplicaManager* replicas;  ///< nullptr: without replication
    const BackupGauge* backup;       ///< nullptr: this process keeps no replicas
  };
  explicit ServerReport(const Parts& parts) : parts_(parts), started_ns_(parts.dispatch.clock().nowNs()) {}
  void addTo(rpc::ServiceTable& table);

  void serverState(rpc::Request request);

 private:
  /// What this server tells of its memory, its log and its index.
  wire::ServerNumbers logNumbers() const;

  const Parts parts_;
  const int64_t started_ns_;
};

}  // namespace ramcore::master
