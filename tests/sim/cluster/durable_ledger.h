#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/checkers/history.h"
#include "sim/cluster/sim_table.h"

namespace ramcore::sim {

/// The entries that are durable somewhere in the cluster (of sync tables: flushed): which versions of which keys, and
/// which removals. Replicators add entries when they report them; clients look up everything that answers show. An
/// answer that shows an entry which is not in here came before that entry was durable. One thread.
class DurableLedger {
 public:
  explicit DurableLedger(const SimTables& tables) : tables_(tables) {}
  /// True: of this key the replicator adds only flushed entries.
  bool isSync(HistoryKey key) const { return tables_.isSync(key); }

  void addObject(HistoryKey key, uint64_t version) { objects_.emplace(key, version); }
  void addRemoval(HistoryKey key, uint64_t version) { removals_.emplace(key, version); }

  /// Judges an answer at the moment a client gets it.
  void check(const Operation& operation, const Answer& answer) {
    if (answer.version == 0 || answer.outcome == Outcome::Unknown || answer.outcome == Outcome::NotRun) return;
    ++checked_;
    const bool removed = operation.kind == OperationKind::Remove && answer.outcome == Outcome::Ok;
    const auto& known = removed ? removals_ : objects_;
    if (known.contains({operation.key, answer.version})) return;
    violations_.push_back(std::string("shown before it was ") + (isSync(operation.key) ? "flushed" : "durable") +
                          ": key " + std::to_string(operation.key) + " version " + std::to_string(answer.version) +
                          (removed ? " removed" : "") + ", told to client " + std::to_string(operation.process) +
                          " by a " + name(operation.kind));
  }
  const std::vector<std::string>& violations() const { return violations_; }
  /// Answers that were judged.
  uint64_t checkedCount() const { return checked_; }

 private:
  const SimTables& tables_;
  std::set<std::pair<HistoryKey, uint64_t>> objects_;
  std::set<std::pair<HistoryKey, uint64_t>> removals_;
  std::vector<std::string> violations_;
  uint64_t checked_ = 0;
};

}  // namespace ramcore::sim
