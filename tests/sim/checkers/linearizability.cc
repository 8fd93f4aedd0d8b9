#include "sim/checkers/linearizability.h"

#include <algorithm>
#include <tuple>

namespace ramcore::sim {
namespace {

using Operations = std::vector<const Operation*>;

struct ShortestFailure {
  uint64_t cut_order = kNeverReturned;
  const Operation* answer = nullptr;  // the return at the cut
};

/// The shortest history that has no order. A prefix of a good history is good, so halving finds it. A prefix that is
/// too hard counts as good; then the one found may not be the shortest.
ShortestFailure findShortestFailure(const Operations& operations, uint64_t steps_max) {
  Operations returned;
  for (const Operation* operation : operations) {
    if (operation->isSettled()) returned.push_back(operation);
  }
  if (returned.empty()) return {};
  std::sort(returned.begin(), returned.end(),
            [](const Operation* a, const Operation* b) { return a->return_order < b->return_order; });
  size_t good = 0;  // prefixes of this many returns are good
  size_t bad = returned.size();
  while (bad - good > 1) {
    const size_t middle = good + (bad - good) / 2;
    KeySearch search(operations, returned[middle - 1]->return_order, steps_max, false);
    (search.run() == Verdict::Violation ? bad : good) = middle;
  }
  return {returned[bad - 1]->return_order, returned[bad - 1]};
}

std::string describeState(const RegisterState& state) {
  const std::string version = std::to_string(state.version_min);
  if (!state.present) return "no object, versions up to " + version + " used";
  return describe(state.value) + ", version " + (state.isVersionKnown() ? "" : "at least ") + version;
}

void appendLines(std::string& text, const Operations& operations, const Operation* marked) {
  for (const Operation* operation : operations) {
    text += operation == marked ? "  > " : "    ";
    text += describe(*operation) + '\n';
  }
}

/// The operations that overlap the failing one and those just before it, in order of invocation.
Operations neighbourhood(const Operations& operations, const ShortestFailure& failure, uint32_t shown_max) {
  Operations near;
  for (const Operation* operation : operations) {
    if (operation->invoke_order <= failure.cut_order) near.push_back(operation);
  }
  std::sort(near.begin(), near.end(), [](const Operation* a, const Operation* b) {
    return std::tuple(a->end(), a->invoke_order) < std::tuple(b->end(), b->invoke_order);
  });
  if (near.size() > shown_max) near.erase(near.begin(), near.end() - shown_max);
  std::sort(near.begin(), near.end(),
            [](const Operation* a, const Operation* b) { return a->invoke_order < b->invoke_order; });
  return near;
}

std::string explain(HistoryKey key, const Operations& operations, const LinearizabilityOptions& options) {
  const ShortestFailure failure = findShortestFailure(operations, options.steps_max_per_key);
  KeySearch search(operations, failure.cut_order, options.steps_max_per_key, true);
  search.run();

  std::string text = "key " + std::to_string(key) + ": no order of its operations explains the answers\n";
  if (failure.answer != nullptr) text += "  first answer that fits no order:\n    " + describe(*failure.answer) + '\n';
  Operations order = search.longestOrder();
  const size_t shown = std::min<size_t>(order.size(), options.operations_shown_max / 2);
  text += "  longest order found, the last " + std::to_string(shown) + " of " + std::to_string(order.size()) + ":\n";
  order.erase(order.begin(), order.end() - static_cast<std::ptrdiff_t>(shown));
  appendLines(text, order, failure.answer);
  text += "  leaves: " + describeState(search.longestState()) + "\n  and no place for:\n";
  Operations left_over = search.leftOver();
  if (left_over.size() > options.operations_shown_max) left_over.resize(options.operations_shown_max);
  appendLines(text, left_over, failure.answer);
  text += "  operations of the key around it:\n";
  appendLines(text, neighbourhood(operations, failure, options.operations_shown_max), failure.answer);
  return text;
}

std::string explainGivingUp(HistoryKey key, const Operations& operations, uint64_t steps_max) {
  size_t open_count = 0;
  for (const Operation* operation : operations) open_count += operation->isSettled() ? 0 : 1;
  return "key " + std::to_string(key) + ": gave up after " + std::to_string(steps_max) + " steps over " +
         std::to_string(operations.size()) + " operations, " + std::to_string(open_count) +
         " of them with an unknown outcome; neither right nor wrong is proven\n";
}

}  // namespace

std::string LinearizabilityReport::text() const {
  std::string all;
  for (const KeyFailure& failure : failures) all += failure.explanation;
  return all;
}

LinearizabilityReport checkLinearizability(const History& history, const LinearizabilityOptions& options) {
  LinearizabilityReport report;
  Operations operations;
  for (const auto& [key, indexes] : history.byKey()) {
    operations.clear();
    for (const size_t index : indexes) operations.push_back(&history.operations()[index]);
    ++report.key_count;
    report.operation_count += operations.size();
    KeySearch search(operations, kNeverReturned, options.steps_max_per_key, false);
    const Verdict verdict = search.run();
    report.step_count += search.steps();
    if (verdict == Verdict::Linearizable) continue;
    std::string explanation;
    if (verdict == Verdict::GaveUp) {
      explanation = explainGivingUp(key, operations, options.steps_max_per_key);
    } else if (report.failures.size() < options.explained_failures_max) {
      explanation = explain(key, operations, options);
    } else {
      explanation = "key " + std::to_string(key) + ": no order of its operations explains the answers\n";
    }
    report.failures.push_back({key, verdict, std::move(explanation)});
  }
  return report;
}

}  // namespace ramcore::sim
