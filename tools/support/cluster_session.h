#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/trace.h"
#include "client/cluster_client.h"
#include "rpc/caller.h"
#include "rpc/dispatch.h"
#include "rpc/spin_gauge.h"
#include "runtime/clock.h"
#include "runtime/random.h"
#include "transport/registry/registry.h"
#include "transport/tcp/asio_sleeper.h"
#include "transport/transport.h"

namespace ramcore::tools {

/// Which cluster a tool uses, and in which role.
struct ClusterAccess {
  std::vector<transport::Locator> coordinators;
  std::string cluster_name;
  std::string secret;  ///< empty: only loopback and shm
  transport::Role role = transport::Role::Client;
  transport::TransportChoices transports;
};

/// What all sessions of a tool's one thread share.
struct ToolThread {
  runtime::Clock& clock;
  runtime::Entropy& entropy;
  Trace& trace;
  transport::tcp::AsioSleeper& sleeper;
};

class ClusterSession;

/// Drives several sessions on one thread. Every round steps each of them. After a round that found nothing, other
/// rounds follow for a while if the last waits were short, and then a sleep.
class SessionLoop {
 public:
  /// @param never_sleep  for a processor that belongs to this thread alone.
  SessionLoop(std::vector<ClusterSession*> sessions, const ToolThread& thread, bool never_sleep)
      : sessions_(std::move(sessions)), thread_(thread), never_sleep_(never_sleep), gauge_(thread.clock, kSpinNs) {}

  /// One round, and a sleep of at most 50 ms if there has been nothing to do for some time.
  void advance();

 private:
  static constexpr int64_t kSpinNs = 50 * runtime::kNanosPerMicro;

  void sleep(int64_t now_ns);

  const std::vector<ClusterSession*> sessions_;
  const ToolThread thread_;
  const bool never_sleep_;
  rpc::SpinGauge gauge_;
  bool worked_ = false;
  uint32_t rounds_ = 0;
  uint32_t idle_rounds_ = 0;  // since the core was offered to others
};

/// A client of a cluster with connections and a lease of its own, for tools that await coroutines. A program has one
/// thread that drives all its sessions; for the cluster each of them is like a program of its own.
class ClusterSession {
 public:
  /// `thread` outlives the session. Failure: as TransportSet::open, or no transport for any of the coordinator's
  /// locators.
  static Outcome<std::unique_ptr<ClusterSession>> open(const ClusterAccess& access, const ToolThread& thread);
  /// Only after close(), or if nothing was started.
  ~ClusterSession();
  ClusterSession(const ClusterSession&) = delete;
  ClusterSession& operator=(const ClusterSession&) = delete;

  client::ClusterClient& client() { return *client_; }
  rpc::Dispatch& dispatch() { return *dispatch_; }
  int64_t nowNs() const { return thread_.clock.nowNs(); }

  /// Drives this session alone until `task` is done, and gives its value. Sleeps while there is nothing to do.
  template <typename T>
  T await(runtime::Task<T> task) {
    while (!task.isDone()) advance();
    return task.take();
  }
  /// One round of this session alone; see SessionLoop::advance.
  void advance();
  /// Ends calls that are running now, and calls that begin later, without an answer: with Shutdown or OutcomeUnknown.
  void giveUp();
  /// Gives the lease back and ends all connections; takes a second at most. No task may be running.
  void close();

 private:
  explicit ClusterSession(const ToolThread& thread) : thread_(thread), own_loop_({this}, thread, false) {}

  const ToolThread thread_;
  transport::Identity identity_;
  std::unique_ptr<transport::TransportSet> transports_;
  std::unique_ptr<rpc::Dispatch> dispatch_;
  std::unique_ptr<rpc::Caller> caller_;
  std::unique_ptr<client::ClusterClient> client_;
  SessionLoop own_loop_;
  bool is_given_up_ = false;
};

}  // namespace ramcore::tools
