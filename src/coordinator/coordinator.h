#pragma once

#include <functional>
#include <memory>

#include "base/change_ref.h"
#include "base/trace.h"
#include "coordinator/members/client_leases.h"
#include "coordinator/members/membership.h"
#include "coordinator/state/state_store.h"
#include "rpc/caller.h"
#include "rpc/dispatch.h"

namespace ramcore::coordinator {

struct CoordinatorOptions {
  MembershipOptions membership;
  int64_t client_lease_ns = ClientLeases::kLeaseNsDefault;
  /// Of one attempt of a call to a server.
  int64_t call_ns = runtime::kNanosPerSecond;
  /// How long a server may take to say how it is, for the cluster's status.
  int64_t status_call_ns = 300 * runtime::kNanosPerMilli;
  /// How long requests wait for what takes several steps (creating, dropping, splitting) before they are told to come
  /// back; the work goes on.
  int64_t request_wait_ns = 5 * runtime::kNanosPerSecond;
  /// An operator goes on with a state that lacks changes up to this one (ChangeHistory). 0: with none.
  uint64_t given_up_change = 0;
};

/// The coordinator: who is a member, which tables and tablets there are, who owns them, which clients live. Everything
/// is stored before it is answered, so a coordinator that starts carries on where the last one was.
///
/// Usage: construct before the dispatch's first step (it fills the service table), start() on the dispatch, serve;
/// stop() on the dispatch, step until isIdle(), destroy. Until it has read its state it answers NotLeader. With a state
/// that proves to be an older copy it ends all that it does and answers StateBehind until it is stopped.
/// Thread: the dispatch's.
class Coordinator {
 public:
  /// All borrowed. The caller outlives the coordinator and is shut down (Caller::shutDown) together with stop().
  struct Environment {
    rpc::Dispatch& dispatch;
    rpc::Caller& caller;
    StateStore& store;
    Trace& trace;
    /// The store failed, or another coordinator leads: nothing is answered any more, the process has to end.
    std::function<void(Status)> on_failed;
    /// The state has proved to be an older copy: nobody is served. May be empty.
    std::function<void()> on_behind = {};
    /// Drawn at random for this start, not 0: tells its changes from those of others. Also the id in the identity of
    /// this process: servers obey the start that has answered their last renewal.
    uint64_t start = 0;
  };
  Coordinator(const Environment& environment, const CoordinatorOptions& options);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// Reads the state and carries on. `on_started` is told Ok, or why it cannot (Corrupt, IoError, Shutdown, ...), with
  /// the reason traced. StateBehind: it is known to be an older copy, and everybody is told so. BadConfig:
  /// given_up_change is not what is missing.
  void start(std::function<void(Status)> on_started);
  bool isServing() const;
  /// The disk of the store is full: nothing can be changed. Any thread.
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
    uint64_t servers_to_recover = 0;  ///< dead ones whose tablets are not back
    // Of this life of the coordinator.
    uint64_t servers_recovered = 0;  ///< dead ones of which tablets were brought back, and nothing is left to do
    uint64_t tablets_recovered = 0;
    uint64_t recoveries_given_up = 0;  ///< attempts, because copies found no places on the storages of others
    uint64_t verdicts_by_silence = 0;  ///< with no better reason
    /// Copies of what is recovered find no places: so many servers more, each with so much storage, are enough.
    uint32_t missing_servers = 0;
    uint64_t missing_storage_bytes = 0;
  };
  Counts counts() const;
  /// For checks: nothing of the server's log is needed any more. Only while isServing().
  bool isReleased(ServerId server) const;
  /// For checks: there is a verdict over it. Only while isServing().
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
