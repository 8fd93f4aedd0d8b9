// durability_oracle: calls a cluster, notes every call before and after, and judges the answers. It is a process of its
// own, takes commands on stdin, one a line, and answers each with one line of JSON. Times are CLOCK_MONOTONIC in
// nanoseconds; a RANGE of key hashes is FIRST-LAST in hexadecimal.
//
//   resume | pause                      starts the workers; stops them and returns when no call is running
//   acks MS [TO [RANGE...]]             mutations acknowledged in the MS milliseconds before TO (now)
//   await-acks COUNT MS WITHIN_MS       waits until there are COUNT of them
//   await-more COUNT WITHIN_MS          waits until COUNT mutations were acknowledged from now on
//   await-answers SINCE WITHIN_MS RANGE...  waits until a call started after SINCE was answered in each range
//   gap SINCE RANGE...                  the longest time without an answer for these keys, and the slowest answer
//   failures SINCE                      calls that ended later without an answer, and how long after SINCE the last one
//   did verify WITHIN_MS                    pauses, reads every key, judges all calls so far stop as the end of stdin
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "durability/history_check.h"
#include "durability/journal.h"
#include "durability/recorder.h"
#include "durability/workload.h"
#include "tools/support/command_line.h"
#include "tools/support/json.h"

namespace durability {
namespace {

using ramcore::tools::Json;

constexpr int64_t kMilli = 1'000'000;

double millis(int64_t ns) { return static_cast<double>(ns) / static_cast<double>(kMilli); }

std::vector<Range> parseRanges(std::istringstream& words) {
  std::vector<Range> ranges;
  std::string word;
  while (words >> word) {
    const size_t dash = word.find('-');
    if (dash == std::string::npos) throw std::invalid_argument("no range: " + word);
    ranges.push_back({std::stoull(word.substr(0, dash), nullptr, 16), std::stoull(word.substr(dash + 1), nullptr, 16)});
  }
  return ranges;
}

int64_t parseNumber(std::istringstream& words) {
  int64_t number = 0;
  if (!(words >> number)) throw std::invalid_argument("a number is missing");
  return number;
}

class Commands {
 public:
  explicit Commands(Workload& workload) : workload_(workload), recorder_(workload.recorder()) {}

  Json carryOut(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "resume") return workload_.resume(), Json::object();
    if (command == "pause") return workload_.pause(), Json::object();
    if (command == "acks") return acks(words);
    if (command == "await-acks") return awaitAcks(words);
    if (command == "await-more") return awaitMore(words);
    if (command == "await-answers") return awaitAnswers(words);
    if (command == "gap") return gap(words);
    if (command == "failures") return failures(words);
    if (command == "verify") return verify(words);
    throw std::invalid_argument("no command: " + line);
  }

 private:
  Json acks(std::istringstream& words) {
    const int64_t window_ms = parseNumber(words);
    int64_t to_ns = 0;
    if (!(words >> to_ns)) to_ns = nowNs();
    const auto found = recorder_.acknowledged(to_ns - window_ms * kMilli, to_ns, parseRanges(words));
    return {{"acks", found.all}, {"of_ranges", found.of_ranges}};
  }

  Json awaitAcks(std::istringstream& words) {
    const auto count = static_cast<size_t>(parseNumber(words));
    const int64_t window_ms = parseNumber(words);
    const int64_t deadline_ns = nowNs() + parseNumber(words) * kMilli;
    return {{"reached", recorder_.awaitAcknowledged(count, window_ms * kMilli, deadline_ns)}};
  }

  Json awaitMore(std::istringstream& words) {
    const auto count = static_cast<size_t>(parseNumber(words));
    return {{"reached", recorder_.awaitMore(count, nowNs() + parseNumber(words) * kMilli)}};
  }

  Json awaitAnswers(std::istringstream& words) {
    const int64_t since_ns = parseNumber(words);
    const int64_t deadline_ns = nowNs() + parseNumber(words) * kMilli;
    return {{"silent_ranges", recorder_.awaitAnswers(since_ns, parseRanges(words), deadline_ns)}};
  }

  Json gap(std::istringstream& words) {
    const int64_t since_ns = parseNumber(words);
    const Recorder::Gap gap = recorder_.gap(since_ns, parseRanges(words));
    return {{"keys", gap.keys}, {"outage_ms", millis(gap.outage_ns)}, {"slowest_ms", millis(gap.slowest_ns)}};
  }

  Json failures(std::istringstream& words) {
    const int64_t since_ns = parseNumber(words);
    const Recorder::Failures failures = recorder_.failures(since_ns);
    return {{"count", failures.count},
            {"last_after_ms", failures.count == 0 ? 0 : millis(failures.last_ns - since_ns)},
            {"last", failures.last}};
  }

  Json verify(std::istringstream& words) {
    const std::chrono::milliseconds timeout(parseNumber(words));
    workload_.pause();
    std::vector<std::string> violations = workload_.readAll(timeout);
    Recorder::Verdict verdict = recorder_.check();
    violations.insert(violations.end(), verdict.violations.begin(), verdict.violations.end());
    return {{"keys", recorder_.keys().size()},
            {"calls", verdict.calls},
            {"unanswered", verdict.unanswered},
            {"violations", violations}};
  }

  Workload& workload_;
  Recorder& recorder_;
};

// Judges journals. 0: nothing is wrong with them.
int checkJournals(const std::vector<std::string>& paths) {
  size_t wrong = 0;
  for (const std::string& path : paths) {
    size_t calls_count = 0;
    size_t violations = 0;
    const auto calls_by_key = Journal::load(path);
    for (const auto& [key, calls] : calls_by_key) {
      calls_count += calls.size();
      for (const std::string& violation : checkKey(calls)) {
        std::printf("%s: %s\n", path.c_str(), violation.c_str());
        ++violations;
      }
    }
    std::printf("%s: %zu calls of %zu keys, %zu violations\n", path.c_str(), calls_count, calls_by_key.size(),
                violations);
    wrong += violations;
  }
  return wrong == 0 ? 0 : 1;
}

int serve(const WorkloadSettings& settings) {
  Workload workload(settings);
  Commands commands(workload);
  std::cout << Json{{"keys", workload.recorder().keys().size()}}.dump() << std::endl;
  std::string line;
  while (std::getline(std::cin, line) && line != "stop") {
    try {
      std::cout << commands.carryOut(line).dump() << std::endl;
    } catch (const std::exception& problem) {
      std::cerr << problem.what() << std::endl;
      return 2;
    }
  }
  return 0;
}

int main(int argc, char** argv) {
  WorkloadSettings settings;
  std::vector<std::string> journals;
  ramcore::tools::CommandLine app("Calls a cluster, notes every call and judges the answers; commands on stdin",
                                  "durability_oracle");
  app.addOption("--coordinator", settings.coordinators, "Locators of the coordinator");
  app.addOption("--cluster", settings.cluster, "Name of the cluster");
  app.addOption("--secret-file", settings.secret_file, "File with the cluster's secret");
  app.addOption("--dpdk-port", settings.dpdk.ports, "Ports of DPDK; with --clients 1").oneValueEach();
  app.addOption("--dpdk-address", settings.dpdk.address, "Ethernet address of these ports");
  app.addOption("--dpdk-faults", settings.dpdk.faults, "What is done to frames that arrive");
  app.addOption("--table", settings.table, "Table that is created");
  app.addOption("--tablets", settings.tablets, "Tablets of the table; 0: one per server");
  app.addOption("--workers", settings.workers, "Callers at a time").inRange(1, 256);
  app.addOption("--clients", settings.clients, "Clients that they share").inRange(1, 256);
  app.addOption("--registers", settings.registers, "Keys to write, remove and read");
  app.addOption("--counters", settings.counters, "Keys to increment and read");
  app.addOption("--rate", settings.rate, "Calls per second").inRange(1, 1'000'000);
  app.addOption("--timeout-ms", settings.timeout_ms, "Of a call; one in fifty has a hundredth of it");
  app.addOption("--seed", settings.seed, "Of the choice of calls");
  app.addOption("--journal", settings.journal, "File of all calls");
  app.addOption("--check", journals, "Only judge these journals");
  int exit_code = 0;
  if (!app.parseOrPrint(argc, argv, exit_code)) return exit_code;
  if (!journals.empty()) return checkJournals(journals);
  return serve(settings);
}

}  // namespace
}  // namespace durability

int main(int argc, char** argv) { return durability::main(argc, argv); }
