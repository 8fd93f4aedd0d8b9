// The checkers on random histories: those of a store that is atomic by construction pass, the same with one answer
// changed do not, and the search agrees with plain trial of every order.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "sim/checkers/exactly_once.h"
#include "sim/checkers/key_search.h"
#include "sim/checkers/linearizability.h"
#include "sim/checkers/register_model.h"
#include "sim/workload/atomic_store.h"
#include "sim/workload/generator.h"
#include "sim/workload/prng.h"
#include "sim/workload/values.h"

namespace ramcore::sim {
namespace {

constexpr uint64_t kSeeds = 60;

/// The same history but for one operation.
History copyWith(const History& history, size_t index, const Operation& changed) {
  History copy;
  for (size_t i = 0; i < history.operations().size(); ++i) {
    copy.add(i == index ? changed : history.operations()[i]);
  }
  return copy;
}

bool isRefused(const History& history) {
  LinearizabilityOptions options;
  options.explained_failures_max = 0;
  return !checkLinearizability(history, options).isOk();
}

TEST(RandomHistory, AtomicHistoriesAreAccepted) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    AtomicRunOptions options;
    options.workload.client_count = static_cast<uint32_t>(8 + seed % 9);
    options.unknown_permille = static_cast<uint32_t>(seed % 5 * 15);
    const AtomicRun run = runAtomically(options, seed);
    const LinearizabilityReport report = checkLinearizability(run.history);
    ASSERT_TRUE(report.isOk()) << "seed " << seed << '\n' << report.text();
    const std::vector<std::string> violations = checkExactlyOnce(run.history, run.final_objects);
    ASSERT_TRUE(violations.empty()) << "seed " << seed << '\n' << violations.front();
    ASSERT_TRUE(run.scan_violations.empty()) << "seed " << seed << '\n' << run.scan_violations.front();
    ASSERT_GE(report.operation_count, options.operation_count * 9 / 10);
  }
}

TEST(RandomHistory, EveryKindOfCallAndOutcomeOccurs) {
  std::vector<uint64_t> kinds(5);
  std::vector<uint64_t> outcomes(6);
  std::vector<uint64_t> refused_conditions(5);
  const AtomicRun run = runAtomically(AtomicRunOptions{}, 1);
  for (const Operation& operation : run.history.operations()) {
    ++kinds[static_cast<size_t>(operation.kind)];
    ++outcomes[static_cast<size_t>(operation.outcome)];
    const bool is_refusal = operation.isSettled() && operation.outcome != Outcome::Ok;
    if (is_refusal) ++refused_conditions[static_cast<size_t>(operation.condition.kind)];
  }
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), 0u), 0);
  EXPECT_EQ(std::count(outcomes.begin(), outcomes.end(), 0u), 0);
  EXPECT_EQ(std::count(refused_conditions.begin(), refused_conditions.end(), 0u), 0);
}

// --- One answer changed ---------------------------------------------------------------------------------------------

struct Tally {
  uint64_t tried = 0;
  uint64_t refused = 0;
};

/// Changes up to `changes_max` answers, one at a time, each in a fresh copy. `change` returns false to skip.
template <typename Change>
Tally changeAnswers(uint64_t seed, uint32_t unknown_permille, uint32_t changes_max, Change change) {
  AtomicRunOptions options;
  options.unknown_permille = unknown_permille;
  options.operation_count = 800;
  const AtomicRun run = runAtomically(options, seed);
  Prng random(seed, 99);
  Tally tally;
  for (uint32_t attempt = 0; attempt < 50 * changes_max && tally.tried < changes_max; ++attempt) {
    const size_t index = random.below(run.history.operations().size());
    Operation changed = run.history.operations()[index];
    if (!change(run.history, changed)) continue;
    ++tally.tried;
    if (isRefused(copyWith(run.history, index, changed))) ++tally.refused;
  }
  return tally;
}

/// Over several seeds; every change has to be refused.
template <typename Change>
void expectAllRefused(uint32_t unknown_permille, Change change) {
  uint64_t tried = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Tally tally = changeAnswers(seed, unknown_permille, 20, change);
    EXPECT_EQ(tally.refused, tally.tried) << "seed " << seed;
    tried += tally.tried;
  }
  EXPECT_GE(tried, 50u);
}

bool isGoodRead(const Operation& operation) { return operation.isRead() && operation.outcome == Outcome::Ok; }

TEST(ChangedHistory, AValueFromNowhereIsRefused) {
  expectAllRefused(30, [](const History&, Operation& operation) {
    operation.result.bits += 0x1234'5678'9abc;
    return isGoodRead(operation);
  });
}

TEST(ChangedHistory, AReadAtAnotherVersionIsRefused) {
  expectAllRefused(0, [](const History&, Operation& operation) {
    operation.version += 1'000'000;
    return isGoodRead(operation);
  });
}

TEST(ChangedHistory, AStaleReadIsRefused) {
  expectAllRefused(30, [](const History& history, Operation& read) {
    if (!isGoodRead(read)) return false;
    // Some earlier write of the key, replaced before the read began: the current version was created after it.
    for (const Operation& old : history.operations()) {
      if (old.key != read.key || old.kind != OperationKind::Write || !old.created()) continue;
      const bool is_replaced =
          std::any_of(history.operations().begin(), history.operations().end(), [&](const Operation& other) {
            return other.key == read.key && other.created() && other.version > old.version &&
                   other.end() < read.invoke_order;
          });
      if (!is_replaced) continue;
      read.result = old.argument;
      read.version = old.version;
      return true;
    }
    return false;
  });
}

TEST(ChangedHistory, AnObjectThatVanishesIsRefused) {
  expectAllRefused(30, [](const History& history, Operation& read) {
    if (!isGoodRead(read)) return false;
    bool was_there = false;
    bool may_be_removed = false;
    for (const Operation& other : history.operations()) {
      if (other.key != read.key) continue;
      was_there = was_there || (other.created() && other.end() < read.invoke_order);
      may_be_removed = may_be_removed || (other.kind == OperationKind::Remove && other.outcome != Outcome::NotFound &&
                                          other.outcome != Outcome::WrongVersion);
    }
    read.outcome = Outcome::NotFound;
    read.result = {};
    read.version = 0;
    return was_there && !may_be_removed;
  });
}

TEST(ChangedHistory, AWriteThatLeftNoTraceIsRefused) {
  expectAllRefused(30, [](const History& history, Operation& write) {
    const bool is_seen =
        std::any_of(history.operations().begin(), history.operations().end(), [&](const Operation& read) {
          return isGoodRead(read) && read.key == write.key && read.result == write.argument;
        });
    const bool is_write = write.kind == OperationKind::Write && write.created() && !write.argument.is_integer;
    write.outcome = Outcome::NotRun;
    return is_write && is_seen;
  });
}

TEST(ChangedHistory, AVersionThatGoesBackIsRefused) {
  expectAllRefused(30, [](const History& history, Operation& write) {
    if (!write.created()) return false;
    for (const Operation& other : history.operations()) {
      if (other.key != write.key || !other.created() || other.end() >= write.invoke_order) continue;
      write.version = other.version;
      return true;
    }
    return false;
  });
}

TEST(ChangedHistory, AnIncrementCountedTwiceIsRefused) {
  expectAllRefused(0, [](const History& history, Operation& increment) {
    const bool is_increment = increment.kind == OperationKind::Increment && increment.created();
    // Somebody read the key later, so the wrong sum does not agree with the right one.
    const bool is_read_later =
        std::any_of(history.operations().begin(), history.operations().end(), [&](const Operation& read) {
          return isGoodRead(read) && read.key == increment.key && read.version == increment.version;
        });
    increment.result.bits += increment.delta;
    return is_increment && is_read_later;
  });
}

TEST(ChangedHistory, AConditionThatDidNotHoldIsRefused) {
  expectAllRefused(30, [](const History& history, Operation& write) {
    const bool is_write = write.kind == OperationKind::Write && write.created();
    const bool was_written =
        std::any_of(history.operations().begin(), history.operations().end(), [&](const Operation& other) {
          return other.key == write.key && other.created() && other.end() < write.invoke_order;
        });
    // No version is as low as this one, and what was written once is never below it again.
    write.condition = {ConditionKind::VersionEquals, ~uint64_t{0} >> 8};
    return is_write && was_written;
  });
}

TEST(ChangedHistory, AnyChangedVersionIsMostlyRefused) {
  Tally all;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Tally tally = changeAnswers(seed, 20, 20, [](const History&, Operation& operation) {
      const bool names_version = operation.isSettled() && operation.version != 0;
      operation.version += 1;
      return names_version;
    });
    all.tried += tally.tried;
    all.refused += tally.refused;
  }
  // A write's version that nobody saw may be any; reads, removes and refusals give the others away.
  EXPECT_GE(all.refused * 10, all.tried * 5) << all.refused << " of " << all.tried;
}

// --- The search against trial of every order
// --------------------------------------------------------------------------

/// Whether some order explains all answers up to the cut; by trying all of them, with no memory and no shortcut.
bool triesEveryOrder(const std::vector<const Operation*>& operations, uint64_t cut_order, std::vector<bool>& done,
                     const RegisterState& state) {
  uint64_t first_return = kNeverReturned;
  bool is_complete = true;
  for (size_t i = 0; i < operations.size(); ++i) {
    if (done[i] || operations[i]->end() == kNeverReturned || operations[i]->end() > cut_order) continue;
    first_return = std::min(first_return, operations[i]->return_order);
    is_complete = false;
  }
  if (is_complete) return true;
  for (size_t i = 0; i < operations.size(); ++i) {
    if (done[i] || operations[i]->invoke_order > std::min(first_return, cut_order)) continue;
    const uint64_t created = operations[i]->created() ? operations[i]->version : 0;
    const std::optional<RegisterState> after = apply(state, *operations[i], created);
    if (!after) continue;
    done[i] = true;
    const bool found = triesEveryOrder(operations, cut_order, done, *after);
    done[i] = false;
    if (found) return true;
  }
  return false;
}

/// A short history of one key, right or wrong: an atomic run with small numbers and then perhaps some changed answers.
std::vector<Operation> shortHistory(Prng& random) {
  AtomicStore store;
  std::vector<Operation> operations(3 + random.below(5));
  uint64_t order = 0;
  uint64_t version = 0;
  for (size_t i = 0; i < operations.size(); ++i) {
    Operation& operation = operations[i];
    operation.kind = static_cast<OperationKind>(random.below(4));
    operation.argument = {100 + i, random.chance(300)};
    operation.delta = 1 + random.below(2);
    if (random.chance(300)) {
      operation.condition = {static_cast<ConditionKind>(1 + random.below(4)), random.below(4)};
    }
    if (operation.isRead()) operation.condition = {};
    const Answer answer = store.execute(operation);
    version = std::max(version, answer.version);
    operation.outcome = answer.outcome;
    operation.result = answer.result;
    operation.version = answer.version;
    operation.invoke_order = order > 6 ? order - random.below(6) : order;
    operation.return_order = order + 1 + random.below(6);
    order += 2;
    if (random.chance(300)) operation.outcome = Outcome::Unknown;
    if (operation.outcome == Outcome::Unknown) operation.return_order = kNeverReturned;
  }
  for (uint64_t changes = random.below(5); changes > 0; --changes) {
    Operation& operation = operations[random.below(operations.size())];
    if (random.chance(500) && operation.version != 0) operation.version = 1 + random.below(version + 1);
    if (random.chance(300) && operation.isRead()) operation.result = {100 + random.below(operations.size()), false};
    if (random.chance(300) && operation.isRead()) operation.result = {random.below(5), true};
    if (random.chance(200)) std::swap(operation.version, operations.front().version);
  }
  return operations;
}

TEST(KeySearch, AgreesWithTrialOfEveryOrder) {
  uint64_t good = 0;
  uint64_t bad = 0;
  for (uint64_t seed = 1; seed <= 60'000; ++seed) {
    Prng random(seed, 7);
    std::vector<Operation> history = shortHistory(random);
    std::sort(history.begin(), history.end(),
              [](const Operation& a, const Operation& b) { return a.invoke_order < b.invoke_order; });
    std::vector<const Operation*> operations;
    for (const Operation& operation : history) {
      if (operation.isSettled() || !operation.isRead()) operations.push_back(&operation);
    }
    const uint64_t cut_order = random.chance(300) ? random.below(20) : kNeverReturned;
    std::vector<bool> done(operations.size());
    const bool expected = triesEveryOrder(operations, cut_order, done, RegisterState{});
    const Verdict verdict = KeySearch(operations, cut_order, 1'000'000, false).run();
    (expected ? good : bad) += 1;
    if ((verdict == Verdict::Linearizable) == expected) continue;
    std::string text;
    for (const Operation* operation : operations) {
      text += std::to_string(operation->invoke_order) + " .. " + std::to_string(operation->end()) + ' ' +
              describe(*operation) + '\n';
    }
    FAIL() << "seed " << seed << ", cut at " << cut_order << ": right is " << (expected ? "yes" : "no") << '\n' << text;
  }
  EXPECT_GT(good, 10'000u);
  EXPECT_GT(bad, 10'000u);
}

// --- The workload
// -----------------------------------------------------------------------------------------------------

TEST(Generator, SameSeedSameCalls) {
  Generator a(WorkloadOptions{}, 5);
  Generator b(WorkloadOptions{}, 5);
  Generator other(WorkloadOptions{}, 6);
  uint64_t differences = 0;
  for (uint32_t i = 0; i < 2000; ++i) {
    const PlannedCall left = a.next(i % 8);
    const PlannedCall right = b.next(i % 8);
    const PlannedCall third = other.next(i % 8);
    ASSERT_EQ(left.kind, right.kind);
    ASSERT_EQ(left.parts.size(), right.parts.size());
    for (size_t part = 0; part < left.parts.size(); ++part) {
      ASSERT_EQ(left.parts[part].value, right.parts[part].value);
      ASSERT_EQ(describe(left.parts[part].operation), describe(right.parts[part].operation));
    }
    differences += left.kind != third.kind ? 1 : 0;
  }
  EXPECT_GT(differences, 500u);
}

TEST(Generator, ClientsDoNotDisturbEachOther) {
  Generator alone(WorkloadOptions{}, 5);
  Generator together(WorkloadOptions{}, 5);
  for (uint32_t i = 0; i < 200; ++i) {
    for (uint32_t other = 0; other < i % 4; ++other) together.next(1 + other);
    const PlannedCall left = alone.next(0);
    const PlannedCall right = together.next(0);
    ASSERT_EQ(left.kind, right.kind);
    ASSERT_EQ(left.parts.size(), right.parts.size());
    for (size_t part = 0; part < left.parts.size(); ++part) {
      ASSERT_EQ(describe(left.parts[part].operation), describe(right.parts[part].operation));
    }
  }
}

TEST(Generator, AllKindsOccurWithUniqueValuesOnAtMost64Keys) {
  Generator generator(WorkloadOptions{}, 3);
  EXPECT_LE(generator.keys().size(), 64u);
  std::vector<uint64_t> kinds(kCallKindCount);
  std::vector<std::string> values;
  for (uint32_t i = 0; i < 4000; ++i) {
    const PlannedCall call = generator.next(i % 8);
    ++kinds[static_cast<size_t>(call.kind)];
    EXPECT_EQ(call.parts.empty(), call.kind == CallKind::Scan);
    for (const PlannedPart& part : call.parts) {
      EXPECT_LT(part.operation.key, 64u);
      if (part.operation.kind != OperationKind::Write) continue;
      values.push_back(part.value);
      EXPECT_EQ(observe(part.value), part.operation.argument);
      EXPECT_EQ(part.operation.argument.is_integer, part.value.size() == 8);
    }
  }
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), 0u), 0);
  std::sort(values.begin(), values.end());
  EXPECT_EQ(std::adjacent_find(values.begin(), values.end()), values.end());
}

TEST(Values, KeysSurviveTheWayToBytesAndBack) {
  for (HistoryKey key = 0; key < 100; ++key) {
    const std::string bytes = keyBytes(key);
    EXPECT_LE(bytes.size(), 64u);
    EXPECT_EQ(keyOfBytes(bytes), key);
    EXPECT_EQ(keyOfBytes(bytes + "."), std::nullopt);
    EXPECT_EQ(keyOfBytes(bytes.substr(1)), std::nullopt);
  }
  EXPECT_EQ(keyOfBytes(""), std::nullopt);
  EXPECT_EQ(keyOfBytes("key-0000000000000000x012"), std::nullopt);
}

TEST(Values, EveryByteMatters) {
  const std::string value = uniqueValueBytes(42, 100);
  ASSERT_EQ(value.size(), 100u);
  for (size_t i = 0; i < value.size(); ++i) {
    std::string damaged = value;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_NE(observe(damaged), observe(value)) << i;
  }
  EXPECT_NE(observe(value + '\0'), observe(value));
  EXPECT_NE(observe(value.substr(0, 99)), observe(value));
  EXPECT_EQ(observe(integerBytes(0x0102030405060708)), (ObservedValue{0x0102030405060708, true}));
}

// Prints, asserts nothing about time: machines differ.
TEST(Timing, Check2000Operations) {
  using Clock = std::chrono::steady_clock;
  for (const uint32_t unknown_permille : {0u, 20u, 100u}) {
    double worst_ms = 0;
    double sum_ms = 0;
    uint64_t steps_max = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      AtomicRunOptions options;
      options.unknown_permille = unknown_permille;
      options.workload.client_count = 16;
      const AtomicRun run = runAtomically(options, 1000 + seed);
      const auto start = Clock::now();
      const LinearizabilityReport report = checkLinearizability(run.history);
      const std::vector<std::string> violations = checkExactlyOnce(run.history, run.final_objects);
      const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
      ASSERT_TRUE(report.isOk()) << report.text();
      ASSERT_TRUE(violations.empty()) << violations.front();
      worst_ms = std::max(worst_ms, ms);
      sum_ms += ms;
      steps_max = std::max(steps_max, report.step_count);
    }
    std::printf(
        "2000 operations and the scans' reads, %u permille unknown: mean %.2f ms, worst %.2f ms, steps <= %llu\n",
        unknown_permille, sum_ms / 20, worst_ms, static_cast<unsigned long long>(steps_max));
  }
}

}  // namespace
}  // namespace ramcore::sim
