#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/checkers/exactly_once.h"
#include "sim/checkers/history.h"
#include "sim/workload/generator.h"

namespace ramcore::sim {

/// How a simulated history comes about.
struct AtomicRunOptions {
  WorkloadOptions workload;
  uint32_t operation_count = 2000;    ///< single operations, parts of multi-operations counted one by one
  uint32_t unknown_permille = 20;     ///< calls whose answer is lost
  uint32_t latency_ns_max = 200'000;  ///< of the way there and of the way back, each
  uint32_t late_ns_max = 50'000'000;  ///< how late a call with a lost answer may still run
};

/// The outcome of a run, final reads by a last client included.
struct AtomicRun {
  History history;
  std::vector<HistoryKey> keys;
  std::vector<FinalObject> final_objects;
  std::vector<std::string> scan_violations;
};

/// The store as it should be: one map, every call atomic at one instant. Written apart from the checkers' model, so
/// that each tests the other.
class AtomicStore {
 public:
  Answer execute(const Operation& operation);
  FinalObject look(HistoryKey key) const;

 private:
  struct Object {
    bool present = false;
    ObservedValue value = {};
    uint64_t version = 0;
  };
  bool refuses(const Operation& operation, const Object& object, Answer& answer) const;
  std::map<HistoryKey, Object> objects_;
  uint64_t last_version_ = 0;
};

/// Runs the workload's clients against an AtomicStore in simulated time: calls take effect at a random instant between
/// their invocation and return, or, if the answer is lost, at any time after the invocation or never. The histories are
/// right by construction; tests then break them.
AtomicRun runAtomically(const AtomicRunOptions& options, uint64_t seed);

}  // namespace ramcore::sim
