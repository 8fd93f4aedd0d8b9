#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/state/sqlite_state_store.h"
#include "ramcore/client.h"
#include "runtime/real/file_storage.h"
#include "runtime/real/urcu_epoch.h"
#include "server/server.h"
#include "tests/cluster/threads_node.h"

namespace ramcore::cluster {

/// A folder of this process alone, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// Options of the storages of servers that a test may change.
struct StorageSettings {
  using Wrap = std::function<std::unique_ptr<runtime::Storage>(std::unique_ptr<runtime::Storage>)>;
  Wrap wrap_first = {};  ///< what is put in front of the first server's; may be empty
  backup::WriteThread write_thread = backup::WriteThread::Auto;
};

/// A server on a dispatch thread and workers of its own, with a log so small that it is cleaned all the time.
class ServerOfThreads final : private server::ServerObserver {
 public:
  /// @param replicas   copies of its log on other servers
  /// @param directory  where it keeps those of others; empty: it keeps none
  ServerOfThreads(const NodeSettings& settings, const std::string& coordinator, uint32_t replicas,
                  const std::string& directory, const StorageSettings& storage = {});
  ~ServerOfThreads() override;

  /// False if the coordinator has not taken it in within a minute.
  [[nodiscard]] bool awaitServing() { return serving_.wait(60); }
  /// False if it did not end in time.
  [[nodiscard]] bool stop();

  ServerId id() const { return id_; }  ///< after awaitServing(), as the rest
  const log::LogStats& logStats() const { return server_->master().log()->stats(); }
  const master::Master& master() const { return server_->master(); }
  ThreadNode& node() { return node_; }
  bool isRejected() const { return is_rejected_.load(); }

 private:
  void openBackup(const std::string& directory, const StorageSettings& storage);
  void onServing(ServerId id) override;
  void onRejected(const std::string& why) override;

  const std::unique_ptr<runtime::Rcu> rcu_;
  store::Threads threads_;
  ThreadNode node_;
  std::unique_ptr<log::LogMemory> memory_;
  std::unique_ptr<runtime::Storage> storage_;
  std::unique_ptr<runtime::ThreadExecutor> disk_;
  std::unique_ptr<server::Server> server_;
  Event serving_;
  ServerId id_;
  std::atomic<bool> is_rejected_{false};
  bool is_stopped_ = false;
};

/// A coordinator on a dispatch thread of its own and a worker that waits for the disk.
class CoordinatorOfThreads {
 public:
  CoordinatorOfThreads(const NodeSettings& settings, const std::string& directory, int64_t lease_ns);
  ~CoordinatorOfThreads();

  [[nodiscard]] bool awaitServing() { return serving_.wait(60); }
  [[nodiscard]] bool stop();
  ThreadNode& node() { return node_; }
  bool hasFailed() const { return has_failed_.load(); }

 private:
  ThreadNode node_;
  std::unique_ptr<coordinator::SqliteStateStore> store_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  Event serving_;
  std::atomic<bool> has_failed_{false};
  bool is_stopped_ = false;
};

/// A whole cluster in this process: one coordinator and three servers, each on threads of its own, that talk to each
/// other over real sockets and rings. The first server listens at both transports and hands every request to its
/// workers, the second listens at tcp alone, the third at shm alone.
class ClusterOfThreads {
 public:
  static constexpr size_t kServers = 3;

  /// Everybody serves when it returns (checked).
  /// @param replicas  copies of each log on other servers; with 0 the servers keep none, and no disk is used
  /// @param workers   of each server; with four of them two may clean its memory at a time
  /// @param lease_ns  of the servers; what does three other things as well must not lose it
  explicit ClusterOfThreads(uint32_t replicas = 0, uint32_t workers = 2, const StorageSettings& storage = {},
                            int64_t lease_ns = 10 * runtime::kNanosPerSecond);
  ~ClusterOfThreads();

  /// How a client reaches the cluster; calls have a minute.
  ClientOptions options(const std::string& scheme) const;
  /// A client; connecting succeeds (checked).
  std::unique_ptr<Client> connect(const ClientOptions& options) const;

  /// Ends the coordinator and starts another one in its place, on what it stored.
  void restartCoordinator();
  /// Ends one server, which says goodbye, so that the others recover what it had, and starts another one on its
  /// storage. One thread at a time.
  void restartServer(size_t index);
  /// Breaks a session of some node.
  void breakSession(uint64_t random);
  /// Stops the servers, then the coordinator. False if one of them had to be forced.
  [[nodiscard]] bool stop();

  /// Must not be called while another thread restarts this server.
  ServerOfThreads& server(size_t index);
  uint64_t cleanerPasses() const;
  uint64_t segmentsCleaned() const;
  /// Bytes that others than the first worker of a server have copied for its cleaner.
  uint64_t bytesShared() const;
  uint64_t sessionsBroken() const;
  /// Sessions that the servers have opened or accepted.
  uint64_t sessionsOpened(const std::string& scheme) const;
  bool isHealthy() const;

 private:
  NodeSettings settingsOf(const std::string& name, transport::Role role, std::vector<std::string> listen) const;
  std::unique_ptr<ServerOfThreads> makeServer(size_t index) const;
  /// The sum over those that are there.
  template <typename F>
  uint64_t sum(F&& of) const {
    std::lock_guard guard(mutex_);
    uint64_t total = 0;
    for (const auto& server : servers_) total += server != nullptr ? of(*server) : 0;
    return total;
  }

  const uint32_t replicas_;
  const uint32_t workers_;
  const StorageSettings storage_;
  const int64_t lease_ns_;
  TemporaryFolder folder_;
  std::vector<std::string> coordinator_locators_;
  std::unique_ptr<CoordinatorOfThreads> coordinator_;
  mutable std::mutex mutex_;  // who is there, not what it does
  std::vector<std::unique_ptr<ServerOfThreads>> servers_;
};

}  // namespace ramcore::cluster
