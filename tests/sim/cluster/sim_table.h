#pragma once

#include <string>
#include <vector>

#include "base/durability.h"
#include "sim/checkers/history.h"

namespace ramcore::sim {

/// One of the tables that the workload's keys are spread over.
struct SimTable {
  std::string name;
  Durability durability = Durability::Buffered;
};

/// Which tables there are: one, or one of each durability.
class SimTables {
 public:
  explicit SimTables(std::vector<SimTable> tables) : tables_(std::move(tables)) {}

  const std::vector<SimTable>& all() const { return tables_; }
  size_t indexOf(HistoryKey key) const { return key % tables_.size(); }
  bool isSync(HistoryKey key) const { return tables_[indexOf(key)].durability == Durability::Sync; }
  std::vector<HistoryKey> keysOf(size_t table, const std::vector<HistoryKey>& keys) const {
    std::vector<HistoryKey> own;
    for (const HistoryKey key : keys) {
      if (indexOf(key) == table) own.push_back(key);
    }
    return own;
  }

 private:
  std::vector<SimTable> tables_;
};

}  // namespace ramcore::sim
