#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/trace.h"
#include "rpc/caller.h"
#include "rpc/dispatch.h"
#include "runtime/real/system_clock.h"
#include "runtime/real/thread_executor.h"
#include "tests/cluster/threads_endpoint.h"
#include "transport/shm/shm_transport.h"
#include "transport/tcp/asio_sleeper.h"
#include "transport/tcp/tcp_transport.h"

namespace ramcore::cluster {

/// Something that happens once, and threads that wait for it.
class Event {
 public:
  void set() {
    std::lock_guard guard(mutex_);
    is_set_ = true;
    changed_.notify_all();
  }
  /// False if it has not happened within `timeout_s`.
  [[nodiscard]] bool wait(int timeout_s) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(timeout_s), [this] { return is_set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
};

struct NodeSettings {
  std::string name;
  std::string cluster_name;
  transport::Role role = transport::Role::Server;
  std::vector<std::string> listen;
  uint32_t workers = 1;
  rpc::HandOff hand_off = rpc::HandOff::Auto;
};

/// What a daemon's process is made of, as a part of this process: clock, transports, a thread that dispatches, workers.
///
/// Life: construct, build the role on dispatch() and caller(), start(), stop(), destroy the role, destroy.
class ThreadNode {
 public:
  /// Opens the transports and listens (checked); starts the workers.
  /// @param hooks  called once for the dispatch thread and then once for each worker; may be empty.
  ThreadNode(const NodeSettings& settings, const std::function<runtime::ExecutorHooks()>& hooks);
  /// Its threads have ended (checked).
  ~ThreadNode();

  runtime::Clock& clock() { return clock_; }
  runtime::Entropy& entropy() { return entropy_; }
  Trace& trace() { return trace_; }
  rpc::Dispatch& dispatch() { return dispatch_; }
  rpc::Caller& caller() { return *caller_; }
  transport::Identity& identity() { return identity_; }
  std::vector<runtime::Executor*> workers() const;
  const std::vector<std::string>& locators() const { return locators_; }
  BreakableEndpoint& tcp() { return tcp_endpoint_; }
  BreakableEndpoint& shm() { return shm_endpoint_; }

  /// Starts the dispatch thread; it begins with `first`.
  void start(std::function<void()> first);
  /// As a process that is told to end: runs `on_stop` on the dispatch thread, goes on until `stopped()` there, ends all
  /// calls and then the threads. False if it did not stop in time and was ended all the same.
  bool stop(std::function<void()> on_stop, std::function<bool()> stopped);

 private:
  struct FirstJob;
  struct StopJob;

  Trace& trace_;
  runtime::SystemClock clock_;
  runtime::SystemEntropy entropy_;
  transport::Identity identity_;
  transport::tcp::AsioSleeper sleeper_;
  transport::tcp::TcpTransport tcp_;
  transport::shm::ShmTransport shm_;
  BreakableEndpoint tcp_endpoint_;
  BreakableEndpoint shm_endpoint_;
  rpc::Dispatch dispatch_;
  std::vector<std::unique_ptr<runtime::ThreadExecutor>> workers_;
  std::unique_ptr<rpc::Caller> caller_;
  std::vector<std::string> locators_;
  std::unique_ptr<FirstJob> first_job_;
  std::unique_ptr<StopJob> stop_job_;
  std::thread thread_;
};

}  // namespace ramcore::cluster
