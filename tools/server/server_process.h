#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "log/memory/log_memory.h"
#include "rpc/caller.h"
#include "runtime/epoch.h"
#include "runtime/real/file_storage.h"
#include "runtime/real/thread_executor.h"
#include "server/server.h"
#include "store/threads.h"
#include "tools/server/server_settings.h"
#include "tools/support/metrics_server.h"
#include "tools/support/process.h"

namespace ramcore::tools {

/// One life of the process ramcore-server: the Server, on the threads, transports, storage and memory of this process.
///
/// Life: construct, run(), goesOn(), takeMemory() if it does, destroy. Thread: the main thread, which dispatches.
class ServerProcess final : private server::ServerObserver {
 public:
  /// @param memory  of an earlier server in this process, used in place of new memory; nullptr: this is the first one
  ServerProcess(const ServerSettings& settings, std::unique_ptr<log::LogMemory> memory);

  /// Serves until a signal or the coordinator ends it. Returns the exit code; a cause that kept it from serving was
  /// printed in one line.
  int run();
  /// To be asked after run(): whether the process goes on as a new server, because the coordinator has declared this
  /// server dead and no signal has asked the process to end. The new server has another id and nothing in its memory,
  /// and offers the replicas in its storage to recoveries.
  bool goesOn() const { return fenced_ && !process_->wasSignalled(); }
  /// Ends the server and gives away its memory.
  std::unique_ptr<log::LogMemory> takeMemory();

 private:
  /// Opens what the server runs on. Failure: for a person.
  Outcome<bool> openProcess();
  Outcome<bool> openBackup();
  /// Takes new memory if there is none of an earlier server, and registers it with the transports.
  Outcome<bool> openMemory();
  Outcome<std::unique_ptr<log::LogMemory>> prepareMemory();
  Outcome<bool> openMaster();
  Outcome<bool> openMetrics();

  // server::ServerObserver
  void onServing(ServerId id) override;
  void onRejected(const std::string& why) override;
  void onFenced(const std::string& why) override;

  const ServerSettings settings_;
  std::unique_ptr<runtime::Rcu> rcu_;
  store::Threads threads_;
  std::unique_ptr<Process> process_;
  std::unique_ptr<runtime::FileStorage> storage_;
  std::unique_ptr<runtime::ThreadExecutor> disk_;  // waits for the disk under writes
  std::unique_ptr<log::LogMemory> memory_;
  transport::RegionId region_ = 0;  // of memory_
  std::unique_ptr<server::Server> server_;
  std::unique_ptr<MetricsServer> metrics_;
  bool rejected_ = false;
  bool fenced_ = false;
};

}  // namespace ramcore::tools
