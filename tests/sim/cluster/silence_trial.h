#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/sim_client.h"
#include "sim/cluster/sim_cluster.h"
#include "sim/cluster/sim_table.h"
#include "sim/workload/generator.h"

namespace ramcore::sim {

/// The last act of some runs, when everything else has been judged: a server with tablets falls silent for ever, and no
/// session with it ends. Every client knows it and calls it. Some are patient: their call has an answer soon after the
/// tablets are with others. The calls of the rest are over long before anybody would ask where the tablets are: one of
/// them has an answer as soon.
class SilenceTrial {
 public:
  /// All are borrowed, and outlive it.
  SilenceTrial(SimCluster& cluster, SimClient& admin, const std::vector<SimClient*>& clients, const SimTables& tables,
               std::vector<HistoryKey> keys);

  /// Begins between two events; runs until isOver().
  void start();
  bool isOver() const;
  /// A server was silent, and all clients were judged.
  bool wasJudged() const { return taken_ns_.has_value(); }
  /// When it is over.
  std::vector<std::string> failures() const;
  /// Then somebody kills the process.
  void end();

 private:
  /// What one client does.
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
    explicit Start(SilenceTrial& trial)
        : Job([](runtime::Job& job) { static_cast<Start&>(job).owner.run().detach(); }), owner(trial) {}
    SilenceTrial& owner;
  };

  runtime::Task<void> run();
  runtime::Task<void> call(Caller& caller);
  runtime::Task<void> awaitTaken();
  bool chooseVictim(const std::vector<client::TableMap>& tables);
  void silence();
  int64_t in(SimClient& client, int64_t ns) { return client.dispatch().clock().nowNs() + ns; }
  int64_t now() const { return cluster_.scheduler.nowNs(); }

  SimCluster& cluster_;
  SimClient& admin_;
  const SimTables& tables_;
  const std::vector<HistoryKey> keys_;
  runtime::Random random_;
  Start start_;
  std::vector<std::unique_ptr<Caller>> callers_;
  size_t victim_ = 0;  ///< machine
  ServerId victim_id_;
  TableId table_;
  std::string key_;  ///< of the victim
  bool is_silent_ = false;
  bool is_over_ = false;
  std::optional<int64_t> taken_ns_;  ///< when others had its tablets
};

}  // namespace ramcore::sim
