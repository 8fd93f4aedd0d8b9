// The checkers on histories written by hand: right ones pass, and each kind of wrong one is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/checkers/exactly_once.h"
#include "sim/checkers/history.h"
#include "sim/checkers/linearizability.h"
#include "sim/checkers/scan_checker.h"

namespace ramcore::sim {
namespace {

using Kind = OperationKind;

constexpr HistoryKey kKey = 7;
constexpr uint64_t kMillisecondNs = 1'000'000;

/// Operations with the times of their events spelt out; times are the order, too.
class Script {
 public:
  Script& write(uint64_t from, uint64_t to, uint64_t value, uint64_t version) {
    return add(from, to, {.kind = Kind::Write, .argument = {value, false}, .outcome = Outcome::Ok, .version = version});
  }
  Script& openWrite(uint64_t from, uint64_t value) {
    return add(from, kNeverReturned, {.kind = Kind::Write, .argument = {value, false}});
  }
  Script& writeIf(uint64_t from, uint64_t to, Condition condition, uint64_t value, Outcome outcome, uint64_t version) {
    return add(from, to,
               {.kind = Kind::Write,
                .condition = condition,
                .argument = {value, false},
                .outcome = outcome,
                .version = version});
  }
  Script& read(uint64_t from, uint64_t to, uint64_t value, uint64_t version) {
    return add(from, to, {.kind = Kind::Read, .outcome = Outcome::Ok, .result = {value, false}, .version = version});
  }
  Script& readInteger(uint64_t from, uint64_t to, uint64_t value, uint64_t version) {
    return add(from, to, {.kind = Kind::Read, .outcome = Outcome::Ok, .result = {value, true}, .version = version});
  }
  Script& readNothing(uint64_t from, uint64_t to) {
    return add(from, to, {.kind = Kind::Read, .outcome = Outcome::NotFound});
  }
  Script& remove(uint64_t from, uint64_t to, uint64_t version) {
    return add(from, to, {.kind = Kind::Remove, .outcome = Outcome::Ok, .version = version});
  }
  Script& removeNothing(uint64_t from, uint64_t to) {
    return add(from, to, {.kind = Kind::Remove, .outcome = Outcome::NotFound});
  }
  Script& openRemove(uint64_t from) { return add(from, kNeverReturned, {.kind = Kind::Remove}); }
  Script& increment(uint64_t from, uint64_t to, uint64_t delta, uint64_t sum, uint64_t version) {
    return add(
        from, to,
        {.kind = Kind::Increment, .delta = delta, .outcome = Outcome::Ok, .result = {sum, true}, .version = version});
  }
  Script& openIncrement(uint64_t from, uint64_t delta) {
    return add(from, kNeverReturned, {.kind = Kind::Increment, .delta = delta});
  }
  Script& incrementRefused(uint64_t from, uint64_t to, uint64_t delta) {
    return add(from, to, {.kind = Kind::Increment, .delta = delta, .outcome = Outcome::TypeMismatch});
  }
  /// The next operations are on this key.
  Script& onKey(HistoryKey key) {
    key_ = key;
    return *this;
  }

  const History& history() const { return history_; }
  History& history() { return history_; }
  Verdict verdict() const {
    const LinearizabilityReport report = checkLinearizability(history_);
    return report.isOk() ? Verdict::Linearizable : report.failures.front().verdict;
  }
  std::vector<std::string> exactlyOnce(const std::vector<FinalObject>& final_objects = {}) const {
    return checkExactlyOnce(history_, final_objects);
  }

 private:
  Script& add(uint64_t from, uint64_t to, Operation operation) {
    operation.process = ++process_;
    operation.key = key_;
    operation.invoke_order = from;
    operation.return_order = to;
    operation.invoke_time_ns = from * kMillisecondNs;
    operation.return_time_ns = to == kNeverReturned ? 0 : to * kMillisecondNs;
    history_.add(operation);
    return *this;
  }

  History history_;
  HistoryKey key_ = kKey;
  uint32_t process_ = 0;
};

constexpr Condition ifVersion(uint64_t version) { return {ConditionKind::VersionEquals, version}; }
constexpr Condition ifNotGreater(uint64_t version) { return {ConditionKind::VersionNotGreater, version}; }
constexpr Condition kIfExists{ConditionKind::MustExist, 0};
constexpr Condition kIfAbsent{ConditionKind::MustNotExist, 0};

bool mentions(const std::vector<std::string>& violations, const std::string& words) {
  return std::any_of(violations.begin(), violations.end(),
                     [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

// --- Histories that are right -------------------------------------------------------------------------------------

TEST(Linearizability, AcceptsNothing) { EXPECT_EQ(Script().verdict(), Verdict::Linearizable); }

TEST(Linearizability, AcceptsOneClientDoingEverything) {
  const Script script = Script()
                            .readNothing(1, 2)
                            .write(3, 4, 100, 5)
                            .read(5, 6, 100, 5)
                            .writeIf(7, 8, ifVersion(5), 101, Outcome::Ok, 6)
                            .writeIf(9, 10, ifVersion(5), 102, Outcome::WrongVersion, 6)
                            .writeIf(11, 12, ifNotGreater(9), 103, Outcome::Ok, 7)
                            .writeIf(13, 14, ifNotGreater(6), 104, Outcome::WrongVersion, 7)
                            .writeIf(15, 16, kIfAbsent, 105, Outcome::ObjectExists, 7)
                            .incrementRefused(17, 18, 1)
                            .remove(19, 20, 7)
                            .removeNothing(21, 22)
                            .writeIf(23, 24, kIfExists, 106, Outcome::NotFound, 0)
                            .increment(25, 26, 3, 3, 9)
                            .increment(27, 28, ~uint64_t{0}, 2, 10)
                            .readInteger(29, 30, 2, 10);
  EXPECT_EQ(script.verdict(), Verdict::Linearizable);
  EXPECT_TRUE(script.exactlyOnce().empty());
}

TEST(Linearizability, AcceptsAReadOfAConcurrentWriteBeforeItReturns) {
  EXPECT_EQ(Script().write(1, 2, 100, 1).write(3, 10, 101, 2).read(4, 5, 101, 2).read(6, 7, 101, 2).verdict(),
            Verdict::Linearizable);
  EXPECT_EQ(Script().write(1, 2, 100, 1).write(3, 10, 101, 2).read(4, 5, 100, 1).read(6, 7, 101, 2).verdict(),
            Verdict::Linearizable);
}

TEST(Linearizability, AcceptsConcurrentWritesInEitherOrderOfVersions) {
  EXPECT_EQ(Script().write(1, 10, 100, 8).write(2, 9, 101, 4).read(11, 12, 100, 8).verdict(), Verdict::Linearizable);
}

TEST(Linearizability, AcceptsAnUnknownWriteThatNeverHappened) {
  EXPECT_EQ(Script().write(1, 2, 100, 1).openWrite(3, 101).read(4, 5, 100, 1).verdict(), Verdict::Linearizable);
}

TEST(Linearizability, AcceptsAnUnknownWriteThatHappensMuchLater) {
  const Script script =
      Script().write(1, 2, 100, 1).openWrite(3, 101).read(4, 5, 100, 1).write(6, 7, 102, 2).read(8, 9, 101, 3);
  EXPECT_EQ(script.verdict(), Verdict::Linearizable);
  EXPECT_TRUE(script.exactlyOnce().empty());
}

TEST(Linearizability, AcceptsUnknownCallsThatShowOnlyInVersionsAndExistence) {
  EXPECT_EQ(Script().openWrite(1, 100).remove(2, 3, 4).verdict(), Verdict::Linearizable);
  EXPECT_EQ(Script().openWrite(1, 100).writeIf(2, 3, kIfAbsent, 101, Outcome::ObjectExists, 0).verdict(),
            Verdict::Linearizable);
  EXPECT_EQ(Script().write(1, 2, 100, 1).openRemove(3).removeNothing(4, 5).verdict(), Verdict::Linearizable);
  EXPECT_EQ(Script().write(1, 2, 100, 1).openWrite(3, 101).incrementRefused(4, 5, 1).remove(6, 7, 2).verdict(),
            Verdict::Linearizable);
}

TEST(Linearizability, AcceptsUnknownIncrementsInAnyNumber) {
  for (uint64_t sum = 1; sum <= 4; ++sum) {
    EXPECT_EQ(Script()
                  .increment(1, 2, 1, 1, 1)
                  .openIncrement(3, 1)
                  .openIncrement(4, 1)
                  .openIncrement(5, 1)
                  .readInteger(6, 7, sum, sum)
                  .verdict(),
              Verdict::Linearizable)
        << sum;
  }
}

TEST(Linearizability, AcceptsConditionsOnAbsenceAsVersionZero) {
  EXPECT_EQ(Script().writeIf(1, 2, ifNotGreater(5), 100, Outcome::Ok, 1).verdict(), Verdict::Linearizable);
  EXPECT_EQ(Script().writeIf(1, 2, ifVersion(5), 100, Outcome::WrongVersion, 0).verdict(), Verdict::Linearizable);
  EXPECT_EQ(Script().writeIf(1, 2, ifVersion(5), 100, Outcome::NotFound, 0).verdict(), Verdict::Linearizable);
}

TEST(Linearizability, IgnoresCallsThatSurelyDidNotRun) {
  Script script;
  script.write(1, 2, 100, 1).read(5, 6, 100, 1);
  script.history().add({.key = kKey,
                        .kind = Kind::Write,
                        .argument = {101, false},
                        .outcome = Outcome::NotRun,
                        .invoke_order = 3,
                        .return_order = 4});
  EXPECT_EQ(script.verdict(), Verdict::Linearizable);
}

TEST(Linearizability, KeysAreIndependent) {
  EXPECT_EQ(Script().onKey(1).write(1, 2, 100, 9).onKey(2).write(3, 4, 101, 3).readNothing(0, 1).verdict(),
            Verdict::Linearizable);
}

// --- Histories that are wrong -------------------------------------------------------------------------------------

TEST(Linearizability, RefusesAStaleRead) {
  EXPECT_EQ(Script().write(1, 2, 100, 1).write(3, 4, 101, 2).read(5, 6, 100, 1).verdict(), Verdict::Violation);
}

TEST(Linearizability, RefusesReadsThatGoBackDuringOneWrite) {
  EXPECT_EQ(Script().write(1, 2, 100, 1).write(3, 10, 101, 2).read(4, 5, 101, 2).read(6, 7, 100, 1).verdict(),
            Verdict::Violation);
}

TEST(Linearizability, RefusesALostWrite) {
  EXPECT_EQ(Script().write(1, 2, 100, 1).readNothing(3, 4).verdict(), Verdict::Violation);
  EXPECT_EQ(Script().write(1, 2, 100, 1).write(3, 4, 101, 2).read(5, 6, 100, 1).read(7, 8, 100, 1).verdict(),
            Verdict::Violation);
}

TEST(Linearizability, RefusesALostIncrement) {
  EXPECT_EQ(Script().increment(1, 2, 1, 1, 1).increment(3, 4, 1, 1, 2).verdict(), Verdict::Violation);
}

TEST(Linearizability, RefusesADoubleIncrement) {
  EXPECT_EQ(Script().increment(1, 2, 1, 1, 1).readInteger(3, 4, 2, 2).verdict(), Verdict::Violation);
  EXPECT_EQ(Script().increment(1, 2, 1, 1, 1).openIncrement(3, 1).readInteger(4, 5, 3, 3).verdict(),
            Verdict::Violation);
}

TEST(Linearizability, RefusesAWriteThatRanTwice) {
  EXPECT_EQ(Script().write(1, 2, 100, 1).write(3, 4, 101, 2).read(5, 6, 100, 3).verdict(), Verdict::Violation);
  EXPECT_EQ(Script().openWrite(1, 100).read(2, 3, 100, 1).write(4, 5, 101, 2).read(6, 7, 100, 3).verdict(),
            Verdict::Violation);
}

TEST(Linearizability, RefusesAValueFromNowhere) {
  EXPECT_EQ(Script().write(1, 2, 100, 1).read(3, 4, 555, 1).verdict(), Verdict::Violation);
  EXPECT_EQ(Script().read(3, 4, 555, 1).verdict(), Verdict::Violation);
}

TEST(Linearizability, RefusesAReadOfTheFuture) {
  EXPECT_EQ(Script().read(1, 2, 100, 1).write(3, 4, 100, 1).verdict(), Verdict::Violation);
  EXPECT_EQ(Script().read(1, 2, 100, 1).openWrite(3, 100).verdict(), Verdict::Violation);
}

TEST(Linearizability, RefusesAVersionThatGoesBack) {
  EXPECT_EQ(Script().write(1, 2, 100, 5).write(3, 4, 101, 4).verdict(), Verdict::Violation);
  EXPECT_EQ(Script().write(1, 2, 100, 5).write(3, 4, 101, 5).verdict(), Verdict::Violation);
  EXPECT_EQ(Script().write(1, 2, 100, 5).remove(3, 4, 5).write(5, 6, 101, 5).verdict(), Verdict::Violation);
  EXPECT_EQ(Script().write(1, 2, 100, 5).remove(3, 4, 5).increment(5, 6, 1, 1, 2).verdict(), Verdict::Violation);
}

TEST(Linearizability, RefusesAnObjectThatCameBackAfterARemove) {
  EXPECT_EQ(Script().write(1, 2, 100, 1).remove(3, 4, 1).read(5, 6, 100, 1).verdict(), Verdict::Violation);
  EXPECT_EQ(Script().write(1, 2, 100, 1).removeNothing(3, 4).verdict(), Verdict::Violation);
  EXPECT_EQ(Script().write(1, 2, 100, 1).remove(3, 4, 1).remove(5, 6, 1).verdict(), Verdict::Violation);
}

TEST(Linearizability, RefusesAConditionalWriteThatSucceededWrongly) {
  EXPECT_EQ(Script().write(1, 2, 100, 5).writeIf(3, 4, ifVersion(4), 101, Outcome::Ok, 6).verdict(),
            Verdict::Violation);
  EXPECT_EQ(Script().write(1, 2, 100, 5).writeIf(3, 4, ifNotGreater(4), 101, Outcome::Ok, 6).verdict(),
            Verdict::Violation);
  EXPECT_EQ(Script().write(1, 2, 100, 5).writeIf(3, 4, kIfAbsent, 101, Outcome::Ok, 6).verdict(), Verdict::Violation);
  EXPECT_EQ(Script().writeIf(3, 4, kIfExists, 101, Outcome::Ok, 6).verdict(), Verdict::Violation);
}

TEST(Linearizability, RefusesAConditionalWriteThatWasRefusedWrongly) {
  EXPECT_EQ(Script().write(1, 2, 100, 5).writeIf(3, 4, ifVersion(5), 101, Outcome::WrongVersion, 5).verdict(),
            Verdict::Violation);
  EXPECT_EQ(Script().write(1, 2, 100, 5).writeIf(3, 4, ifVersion(5), 101, Outcome::WrongVersion, 0).verdict(),
            Verdict::Violation);
  EXPECT_EQ(Script().write(1, 2, 100, 5).writeIf(3, 4, ifVersion(4), 101, Outcome::WrongVersion, 6).verdict(),
            Verdict::Violation);
  EXPECT_EQ(Script().writeIf(3, 4, kIfAbsent, 101, Outcome::ObjectExists, 0).verdict(), Verdict::Violation);
  EXPECT_EQ(Script().write(1, 2, 100, 5).writeIf(3, 4, kIfExists, 101, Outcome::NotFound, 0).verdict(),
            Verdict::Violation);
}

TEST(Linearizability, RefusesARefusedWriteThatHappenedAllTheSame) {
  EXPECT_EQ(Script()
                .write(1, 2, 100, 5)
                .writeIf(3, 4, ifVersion(4), 101, Outcome::WrongVersion, 5)
                .read(5, 6, 101, 6)
                .verdict(),
            Verdict::Violation);
}

TEST(Linearizability, RefusesWrongAnswersOfIncrements) {
  EXPECT_EQ(Script().incrementRefused(1, 2, 1).verdict(), Verdict::Violation);
  EXPECT_EQ(Script().increment(1, 2, 1, 1, 1).incrementRefused(3, 4, 1).verdict(), Verdict::Violation);
  EXPECT_EQ(Script().write(1, 2, 100, 1).increment(3, 4, 1, 101, 2).verdict(), Verdict::Violation);
}

TEST(Linearizability, RefusesARemoveThatNamesTheWrongVersion) {
  EXPECT_EQ(Script().write(1, 2, 100, 5).remove(3, 4, 4).verdict(), Verdict::Violation);
  EXPECT_EQ(Script().write(1, 2, 100, 5).remove(3, 4, 6).verdict(), Verdict::Violation);
}

TEST(Linearizability, ExplainsTheShortestFailure) {
  const Script script = Script()
                            .write(1, 2, 100, 1)
                            .write(3, 4, 101, 2)
                            .read(5, 6, 101, 2)
                            .read(7, 8, 100, 1)
                            .write(9, 10, 102, 3)
                            .read(11, 12, 555, 9);
  const LinearizabilityReport report = checkLinearizability(script.history());
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_EQ(report.failures[0].key, kKey);
  const std::string text = report.text();
  // The first wrong answer is the one of the fourth operation; what came later is not shown.
  EXPECT_NE(text.find("first answer that fits no order:\n    [7.000 ms .. 8.000 ms] client 4: read()"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("client 5"), std::string::npos) << text;
  EXPECT_NE(text.find("  > [7.000 ms"), std::string::npos) << text;
}

TEST(Linearizability, GivingUpIsAFailureOfItsOwn) {
  Script script;
  for (uint64_t i = 0; i < 24; ++i) script.openIncrement(1 + i, uint64_t{1} << i);
  script.readInteger(40, 41, uint64_t{1} << 30, 50);
  LinearizabilityOptions options;
  options.steps_max_per_key = 2000;
  const LinearizabilityReport report = checkLinearizability(script.history(), options);
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_EQ(report.failures[0].verdict, Verdict::GaveUp);
  EXPECT_NE(report.text().find("gave up after 2000 steps"), std::string::npos) << report.text();
}

// Many calls without an answer are the rule when servers crash; they must not make the search explode.
TEST(Linearizability, ManyUnknownCallsOnOneKeyStayCheap) {
  Script script;
  uint64_t time = 0;
  for (uint64_t i = 0; i < 60; ++i) {
    script.openWrite(++time, 1000 + i).openRemove(++time).openIncrement(++time, 1);
    script.write(time + 1, time + 2, 5000 + i, 10 * (i + 1)).read(time + 3, time + 4, 5000 + i, 10 * (i + 1));
    time += 4;
  }
  script.read(time + 1, time + 2, 1003, 10'000);
  const LinearizabilityReport good = checkLinearizability(script.history());
  EXPECT_TRUE(good.isOk()) << good.text();
  EXPECT_LT(good.step_count, 5000u);
  script.read(time + 3, time + 4, 5003, 40);
  EXPECT_EQ(script.verdict(), Verdict::Violation);
}

// --- Exactly once -------------------------------------------------------------------------------------------------

TEST(ExactlyOnce, AcceptsSumsBetweenAcknowledgedAndPossible) {
  const Script script = Script().increment(1, 2, 2, 2, 1).openIncrement(3, 5).readInteger(4, 5, 7, 2);
  EXPECT_TRUE(script.exactlyOnce({{kKey, true, {2, true}, 1}}).empty());
  EXPECT_TRUE(script.exactlyOnce({{kKey, true, {7, true}, 2}}).empty());
}

TEST(ExactlyOnce, RefusesADoubleIncrement) {
  const Script script = Script().increment(1, 2, 2, 2, 1).openIncrement(3, 5);
  EXPECT_TRUE(mentions(script.exactlyOnce({{kKey, true, {9, true}, 3}}), "an increment ran twice"));
  EXPECT_TRUE(
      mentions(Script().increment(1, 2, 1, 1, 1).readInteger(3, 4, 2, 2).exactlyOnce(), "an increment ran twice"));
}

TEST(ExactlyOnce, RefusesALostIncrement) {
  const Script script = Script().increment(1, 2, 2, 2, 1).increment(3, 4, 2, 4, 2);
  EXPECT_TRUE(mentions(script.exactlyOnce({{kKey, true, {2, true}, 1}}), "an increment was lost"));
  EXPECT_TRUE(mentions(script.exactlyOnce({{kKey, false, {}, 0}}), "is gone at the end"));
}

TEST(ExactlyOnce, CountsDecrementsOnTheRightSide) {
  const Script script = Script().increment(1, 2, 10, 10, 1).openIncrement(3, static_cast<uint64_t>(-4));
  EXPECT_TRUE(script.exactlyOnce({{kKey, true, {6, true}, 2}}).empty());
  EXPECT_TRUE(mentions(script.exactlyOnce({{kKey, true, {2, true}, 3}}), "an increment was lost"));
}

TEST(ExactlyOnce, RefusesAValueFromNowhere) {
  EXPECT_TRUE(mentions(Script().write(1, 2, 100, 1).read(3, 4, 555, 1).exactlyOnce(), "nobody wrote it"));
  EXPECT_TRUE(mentions(Script().onKey(1).write(1, 2, 100, 1).onKey(2).read(3, 4, 100, 1).exactlyOnce(),
                       "it was written to key 1"));
  EXPECT_TRUE(mentions(Script().read(1, 2, 100, 1).write(3, 4, 100, 1).exactlyOnce(), "before it was written"));
  EXPECT_TRUE(mentions(Script().write(1, 2, 100, 1).exactlyOnce({{99, true, {100, false}, 1}}), "from nowhere"));
  EXPECT_TRUE(mentions(Script().readInteger(1, 2, 3, 1).exactlyOnce(), "from nowhere"));
}

TEST(ExactlyOnce, RefusesTheValueOfARefusedWrite) {
  EXPECT_TRUE(mentions(Script()
                           .write(1, 2, 100, 5)
                           .writeIf(3, 4, ifVersion(4), 101, Outcome::WrongVersion, 5)
                           .read(5, 6, 101, 6)
                           .exactlyOnce(),
                       "value of a write that was refused"));
}

TEST(ExactlyOnce, RefusesAWriteThatRanTwice) {
  const Script script = Script().write(1, 2, 100, 1).write(3, 4, 101, 2);
  EXPECT_TRUE(script.exactlyOnce({{kKey, true, {101, false}, 2}}).empty());
  EXPECT_TRUE(mentions(script.exactlyOnce({{kKey, true, {100, false}, 3}}), "a write ran twice"));
}

TEST(ExactlyOnce, RefusesAVersionGivenTwice) {
  EXPECT_TRUE(
      mentions(Script().write(1, 2, 100, 1).write(3, 4, 101, 1).exactlyOnce(), "two calls were given one version"));
  EXPECT_TRUE(mentions(Script().write(1, 2, 100, 1).openWrite(3, 101).read(4, 5, 101, 1).exactlyOnce(),
                       "one version has two values"));
}

// --- Scans --------------------------------------------------------------------------------------------------------

ScannedObject object(HistoryKey key, uint64_t value, uint64_t version, uint64_t from, uint64_t to) {
  return {.key = key, .value = {value, false}, .version = version, .invoke_order = from, .return_order = to};
}

ScanRecord scan(uint64_t from, uint64_t to, std::vector<ScannedObject> objects) {
  ScanRecord record;
  record.invoke_order = from;
  record.return_order = to;
  record.is_complete = true;
  record.objects = std::move(objects);
  return record;
}

/// The scan's own checks and, with its reads added, the linearizability checker must agree that all is well.
void expectGood(const Script& script, const ScanRecord& record, const std::vector<HistoryKey>& keys) {
  const std::vector<std::string> violations = checkScan(script.history(), record, keys);
  EXPECT_TRUE(violations.empty()) << violations.front();
  History history = script.history();
  addScanReads(record, keys, history);
  const LinearizabilityReport report = checkLinearizability(history);
  EXPECT_TRUE(report.isOk()) << report.text();
}

void expectBad(const Script& script, const ScanRecord& record, const std::vector<HistoryKey>& keys,
               const std::string& words) {
  EXPECT_TRUE(mentions(checkScan(script.history(), record, keys), words)) << words;
}

Verdict verdictWithScan(const Script& script, const ScanRecord& record, const std::vector<HistoryKey>& keys) {
  Script with_scan = script;
  addScanReads(record, keys, with_scan.history());
  return with_scan.verdict();
}

TEST(Scan, AcceptsKeysThatComeAndGo) {
  const Script script = Script()
                            .onKey(1)
                            .write(1, 2, 100, 1)
                            .onKey(2)
                            .write(1, 2, 200, 1)
                            .remove(12, 13, 1)
                            .onKey(3)
                            .write(14, 15, 300, 1)
                            .onKey(4)
                            .write(1, 2, 400, 1)
                            .remove(3, 4, 1)
                            .onKey(5)
                            .openWrite(3, 500)
                            .onKey(6)
                            .write(1, 2, 600, 1)
                            .openRemove(5);
  const std::vector<HistoryKey> keys = {1, 2, 3, 4, 5, 6};
  expectGood(script, scan(10, 20, {object(1, 100, 1, 10, 19)}), keys);
  expectGood(script,
             scan(10, 20,
                  {object(1, 100, 1, 10, 19), object(2, 200, 1, 10, 19), object(3, 300, 1, 10, 19),
                   object(5, 500, 1, 10, 19), object(6, 600, 1, 10, 19)}),
             keys);
}

TEST(Scan, AcceptsTheOldAndTheNewValueOfAConcurrentWrite) {
  const Script script = Script().onKey(1).write(1, 2, 100, 1).write(12, 14, 101, 2);
  expectGood(script, scan(10, 20, {object(1, 100, 1, 10, 19)}), {1});
  expectGood(script, scan(10, 20, {object(1, 101, 2, 10, 19)}), {1});
}

TEST(Scan, RefusesDuplicates) {
  const Script script = Script().onKey(1).write(1, 2, 100, 1);
  expectBad(script, scan(10, 20, {object(1, 100, 1, 10, 12), object(1, 100, 1, 13, 19)}), {1}, "a key twice");
}

TEST(Scan, RefusesAMissedKey) {
  const Script script = Script().onKey(1).write(1, 2, 100, 1).write(12, 13, 101, 2);
  expectBad(script, scan(10, 20, {}), {1}, "missed key 1");
  EXPECT_EQ(verdictWithScan(script, scan(10, 20, {}), {1}), Verdict::Violation);
  // Removed long ago and written again: the old remove is no excuse.
  const Script again = Script().onKey(1).write(1, 2, 100, 1).remove(3, 4, 1).write(5, 6, 101, 2);
  expectBad(again, scan(10, 20, {}), {1}, "missed key 1");
  ScanRecord unfinished = scan(10, 20, {});
  unfinished.is_complete = false;
  expectGood(again, unfinished, {1});
}

TEST(Scan, RefusesAnObjectThatWasAbsentAllTheTime) {
  const Script removed = Script().onKey(1).write(1, 2, 100, 1).remove(3, 4, 1);
  const ScanRecord record = scan(10, 20, {object(1, 100, 1, 10, 19)});
  expectBad(removed, record, {1}, "absent all the time");
  EXPECT_EQ(verdictWithScan(removed, record, {1}), Verdict::Violation);
  expectBad(Script().onKey(1).write(21, 22, 100, 1), record, {1}, "absent all the time");
  expectBad(Script(), record, {2}, "from nowhere");
}

TEST(Scan, RefusesAValueThatWasNotCurrent) {
  const Script script = Script().onKey(1).write(1, 2, 100, 1).write(3, 4, 101, 2).write(21, 22, 102, 3);
  expectBad(script, scan(10, 20, {object(1, 100, 1, 10, 19)}), {1}, "not current");
  expectBad(script, scan(10, 20, {object(1, 102, 3, 10, 19)}), {1}, "not current");
  // Replaced during the scan, but before the page was asked for.
  const Script during = Script().onKey(1).write(1, 2, 100, 1).write(11, 12, 101, 2);
  expectBad(during, scan(10, 20, {object(1, 100, 1, 15, 16)}), {1}, "not current");
  EXPECT_EQ(verdictWithScan(during, scan(10, 20, {object(1, 100, 1, 15, 16)}), {1}), Verdict::Violation);
}

}  // namespace
}  // namespace ramcore::sim
