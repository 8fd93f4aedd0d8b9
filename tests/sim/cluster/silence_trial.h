#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/checkers/exactly_once.h"
#include "sim/cluster/durable_check.h"
#include "sim/cluster/sim_client.h"
#include "sim/cluster/sim_cluster.h"
#include "sim/cluster/sim_table.h"
#include "sim/workload/generator.h"

namespace ramcore::sim {

/// The last act of some runs, when everything else has been judged: a server with tablets falls silent for ever, and no
/// session with it ends. Every client knows it and calls it. Some clients are patient: their call has an answer soon
/// after the tablets are with others. The calls of the others end long before a client would ask where the tablets are;
/// one of these calls has to have an answer just as soon. In half of the runs the process of another server dies at the
/// same moment, and is started again.
///
/// All tablets have to be available then, with one exception: the tablets of a server that was dead before, if the
/// silent server may have more of its log than all others (DurableCheck::mayWaitFor). Then the coordinator has to say
/// that it waits for the silent server, and when that server's storage is back, everything has to be there.
class SilenceTrial {
 public:
  /// All are borrowed, and outlive it.
  /// @param may_vanish  whether a machine may go for good: others have replicas of all that it has
  /// @param end         the state of every key of the workload
  SilenceTrial(SimCluster& cluster, SimClient& admin, const std::vector<SimClient*>& clients, const SimTables& tables,
               DurableCheck& disks, std::function<bool(size_t machine)> may_vanish, std::vector<FinalObject> end);

  /// Begins between two events; runs until isOver().
  void start();
  bool isOver() const;
  /// A server was silent, and all clients were judged.
  bool wasJudged() const { return taken_ns_.has_value(); }
  bool wasAnotherKilled() const { return killed_.has_value(); }
  /// Another dead server's log waited for what the silent one has.
  bool wasWaitedFor() const { return !waiting_.empty(); }
  /// When it is over.
  std::vector<std::string> failures() const;
  /// Kills the silent process, and starts it again if a recovery waits for it. Runs until isEnded().
  void end();
  bool isEnded() const { return is_ended_; }

 private:
  /// The call of one client.
  struct Caller : runtime::Job {
    Caller(SilenceTrial& owner, SimClient& its_client, bool waits)
        : Job([](runtime::Job& job) {
            auto& self = static_cast<Caller&>(job);
            self.trial.call(self).detach();
          }),
          trial(owner),
          client(its_client),
          is_patient(waits) {}
    SilenceTrial& trial;
    SimClient& client;
    const bool is_patient;
    bool is_ready = false;  ///< knows the server
    int64_t answered_ns = 0;
    uint64_t calls = 0;
  };
  struct Start : runtime::Job {
    using Act = runtime::Task<void> (SilenceTrial::*)();
    Start(SilenceTrial& trial, Act what)
        : Job([](runtime::Job& job) {
            auto& self = static_cast<Start&>(job);
            (self.owner.*self.act)().detach();
          }),
          owner(trial),
          act(what) {}
    SilenceTrial& owner;
    const Act act;
  };

  runtime::Task<void> run();
  runtime::Task<void> call(Caller& caller);
  runtime::Task<void> awaitTaken();
  runtime::Task<bool> areWaitingForVictim(const std::set<ServerId>& dead);
  runtime::Task<void> awaitAll();
  bool chooseVictim(const std::vector<client::TableMap>& tables);
  void silence();
  void killAnother();
  int64_t in(SimClient& client, int64_t ns) { return client.dispatch().clock().nowNs() + ns; }
  int64_t now() const { return cluster_.scheduler.nowNs(); }

  SimCluster& cluster_;
  SimClient& admin_;
  const SimTables& tables_;
  DurableCheck& disks_;
  const std::function<bool(size_t machine)> may_vanish_;
  const std::vector<FinalObject> end_state_;
  runtime::Random random_;
  Start start_;
  Start end_;
  std::vector<std::unique_ptr<Caller>> callers_;
  size_t victim_ = 0;  ///< machine
  ServerId victim_id_;
  TableId table_;
  std::string key_;  ///< of the victim
  bool is_silent_ = false;
  bool is_over_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< what is planned for later asks whether it goes on
  std::optional<ServerId> killed_;  ///< another server, whose process ended at the same time
  int64_t silent_ns_ = 0;
  std::optional<int64_t> taken_ns_;  ///< when others had its tablets
  std::set<ServerId> waiting_;       ///< dead servers whose logs wait for the victim's storage
  bool is_ended_ = false;
  std::vector<std::string> changed_;  ///< what is not what it was when that storage is back
};

}  // namespace ramcore::sim
