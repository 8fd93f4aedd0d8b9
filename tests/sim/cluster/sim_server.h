#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backup/backup.h"
#include "master/master.h"
#include "runtime/sim/sim_epoch.h"
#include "runtime/sim/sim_node.h"
#include "runtime/sim/sim_storage.h"
#include "server/server.h"
#include "sim/cluster/sim_dispatch.h"
#include "sim/cluster/sim_replicator.h"
#include "sim/cluster/slow_reader.h"
#include "transport/sim/sim_transport.h"

namespace ramcore::sim {

/// One server process of a simulated cluster: the product's Server, with a backup if there is a disk, on simulated
/// threads, network and storage.
class SimServer final : private server::ServerObserver {
 public:
  struct Options {
    std::string cluster_name = "sim";
    std::string coordinator_node = "coordinator";
    log::LogConfig log = log::LogConfig::forTest();
    index::IndexConfig index = index::IndexConfig::forTest();
    uint32_t worker_count = 3;       // at least 1
    uint32_t cleaners_max = 2;       // of them
    bool has_one_processor = false;  ///< the dispatch copies what the cleaner moves
    runtime::SimExecutor::Delays dispatch_delays;
    /// Without a disk: what stands in for replication.
    SimReplicator::Options replication;
    DurableLedger* ledger = nullptr;
    /// With a disk: it keeps replicas there, and its own log is kept by others. It outlives the server.
    runtime::SimDisk* disk = nullptr;
    uint64_t storage_bytes = 16u << 20;
    backup::ScrubOptions scrub;
    backup::WriteThread write_thread = backup::WriteThread::Auto;
    master::MemoryScrubOptions memory_scrub;
    master::MigrationTarget::Slices move_slices;
    master::ReplicationOptions replicas;
    std::string network_node;  ///< where it listens; empty: its name
  };
  SimServer(runtime::SimScheduler& scheduler, runtime::SimTraceLog& log, transport::SimNetwork& network,
            const std::string& name, const runtime::SimClock::Options& clock, const Options& options);
  /// Unwinds the process: nothing it started is left.
  ~SimServer() override;

  runtime::SimNode& node() { return node_; }
  master::Master& master() { return server_->master(); }
  const master::Master& master() const { return server_->master(); }
  rpc::Dispatch& dispatch() { return dispatch_.dispatch(); }
  void wake() { dispatch_.wake(); }
  /// One of its workers is in the middle of a job.
  bool isInJob() const {
    return std::any_of(workers_.begin(), workers_.end(), [](const auto* worker) { return worker->isCurrent(); });
  }
  /// Meanwhile the dispatch goes on. False: it has nothing to do.
  bool runDispatchBetween() { return dispatch_.runBetween(); }
  bool isServing() const { return serving_; }
  /// SIGTERM: it says goodbye, and flushes what it keeps for others. Until hasStopped() it may still be killed over it.
  void stopInOrder();
  bool isStopping() const { return stopping_; }
  bool hasStopped() const { return stopping_ && server_->stopped(); }
  /// Ends the process as kill -9 does: from here on it sends, receives and writes nothing. What is left is unwound when
  /// it is destroyed, which takes simulated time. With `power` its machine is without power: its peers are not told.
  void kill(bool power = false);
  /// One of its threads, that has no work of its own.
  SlowReader& slowReader() { return slow_reader_; }
  /// nullptr with a disk.
  SimReplicator* replicator() { return replicator_.get(); }
  /// nullptr without a disk.
  const backup::Backup* backup() const { return server_->backup(); }
  backup::Backup* backup() { return server_->backup(); }
  const std::string& networkNode() const { return network_node_; }
  /// Why the server cannot go on; empty: it can.
  const std::string& rejected() const { return rejected_; }

 private:
  void onServing(ServerId) override { serving_ = true; }
  void onRejected(const std::string& why) override { rejected_ = why; }

  const std::string network_node_;
  transport::SimNetwork& network_;
  runtime::SimDisk* const disk_;
  runtime::SimNode node_;
  runtime::SimRcu rcu_;
  SlowReader slow_reader_{rcu_};
  store::Threads threads_;
  std::vector<const runtime::Executor*> workers_;
  transport::Identity identity_;
  transport::SimTransport transport_;
  std::unique_ptr<transport::Endpoint> endpoint_;  // outlives the messages that wait in the dispatch
  SimDispatch dispatch_;
  std::unique_ptr<rpc::Caller> caller_;
  std::unique_ptr<log::LogMemory> memory_;
  std::unique_ptr<SimReplicator> replicator_;
  std::unique_ptr<runtime::Storage> storage_;
  std::unique_ptr<server::Server> server_;
  struct Stop : runtime::Job {
    explicit Stop(SimServer& owner)
        : Job([](runtime::Job& job) { static_cast<Stop&>(job).owner.beginToStop(); }), owner(owner) {}
    SimServer& owner;
  };
  void beginToStop();

  Stop stop_{*this};
  bool serving_ = false;
  bool stopping_ = false;
  std::string rejected_;
};

}  // namespace ramcore::sim
