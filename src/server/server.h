#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backup/backup.h"
#include "base/result.h"
#include "base/trace.h"
#include "log/memory/log_memory.h"
#include "log/replicator.h"
#include "master/master.h"
#include "rpc/caller.h"
#include "rpc/dispatch.h"
#include "runtime/clock.h"
#include "runtime/epoch.h"
#include "runtime/executor.h"
#include "runtime/random.h"
#include "runtime/storage.h"
#include "server/frame_gauge.h"
#include "store/threads.h"
#include "transport/transport.h"

namespace ramcore::server {

/// Observes what becomes of a server. Called on the dispatch executor.
class ServerObserver {
 public:
  virtual ~ServerObserver() = default;
  /// Master and backup serve as server `id`, and the process has this id in its handshakes.
  virtual void onServing(ServerId id) = 0;
  /// Final: the process should stop. `why` is a line for a person.
  virtual void onRejected(const std::string& why) = 0;
  /// Final for this server: the coordinator has declared it dead. What it held is recovered by others; the process may
  /// go on with another Server, which gets another id.
  virtual void onFenced(const std::string& why) { onRejected(why); }
};

/// The server of one process: a master, and a backup if the process has storage. Builds, owns, connects, starts and
/// stops the two.
///
/// Life: construct; openBackup(), if there is storage; openMaster(); start(); run the dispatch; stop(), keep running
/// until stopped(), end all executors, destroy. It may also be destroyed before start().
/// Thread: the dispatch executor, or the thread that puts the process together, before the dispatch runs.
class Server final : private master::MasterObserver {
 public:
  /// What a server needs of its process; borrowed, outlives it.
  struct Environment {
    runtime::Clock& clock;
    runtime::Entropy& entropy;
    Trace& trace;
    /// What the process is in its handshakes. The server sets id and cluster when it knows them.
    transport::Identity& identity;
    rpc::Dispatch& dispatch;  ///< has its workers already
    rpc::Caller& caller;
    runtime::Rcu& rcu;
    /// Its first hooks are those of the dispatch, the others those of the workers, in their order.
    store::Threads& threads;
    rpc::PeerAddress coordinator;
    ServerObserver& observer;
  };
  /// What the master alone needs; borrowed, outlives the server.
  struct MasterResources {
    log::LogMemory& memory;  ///< as many bytes as the log has by its configuration
    /// Where the master keeps what it has heard from the coordinator; nullptr: it remembers that while it runs.
    runtime::Storage* storage = nullptr;
    /// Used in place of the replicator that the configuration asks for; nullptr: that one is used.
    log::Replicator* replicator = nullptr;
    /// As in master::Master::Environment.
    bool (*has_one_processor)() = nullptr;
  };

  explicit Server(const Environment& environment);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Opens the backup, so that this process keeps replicas for others. Blocks while it reads what is in the storage.
  /// Before openMaster(), at most once.
  /// @param storage       borrowed, outlives the server
  /// @param disk          waits for the disk in writes, and does nothing else; borrowed, runs until stopped()
  /// @param bytes_needed  how large the storage should be for the memory and the replicas of a server like this one;
  ///                      for the status of the server
  /// Failure: as backup::Backup::open.
  Outcome<bool> openBackup(const backup::BackupConfig& config, runtime::Storage& storage, runtime::Executor& disk,
                           uint64_t bytes_needed);
  /// Builds the master. Draws three numbers of the environment's entropy. Once.
  /// @param config  of its `self` only locators, name and failure domain count, and its `coordinator` does not: the
  ///                server sets the rest
  /// Failure: as master::Master::open.
  Outcome<bool> openMaster(master::MasterConfig config, const MasterResources& resources);

  /// Enlists at the coordinator; onServing follows. On the dispatch executor, or before its first step.
  void start() { master_->start(); }
  /// Ends all that runs, the master first: the backup then flushes what it keeps for others. On the dispatch executor;
  /// may be repeated.
  /// @param goodbye  tell the coordinator that this server has ended
  void stop(bool goodbye);
  /// Whether all has ended after stop(): nothing is queued or suspended any more, no answer on its way reads the log,
  /// and the backup has flushed. On the dispatch executor, or when no executor runs any more.
  bool stopped() const {
    return master_->stopped() && !master_->hasPinnedMemory() && (backup_ == nullptr || backup_->stopped());
  }

  // After openMaster().
  master::Master& master() { return *master_; }
  const master::Master& master() const { return *master_; }
  /// nullptr without storage.
  backup::Backup* backup() { return backup_.get(); }
  const backup::Backup* backup() const { return backup_.get(); }

 private:
  // master::MasterObserver
  runtime::Task<Status> prepareServing(ServerId id, ClusterId cluster) override;
  void onServing(ServerId id) override { environment_.observer.onServing(id); }
  void onRejected(const std::string& why) override { environment_.observer.onRejected(why); }
  void onFenced(const std::string& why) override { environment_.observer.onFenced(why); }

  const Environment environment_;
  // The master is destroyed first: it reads the gauge, which reads the backup.
  std::unique_ptr<backup::Backup> backup_;
  std::optional<FrameGauge> gauge_;  // with a backup
  std::unique_ptr<master::Master> master_;
};

}  // namespace ramcore::server
