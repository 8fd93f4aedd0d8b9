#pragma once

#include <functional>
#include <memory>

#include "base/change_ref.h"
#include "base/trace.h"
#include "coordinator/coordinator_options.h"
#include "coordinator/state/state_store.h"
#include "rpc/caller.h"
#include "rpc/dispatch.h"

namespace ramcore::coordinator {

/// The coordinator: which servers are members, which tables and tablets there are, which servers own them, which
/// clients live. Everything is stored before it is answered, so a coordinator that starts carries on where the last one
/// was.
///
/// Usage: construct before the dispatch's first step (it fills the service table), start() on the dispatch, serve;
/// stop() on the dispatch, step until isIdle(), destroy. Until it has read its state it answers NotLeader. If the state
/// proves to be an older copy, the coordinator ends all its work and answers StateBehind until it is stopped.
/// Thread: the dispatch's.
class Coordinator {
 public:
  /// All borrowed. The caller outlives the coordinator and is shut down (Caller::shutDown) together with stop().
  struct Environment {
    rpc::Dispatch& dispatch;
    rpc::Caller& caller;
    StateStore& store;
    Trace& trace;
    /// Called when the store has failed, or another coordinator leads: nothing is answered any more, the process has to
    /// end.
    std::function<void(Status)> on_failed;
    /// Called when the state has proved to be an older copy: no request is served. May be empty.
    std::function<void()> on_behind = {};
    /// Drawn at random for this start, not 0: distinguishes its changes from those of other starts. Also the id in the
    /// identity of this process: servers obey the start that has answered their last renewal.
    uint64_t start = 0;
  };
  Coordinator(const Environment& environment, const CoordinatorOptions& options);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// Reads the state and carries on. `on_started` is called with Ok, or with the failure (Corrupt, IoError, Shutdown,
  /// ...), whose reason is traced. StateBehind: the state is known to be an older copy, and every request is answered
  /// with that. BadConfig: given_up_change is not what is missing.
  void start(std::function<void(Status)> on_started);
  bool isServing() const;
  /// True if the disk of the store is full: nothing can be changed. Any thread.
  bool isStorageFull() const;
  /// Answers what waits and ends all work. Watch isIdle().
  void stop();
  bool isIdle() const;

  /// For metrics and checks.
  struct Counts {
    uint64_t servers_alive = 0;
    uint64_t tables = 0;
    uint64_t tablets = 0;
    uint64_t clients = 0;
    uint64_t servers_to_recover = 0;  ///< dead servers whose tablets are not back
    // Since this process started:
    uint64_t servers_recovered = 0;  ///< dead servers of which tablets were brought back, and nothing is left to do
    uint64_t tablets_recovered = 0;
    /// Attempts given up because replicas found no storage frames on other servers.
    uint64_t recoveries_given_up = 0;
    uint64_t verdicts_by_silence = 0;  ///< verdicts for no better reason than silence
    /// While replicas of what is recovered find no storage frames: this many more servers, each with this much storage,
    /// are enough.
    uint32_t missing_servers = 0;
    uint64_t missing_storage_bytes = 0;
  };
  Counts counts() const;
  /// For checks: true if nothing of the server's log is needed any more. Only while isServing().
  bool isReleased(ServerId server) const;
  /// For checks: true if the server is declared dead. Only while isServing().
  bool isDead(ServerId server) const;

 private:
  struct State;
  static runtime::Task<void> run(State& state, std::function<void(Status)> on_started);
  static runtime::Task<Status> readHistory(State& state, uint64_t given_up_change);
  static void endParts(State& state);
  static runtime::Task<void> endForMissing(State& state, ServerId server);
  std::unique_ptr<State> state_;
};

}  // namespace ramcore::coordinator
