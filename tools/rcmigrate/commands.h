#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "client/coordinator_stub.h"
#include "tools/rcmigrate/call_times.h"
#include "tools/rcmigrate/flags.h"
#include "tools/rcmigrate/mover.h"
#include "tools/rcmigrate/plan.h"
#include "tools/rcmigrate/plan_input.h"
#include "tools/support/cluster_session.h"

namespace ramcore::rcmigrate {

/// The commands of rcmigrate: each prints what it has to say, and gives the exit code.
class Commands {
 public:
  /// @param interrupted  set by a signal
  Commands(const Flags& flags, tools::ClusterSession& session, const volatile sig_atomic_t& interrupted)
      : flags_(flags), session_(session), interrupted_(interrupted) {}

  int list();
  int move();
  int split();
  int drain();
  int plan();
  int rebalance();
  int status();
  int rate();
  int cancel();

 private:
  client::CoordinatorStub& coordinator() { return session_.client().coordinator(); }
  int64_t deadlineNs() const { return session_.nowNs() + flags_.timeout_ms * runtime::kNanosPerMilli; }
  int failed(Status status, const std::string& what);
  static int failedAs(int code, const Failure& failure);
  Result<client::ClusterStatus> clusterStatus() { return session_.await(coordinator().clusterStatus(deadlineNs())); }
  Outcome<std::vector<PlanStep>> stepsOfMove(const client::ClusterStatus& cluster);
  MoverSettings moverSettings() const;
  int carryOut(const std::vector<PlanStep>& steps);
  uint32_t sampleMs() const { return flags_.by == "load" ? flags_.sample_ms : 0; }
  bool isAgreed(const std::string& plan, size_t moves) const;
  int awaitOthers(Mover& mover);
  int mayPlan(const PlanInput& input);
  int end(const Mover& mover, int code);
  void tell(const std::string& text) const;
  int unknownMove();
  static int codeOf(const client::MigrationRecord& move);
  bool lookAtCalls(CallHistory& calls);
  std::string movesText(const std::vector<client::MigrationRecord>& moves, const client::ClusterStatus& cluster,
                        const CallHistory* calls) const;
  std::string movesJson(const std::vector<client::MigrationRecord>& moves, const client::ClusterStatus& cluster,
                        const CallHistory* calls) const;

  const Flags& flags_;
  tools::ClusterSession& session_;
  const volatile sig_atomic_t& interrupted_;
  std::optional<tools::Json> first_plan_;
};

}  // namespace ramcore::rcmigrate
