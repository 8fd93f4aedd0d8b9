#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim/checkers/exactly_once.h"
#include "sim/checkers/history.h"
#include "sim/cluster/sim_client.h"
#include "sim/cluster/sim_cluster.h"
#include "sim/cluster/sim_table.h"

namespace ramcore::sim {

/// The last act of some runs, when everything else has been judged: some segments of one server's log are damaged on
/// every disk, the server is killed, and an operator accepts the loss as `ramcore recover --accept-loss` does.
///
/// Then keys of the tablets that the server owned are absent or have a value that was once written for them, under a
/// version that no client has seen. Keys of all other tablets are what they were, and so are all keys if nothing had to
/// be accepted. No version that was ever shown is handed out again, also if the key is absent.
class LossTrial {
 public:
  /// All are borrowed, and outlive it.
  /// @param admin  sends what the operator and a last client do
  /// @param end    what was read of each key
  LossTrial(SimCluster& cluster, SimClient& admin, const SimTables& tables, const History& history,
            const std::vector<FinalObject>& end);

  /// Begins between two events; runs until isOver().
  void start();
  bool isOver() const { return is_over_; }
  /// True if a loss was accepted.
  bool wasAccepted() const { return was_accepted_; }
  /// Of the keys that a loss concerned, those of which nothing or an older value is left.
  uint64_t changedCount() const { return changed_; }
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  struct Known {
    FinalObject end;
    uint64_t version_max = 0;  ///< that anybody was told of
    std::vector<ObservedValue> values;
    bool has_increments = false;
    bool is_concerned = false;
  };
  struct Start : runtime::Job {
    explicit Start(LossTrial& trial)
        : Job([](runtime::Job& job) { static_cast<Start&>(job).owner.run().detach(); }), owner(trial) {}
    LossTrial& owner;
  };

  runtime::Task<void> run();
  runtime::Task<bool> chooseVictim();
  void damage(const std::set<SegmentId>& segments);
  void damageOn(size_t machine, const std::set<SegmentId>& segments);
  void killVictim();
  runtime::Task<void> acceptUntilRecovered();
  runtime::Task<void> readAll();
  runtime::Task<void> writeAll();
  runtime::Task<void> removeAll();
  void judgeRead(HistoryKey key, Known& known, const client::PointResult& result);
  bool wasWritten(const Known& known, const ObservedValue& value) const;
  void fail(HistoryKey key, const std::string& what);
  int64_t soon() { return admin_.dispatch().clock().nowNs() + 60 * runtime::kNanosPerSecond; }
  TableId tableOf(HistoryKey key) const { return table_ids_.at(tables_.all()[tables_.indexOf(key)].name); }

  SimCluster& cluster_;
  SimClient& admin_;
  const SimTables& tables_;
  runtime::Random random_;
  Start start_;
  std::map<HistoryKey, Known> known_;
  std::map<std::string, TableId> table_ids_;
  size_t victim_ = 0;  ///< machine
  ServerId victim_id_;
  bool was_accepted_ = false;
  bool is_over_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< what is planned for later asks whether it goes on
  bool is_victim_back_ = true;
  uint64_t changed_ = 0;
  std::vector<std::string> failures_;
};

}  // namespace ramcore::sim
