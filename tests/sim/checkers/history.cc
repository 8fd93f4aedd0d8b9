#include "sim/checkers/history.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <tuple>

namespace ramcore::sim {
namespace {

bool saysSomething(const Operation& operation) {
  if (operation.outcome == Outcome::NotRun) return false;
  return operation.isSettled() || !operation.isRead();
}

std::string milliseconds(uint64_t time_ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(time_ns) / 1e6);
  return text;
}

std::string describeCall(const Operation& operation) {
  std::string text = name(operation.kind);
  text += '(';
  const char* separator = "";
  if (operation.kind == OperationKind::Write) {
    text += describe(operation.argument);
    separator = ", ";
  } else if (operation.kind == OperationKind::Increment) {
    text += std::to_string(static_cast<int64_t>(operation.delta));
    separator = ", ";
  }
  if (operation.condition.kind != ConditionKind::None) text += separator + describe(operation.condition);
  return text + ')';
}

std::string describeAnswer(const Operation& operation) {
  std::string text = name(operation.outcome);
  const bool has_result = operation.outcome == Outcome::Ok && operation.kind != OperationKind::Write &&
                          operation.kind != OperationKind::Remove;
  if (has_result) text += ", " + describe(operation.result);
  if (operation.isSettled() && operation.version != 0) text += ", version " + std::to_string(operation.version);
  return text;
}

}  // namespace

size_t History::invoke(Operation call, uint64_t now_ns) {
  call.outcome = Outcome::Unknown;
  call.invoke_order = tick();
  call.return_order = kNeverReturned;
  call.invoke_time_ns = now_ns;
  call.return_time_ns = 0;
  operations_.push_back(call);
  return operations_.size() - 1;
}

void History::finish(size_t index, const Answer& answer, uint64_t now_ns) {
  ++finished_;
  if (index >= operations_.size() || operations_[index].return_order != kNeverReturned) std::abort();
  Operation& operation = operations_[index];
  operation.outcome = answer.outcome;
  operation.result = answer.result;
  operation.version = answer.version;
  operation.return_order = tick();
  operation.return_time_ns = now_ns;
}

void History::add(const Operation& operation) {
  operations_.push_back(operation);
  last_order_ = std::max(last_order_, operation.invoke_order);
  if (operation.return_order != kNeverReturned) last_order_ = std::max(last_order_, operation.return_order);
}

std::vector<HistoryKey> History::keys() const {
  std::vector<HistoryKey> keys;
  keys.reserve(operations_.size());
  for (const Operation& operation : operations_) keys.push_back(operation.key);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

std::vector<std::pair<HistoryKey, std::vector<size_t>>> History::byKey() const {
  std::vector<size_t> order;
  order.reserve(operations_.size());
  for (size_t i = 0; i < operations_.size(); ++i) {
    if (saysSomething(operations_[i])) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    const Operation& left = operations_[a];
    const Operation& right = operations_[b];
    return std::tuple(left.key, left.invoke_order, a) < std::tuple(right.key, right.invoke_order, b);
  });
  std::vector<std::pair<HistoryKey, std::vector<size_t>>> groups;
  for (const size_t index : order) {
    const HistoryKey key = operations_[index].key;
    if (groups.empty() || groups.back().first != key) groups.push_back({key, {}});
    groups.back().second.push_back(index);
  }
  return groups;
}

std::vector<size_t> History::operationsOf(HistoryKey key) const {
  std::vector<size_t> indexes;
  for (size_t i = 0; i < operations_.size(); ++i) {
    if (operations_[i].key == key && saysSomething(operations_[i])) indexes.push_back(i);
  }
  std::sort(indexes.begin(), indexes.end(), [this](size_t a, size_t b) {
    return std::tuple(operations_[a].invoke_order, a) < std::tuple(operations_[b].invoke_order, b);
  });
  return indexes;
}

const char* name(OperationKind kind) {
  switch (kind) {
    case OperationKind::Read:
      return "read";
    case OperationKind::Write:
      return "write";
    case OperationKind::Remove:
      return "remove";
    case OperationKind::Increment:
      return "increment";
    case OperationKind::ScanRead:
      return "scan";
  }
  return "?";
}

const char* name(Outcome outcome) {
  switch (outcome) {
    case Outcome::Ok:
      return "ok";
    case Outcome::NotFound:
      return "not found";
    case Outcome::ObjectExists:
      return "object exists";
    case Outcome::WrongVersion:
      return "wrong version";
    case Outcome::TypeMismatch:
      return "not an integer";
    case Outcome::Unknown:
      return "outcome unknown";
    case Outcome::NotRun:
      return "not run";
  }
  return "?";
}

std::string describe(const ObservedValue& value) {
  char text[48];
  if (value.is_integer) {
    std::snprintf(text, sizeof text, "integer %" PRId64, static_cast<int64_t>(value.bits));
  } else {
    std::snprintf(text, sizeof text, "value 0x%016" PRIx64, value.bits);
  }
  return text;
}

std::string describe(const Condition& condition) {
  switch (condition.kind) {
    case ConditionKind::None:
      return "";
    case ConditionKind::MustExist:
      return "if it exists";
    case ConditionKind::MustNotExist:
      return "if it does not exist";
    case ConditionKind::VersionEquals:
      return "if version = " + std::to_string(condition.version);
    case ConditionKind::VersionNotGreater:
      return "if version <= " + std::to_string(condition.version);
  }
  return "?";
}

std::string describe(const Operation& operation) {
  const std::string end = operation.isSettled() ? milliseconds(operation.return_time_ns) + " ms" : "never";
  return "[" + milliseconds(operation.invoke_time_ns) + " ms .. " + end + "] client " +
         std::to_string(operation.process) + ": " + describeCall(operation) + " -> " + describeAnswer(operation);
}

}  // namespace ramcore::sim
