#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/checkers/history.h"
#include "sim/checkers/key_search.h"

namespace ramcore::sim {

struct LinearizabilityOptions {
  uint64_t steps_max_per_key = 20'000'000;  ///< beyond it the verdict is GaveUp; normal keys need one step an operation
  uint32_t explained_failures_max = 3;      ///< further failures are listed without an explanation
  uint32_t operations_shown_max = 24;       ///< in an explanation
};

struct KeyFailure {
  HistoryKey key = 0;
  Verdict verdict = Verdict::Violation;  ///< or GaveUp
  std::string explanation;               ///< several lines, for people
};

struct LinearizabilityReport {
  std::vector<KeyFailure> failures;  ///< ascending by key
  uint64_t key_count = 0;
  uint64_t operation_count = 0;
  uint64_t step_count = 0;

  bool isOk() const { return failures.empty(); }
  /// All explanations in a row; empty if all is well.
  std::string text() const;
};

/// Checks that for every key one order of its operations explains every answer: each operation takes effect once,
/// between its invocation and its return, operations with an unknown outcome at any time after their invocation or
/// never. Keys are independent, and so are their orders.
///
/// Deterministic. Cost: 2,000 operations over 64 keys take about two milliseconds; a violation costs more, the bound in
/// `options` is the limit.
LinearizabilityReport checkLinearizability(const History& history, const LinearizabilityOptions& options = {});

}  // namespace ramcore::sim
