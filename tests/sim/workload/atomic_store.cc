#include "sim/workload/atomic_store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "sim/checkers/scan_checker.h"

namespace ramcore::sim {
namespace {

constexpr uint32_t kScanPageKeys = 16;

}  // namespace

Answer AtomicStore::execute(const Operation& operation) {
  Object& object = objects_[operation.key];
  Answer answer;
  if (refuses(operation, object, answer)) return answer;
  switch (operation.kind) {
    case OperationKind::Read:
    case OperationKind::ScanRead:
      return {Outcome::Ok, object.value, object.version};
    case OperationKind::Remove:
      object.present = false;
      return {Outcome::Ok, {}, object.version};
    case OperationKind::Write:
      object.value = operation.argument;
      break;
    case OperationKind::Increment:
      object.value = {(object.present ? object.value.bits : 0) + operation.delta, true};
      answer.result = object.value;
      break;
  }
  object.present = true;
  object.version = ++last_version_;
  answer.version = object.version;
  return answer;
}

bool AtomicStore::refuses(const Operation& operation, const Object& object, Answer& answer) const {
  const bool needs_object = operation.isRead() || operation.kind == OperationKind::Remove;
  const uint64_t version = object.present ? object.version : 0;
  const Condition& condition = operation.condition;
  answer.outcome = Outcome::Ok;
  if (!object.present && (needs_object || condition.kind == ConditionKind::MustExist)) {
    answer.outcome = Outcome::NotFound;
  } else if (object.present && condition.kind == ConditionKind::MustNotExist) {
    answer.outcome = Outcome::ObjectExists;
  } else if ((condition.kind == ConditionKind::VersionEquals && version != condition.version) ||
             (condition.kind == ConditionKind::VersionNotGreater && version > condition.version)) {
    answer.outcome = Outcome::WrongVersion;
  } else if (operation.kind == OperationKind::Increment && object.present && !object.value.is_integer) {
    answer.outcome = Outcome::TypeMismatch;
  }
  if (answer.outcome == Outcome::Ok) return false;
  answer.version = version;
  return true;
}

FinalObject AtomicStore::look(HistoryKey key) const {
  const auto found = objects_.find(key);
  if (found == objects_.end() || !found->second.present) return {.key = key};
  return {.key = key, .present = true, .value = found->second.value, .version = found->second.version};
}

namespace {

/// Discrete events: calls arrive, parts and scan pages take effect, answers come back.
class AtomicSimulation {
 public:
  AtomicSimulation(const AtomicRunOptions& options, uint64_t seed)
      : options_(options), generator_(options.workload, seed), random_(seed, 0) {
    run_.keys = generator_.keys();
  }

  AtomicRun run() {
    for (uint32_t client = 0; client < options_.workload.client_count; ++client)
      at(random_.below(1000), Step::Call, client);
    while (!queue_.empty()) {
      const auto next = queue_.begin();
      const Event event = next->second;
      now_ns_ = next->first.first;
      queue_.erase(next);
      carryOut(event);
    }
    lookAtTheEnd();
    for (const ScanRecord& scan : scans_) {
      for (std::string& line : checkScan(run_.history, scan, run_.keys))
        run_.scan_violations.push_back(std::move(line));
    }
    for (const ScanRecord& scan : scans_) addScanReads(scan, run_.keys, run_.history);
    return std::move(run_);
  }

 private:
  enum class Step : uint8_t { Call, Effect, Answer, ScanAsk, ScanEffect, ScanAnswer };
  struct Event {
    Step step = Step::Call;
    uint32_t client = 0;
    size_t index = 0;  // of the operation or of the scan
  };

  void at(uint64_t delay_ns, Step step, uint32_t client, size_t index = 0) {
    queue_[{now_ns_ + delay_ns, ++event_count_}] = {step, client, index};
  }

  void carryOut(const Event& event) {
    switch (event.step) {
      case Step::Call:
        call(event.client);
        break;
      case Step::Effect:
        answers_[event.index] = store_.execute(run_.history.operations()[event.index]);
        break;
      case Step::Answer:
        answer(event.client, event.index);
        break;
      case Step::ScanAsk:
        askForPage(event.client, event.index);
        break;
      case Step::ScanEffect:
        fillPage(event.index);
        break;
      case Step::ScanAnswer:
        finishPage(event.client, event.index);
        break;
    }
  }

  void call(uint32_t client) {
    if (run_.history.operations().size() >= options_.operation_count) return;
    const PlannedCall planned = generator_.next(client);
    if (planned.kind == CallKind::Scan) {
      ScanRecord scan;
      scan.process = client;
      scan.invoke_order = run_.history.tick();
      scan.invoke_time_ns = now_ns_;
      scans_.push_back(scan);
      at(0, Step::ScanAsk, client, scans_.size() - 1);
      return;
    }
    const bool is_lost = random_.chance(options_.unknown_permille);
    waiting_[client] = planned.parts.size();
    for (const PlannedPart& part : planned.parts) {
      const size_t index = run_.history.invoke(part.operation, now_ns_);
      answers_.resize(index + 1);
      const uint64_t there = random_.below(options_.latency_ns_max);
      const uint64_t back = random_.below(options_.latency_ns_max);
      if (!is_lost) {
        at(there, Step::Effect, client, index);
      } else if (random_.chance(500)) {
        at(random_.below(options_.late_ns_max), Step::Effect, client, index);
      }
      if (!is_lost) at(there + back, Step::Answer, client, index);
    }
    if (is_lost) at(2 * uint64_t{options_.latency_ns_max}, Step::Call, client);
  }

  void answer(uint32_t client, size_t index) {
    run_.history.finish(index, answers_[index], now_ns_);
    generator_.seen(run_.history.operations()[index].key, answers_[index].version);
    if (--waiting_[client] == 0) at(random_.below(20'000), Step::Call, client);
  }

  void askForPage(uint32_t client, size_t index) {
    page_invoke_order_[index] = run_.history.tick();
    page_invoke_time_ns_[index] = now_ns_;
    const uint64_t there = random_.below(options_.latency_ns_max);
    at(there, Step::ScanEffect, client, index);
    at(there + random_.below(options_.latency_ns_max), Step::ScanAnswer, client, index);
  }

  void fillPage(size_t index) {
    size_t& next = scan_next_key_[index];
    const size_t end = std::min<size_t>(next + kScanPageKeys, run_.keys.size());
    for (; next < end; ++next) {
      const FinalObject object = store_.look(run_.keys[next]);
      if (!object.present) continue;
      scans_[index].objects.push_back({.key = object.key,
                                       .value = object.value,
                                       .version = object.version,
                                       .invoke_order = page_invoke_order_[index],
                                       .invoke_time_ns = page_invoke_time_ns_[index]});
    }
  }

  void finishPage(uint32_t client, size_t index) {
    ScanRecord& scan = scans_[index];
    const uint64_t order = run_.history.tick();
    for (ScannedObject& object : scan.objects) {
      if (object.return_order != 0) continue;
      object.return_order = order;
      object.return_time_ns = now_ns_;
    }
    if (scan_next_key_[index] < run_.keys.size()) {
      at(random_.below(1000), Step::ScanAsk, client, index);
      return;
    }
    scan.is_complete = true;
    scan.return_order = run_.history.tick();
    scan.return_time_ns = now_ns_;
    at(random_.below(20'000), Step::Call, client);
  }

  void lookAtTheEnd() {
    for (const HistoryKey key : run_.keys) {
      Operation read;
      read.process = options_.workload.client_count;
      read.key = key;
      const size_t index = run_.history.invoke(read, now_ns_);
      run_.history.finish(index, store_.execute(read), now_ns_);
      run_.final_objects.push_back(store_.look(key));
    }
  }

  AtomicRunOptions options_;
  Generator generator_;
  Prng random_;
  AtomicStore store_;
  AtomicRun run_;
  uint64_t now_ns_ = 0;
  uint64_t event_count_ = 0;
  std::map<std::pair<uint64_t, uint64_t>, Event> queue_;  // by time, then by order of scheduling
  std::vector<Answer> answers_;                           // by operation
  std::map<uint32_t, size_t> waiting_;                    // parts a client waits for
  std::vector<ScanRecord> scans_;
  std::map<size_t, size_t> scan_next_key_;
  std::map<size_t, uint64_t> page_invoke_order_;
  std::map<size_t, uint64_t> page_invoke_time_ns_;
};

}  // namespace

AtomicRun runAtomically(const AtomicRunOptions& options, uint64_t seed) {
  return AtomicSimulation(options, seed).run();
}

}  // namespace ramcore::sim
