/// A recovery by hand: a server's log is read out by scripted backups, other servers replay it. What a coordinator
/// makes them do, what backups may do to them.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "runtime/random.h"
#include "sim/cluster/replay_check.h"
#include "sim/cluster/scripted_backup.h"
#include "sim/master_fixture.h"
#include "sim/workload/values.h"

namespace ramcore::sim::raw {
namespace {

constexpr KeyHash kMiddle = KeyHash{1} << 63;

/// Server 0 is the one that dies; the others recover its table.
class MasterRecoveryTest : public MasterServiceTest {
 protected:
  static constexpr size_t kDead = 0;

  MasterRecoveryTest() { world.addServer(); }

  struct Object {
    Version version = 0;
    std::string value;
  };
  struct LastCall {
    Opcode opcode{};
    std::string key;
    std::string value;
    uint64_t sequence = 0;
    Answer answer;
  };

  ScriptedBackup& addBackup() {
    const uint64_t number = backups.size() + 1;
    ScriptedBackup& backup = *backups.emplace_back(std::make_unique<ScriptedBackup>(world, 200 + number, number));
    backup.segments = log;
    return backup;
  }

  // ---- the life of the dead server

  std::string keyOf(uint64_t number) {
    keys.insert(number);
    return keyBytes(number);
  }
  uint64_t nextSequence(uint64_t client) { return ++sequences[client]; }
  void put(uint64_t number, const std::string& value, size_t server = kDead, uint64_t epoch = 1) {
    const std::string key = keyOf(number);
    const Answer answer = write(key, value, nextSequence(1), {.client = 1, .epoch = epoch, .server = server});
    ASSERT_EQ(answer.status, Status::Ok);
    ASSERT_GT(answer.version, highest[key]);
    highest[key] = answer.version;
    model[key] = {answer.version, value};
  }
  /// Writes, removes and counts with two clients, which acknowledge now and then.
  void mutateRandomly(runtime::Random& random, uint64_t key_count, size_t count) {
    for (size_t i = 0; i < count && !HasFatalFailure(); ++i) {
      const uint64_t client = 1 + random.below(2);
      LastCall& last = last_calls[client];
      WriteOptions options{.client = client, .acknowledged = random.below(2) == 0 ? last.sequence : 0};
      const uint64_t kind = random.below(10);
      last.key = keyOf(random.below(key_count));
      last.sequence = nextSequence(client);
      if (kind < 6) {
        last.opcode = Opcode::Write;
        last.value = uniqueValueBytes(++value_number, static_cast<uint32_t>(9 + random.below(1500)));
        if (random.below(8) == 0) options.condition = Condition::MustNotExist;
        last.answer = write(last.key, last.value, last.sequence, options);
      } else if (kind < 8) {
        last.opcode = Opcode::Remove;
        last.answer = remove(last.key, last.sequence, options);
      } else {
        last.opcode = Opcode::Increment;
        last.answer = increment(last.key, 3, last.sequence, options);
      }
      note(last);
    }
  }
  void note(const LastCall& call) {
    if (call.answer.status != Status::Ok) return;
    if (call.opcode == Opcode::Remove) {
      model.erase(call.key);
      return;
    }
    ASSERT_GT(call.answer.version, highest[call.key]) << "versions went back";
    highest[call.key] = call.answer.version;
    model[call.key] = {call.answer.version, call.opcode == Opcode::Increment
                                                ? integerBytes(static_cast<uint64_t>(call.answer.counter))
                                                : call.value};
  }
  void die() {
    log = copyLog(world.servers[kDead]->master());
    world.network.partition("server1", "server2");
  }

  // ---- the recovery

  control::RecoverTabletsRequest request() {
    control::RecoverTabletsRequest ask;
    ask.set_dead(world.addresses[kDead].id);
    for (const auto& backup : backups) {
      control::ReplicaHolder& holder = *ask.add_holders();
      holder.set_id(backup->process.identity.id);
      holder.add_locators(backup->process.locator().toString());
    }
    for (const auto& [id, bytes] : log) {
      control::RecoverySegment& segment = *ask.add_segments();
      segment.set_segment(id);
      for (uint32_t i = 0; i < backups.size(); ++i) segment.add_holders(i);
    }
    return ask;
  }
  void addTablet(control::RecoverTabletsRequest& ask, uint64_t id, KeyHash first, KeyHash last, uint64_t epoch,
                 uint64_t first_segment = 1) {
    control::Tablet& tablet = *ask.add_tablets();
    tablet = tabletOf(id, first, last, epoch);
    control::LogRef& other = *tablet.add_logs();
    other.set_server(world.addresses[kDead].id + 1000);
    other.set_first_segment(1'000'000);
    control::LogRef& ref = *tablet.add_logs();
    ref.set_server(world.addresses[kDead].id);
    ref.set_first_segment(first_segment);
  }
  /// The whole table as tablet 5.
  control::RecoverTabletsRequest wholeTable(uint64_t epoch) {
    control::RecoverTabletsRequest ask = request();
    addTablet(ask, 5, 0, kLast, epoch);
    return ask;
  }
  Status recover(const control::RecoverTabletsRequest& ask, size_t server = 1) {
    return world.command(Opcode::RecoverTablets, ask, server)->outcome();
  }
  /// Recovers the whole table under this epoch. How that ended.
  Status recoverAll(uint64_t epoch) {
    EXPECT_EQ(recover(wholeTable(epoch)), Status::Ok);
    return static_cast<Status>(pullEnd(5, 1).status());
  }

  // ---- what must be so afterwards; the key's tablet may be anywhere

  void expectModel(uint64_t epoch, const std::function<size_t(KeyHash)>& serverOf) {
    for (const uint64_t number : keys) {
      const std::string key = keyBytes(number);
      const size_t server = serverOf(hashKey(TableId(kTable), asBytes(key)));
      const Answer found = read(key, epoch, server);
      const auto expected = model.find(key);
      if (expected == model.end()) {
        ASSERT_EQ(found.status, Status::NotFound) << key << " came back";
        continue;
      }
      ASSERT_EQ(found.status, Status::Ok) << key << " is lost";
      ASSERT_EQ(found.version, expected->second.version) << key;
      ASSERT_EQ(found.value, expected->second.value) << key;
    }
  }
  void expectModel(uint64_t epoch, size_t server = 1) {
    expectModel(epoch, [server](KeyHash) { return server; });
  }
  void expectDuplicatesAreAnswered(uint64_t epoch, const std::function<size_t(KeyHash)>& serverOf) {
    for (const auto& [client, last] : last_calls) {
      const size_t server = serverOf(hashKey(TableId(kTable), asBytes(last.key)));
      const WriteOptions options{.client = client, .epoch = epoch, .server = server};
      const uint64_t answered = stats(server).duplicates_answered.load();
      Answer again;
      if (last.opcode == Opcode::Increment) {
        again = increment(last.key, 3, last.sequence, options);
      } else {
        again = mutate(last.opcode, last.key, last.opcode == Opcode::Write ? last.value : "", last.sequence, options);
      }
      EXPECT_EQ(again.status, last.answer.status);
      EXPECT_EQ(again.version, last.answer.version);
      EXPECT_EQ(again.counter, last.answer.counter);
      EXPECT_EQ(stats(server).duplicates_answered.load(), answered + 1);
    }
  }
  /// The recovered server's own log says the same: it may be the next that dies.
  void expectOwnLogSaysTheSame(size_t server) {
    runtime::Random order(7);
    const std::vector<HistoryKey> all(keys.begin(), keys.end());
    for (const std::string& failure : checkReplay(world.servers[server]->master(), all, order)) {
      ADD_FAILURE() << failure;
    }
  }

  std::deque<std::unique_ptr<ScriptedBackup>> backups;
  SegmentBytes log;
  std::set<uint64_t> keys;
  std::map<std::string, Object> model;
  std::map<std::string, Version> highest;
  std::map<uint64_t, uint64_t> sequences;
  std::map<uint64_t, LastCall> last_calls;
  uint64_t value_number = 0;
};

class MasterRecoveryRandomTest : public MasterRecoveryTest, public ::testing::WithParamInterface<uint64_t> {};

/// Three tablets of a random log, cleaned in between, on two recovery masters; pages and segments in any order, some
/// segments twice as if a survivor and what it was copied from were there, and backups that fail now and then.
TEST_P(MasterRecoveryRandomTest, WhatWasAcknowledgedIsThereAgain) {
  runtime::Random random(GetParam());
  SimServer::Options replicated;
  replicated.replication.at_once = false;
  world.addServer(replicated);
  mutateRandomly(random, 10 + random.below(60), 200 + random.below(900));
  die();
  ASSERT_FALSE(model.empty());
  for (const auto& [id, bytes] : SegmentBytes(log)) {
    if (random.below(4) == 0) log[1'000'000 - id] = bytes;
  }
  for (int i = 0; i < 3; ++i) {
    ScriptedBackup& backup = addBackup();
    backup.page_bytes_max = static_cast<uint32_t>(1 + random.below(40'000));
    backup.refuse = [&random](const wire::ReadReplica::Request&) {
      constexpr Status kRefusals[] = {Status::RetryLater, Status::NotFound, Status::TooLarge};
      return random.below(20) == 0 ? kRefusals[random.below(3)] : Status::Ok;
    };
  }
  // One of them has lost half of what it had.
  for (const auto& [id, bytes] : log) {
    if (random.below(2) == 0) backups[0]->segments.erase(id);
  }
  const KeyHash cut = random.between(1, kMiddle);
  control::RecoverTabletsRequest first = request();
  addTablet(first, 7, cut, kMiddle - 1, 2);
  addTablet(first, 5, 0, cut - 1, 2);
  control::RecoverTabletsRequest second = request();
  addTablet(second, 6, kMiddle, kLast, 2);
  ASSERT_EQ(recover(first, 1), Status::Ok);
  ASSERT_EQ(recover(second, 2), Status::Ok);
  const auto lower = pullEnd(5, 1);
  const auto middle = pullEnd(7, 1);
  const auto upper = pullEnd(6, 2);
  ASSERT_EQ(lower.status() + middle.status() + upper.status(), 0u);
  EXPECT_EQ(lower.fraction(), 1);
  EXPECT_GE(lower.objects() + middle.objects() + upper.objects(), model.size());
  EXPECT_EQ(lower.log().server(), world.addresses[1].id);
  EXPECT_EQ(lower.log().first_segment(), middle.log().first_segment());
  const std::string some_key = model.begin()->first;
  const auto serverOf = [](KeyHash hash) { return hash < kMiddle ? size_t{1} : size_t{2}; };
  EXPECT_EQ(read(some_key, 2, serverOf(hashKey(TableId(kTable), asBytes(some_key)))).status, Status::RetryLater)
      << "before it is taken";
  ASSERT_EQ(take(5, 0, cut - 1, 2, 1, false), Status::Ok);
  ASSERT_EQ(take(7, cut, kMiddle - 1, 2, 1, false), Status::Ok);
  ASSERT_EQ(take(6, kMiddle, kLast, 2, 2, false), Status::Ok);
  const uint64_t objects =
      world.servers[1]->master().index().entryCount() + world.servers[2]->master().index().entryCount();
  EXPECT_EQ(objects, model.size()) << "nothing else is kept";
  expectModel(2, serverOf);
  expectDuplicatesAreAnswered(2, serverOf);
  expectOwnLogSaysTheSame(1);
  expectOwnLogSaysTheSame(2);
  // Life goes on above all versions that ever were.
  for (const uint64_t number : std::set<uint64_t>(keys)) {
    put(number, "again", serverOf(hashKey(TableId(kTable), asBytes(keyBytes(number)))), 2);
  }
  expectModel(2, serverOf);
  expectOwnLogSaysTheSame(1);
}

INSTANTIATE_TEST_SUITE_P(Seeds, MasterRecoveryRandomTest, ::testing::Range<uint64_t>(1, 25));

TEST_F(MasterRecoveryTest, ARecoveredServerIsRecoveredAgain) {
  runtime::Random random(3);
  mutateRandomly(random, 40, 400);
  die();
  addBackup();
  ASSERT_EQ(recoverAll(2), Status::Ok);
  ASSERT_EQ(take(5, 0, kLast, 2, 1, false), Status::Ok);
  for (uint64_t number = 0; number < 10; ++number) put(number, "x", 1, 2);
  // Now the second one dies, and a third one reads its log from where its contents begin.
  world.addServer();
  log = copyLog(world.servers[1]->master());
  ScriptedBackup& backup = addBackup();
  control::RecoverTabletsRequest ask = request();
  ask.set_dead(world.addresses[1].id);
  for (control::RecoverySegment& segment : *ask.mutable_segments()) {
    segment.clear_holders();
    segment.add_holders(1);
  }
  addTablet(ask, 5, 0, kLast, 3);
  ask.mutable_tablets(0)->mutable_logs(1)->set_server(world.addresses[1].id);
  ask.mutable_tablets(0)->mutable_logs(1)->set_first_segment(
      world.servers[1]->master().tablets().list()[0].first_segment.value);
  ASSERT_EQ(recover(ask, 2), Status::Ok);
  ASSERT_EQ(pullEnd(5, 2).status(), 0u);
  ASSERT_EQ(take(5, 0, kLast, 3, 2, false), Status::Ok);
  EXPECT_GT(backup.requests, 0);
  expectModel(3, 2);
  expectOwnLogSaysTheSame(2);
}

/// The newest replica may be longer than others. A backup that fails after half a group must not leave a half.
TEST_F(MasterRecoveryTest, NoGroupIsTornByReplicasOfDifferentLength) {
  const std::string key = keyOf(1);
  ASSERT_EQ(increment(key, 5, 1).counter, 5);
  const SegmentBytes shorter = copyLog(world.servers[kDead]->master());
  ASSERT_EQ(increment(key, 5, 2).counter, 10);
  die();
  for (const bool object_first : {true, false}) {
    backups.clear();
    addBackup().page_bytes_max = 1;  // an entry at a time
    // Fails behind the new object, or behind the tombstone: before the record of the call.
    int entries = 0;
    backups[0]->twist = [&](const wire::ReadReplica::Request&, ScriptedBackup::Page& page) {
      if (page.header.entry_count != 0) ++entries;
    };
    backups[0]->refuse = [&](const wire::ReadReplica::Request&) {
      return entries >= (object_first ? 3 : 4) ? Status::RetryLater : Status::Ok;
    };
    addBackup().segments = shorter;
    const uint64_t epoch = object_first ? 2 : 3;
    ASSERT_EQ(recoverAll(epoch), Status::Ok);
    ASSERT_EQ(take(5, 0, kLast, epoch, 1, false), Status::Ok);
    EXPECT_EQ(increment(key, 5, 2, {.epoch = epoch, .server = 1}).counter, 10) << "a call in flight, run once";
    ASSERT_EQ(drop(5, epoch, 1), Status::Ok);
    world.runFor(kNanosPerSecond);
  }
}

TEST_F(MasterRecoveryTest, RepeatedCommandsMeanTheSameRecovery) {
  runtime::Random random(5);
  mutateRandomly(random, 30, 100);
  die();
  ScriptedBackup& backup = addBackup();
  bool is_open = false;
  backup.refuse = [&](const wire::ReadReplica::Request&) { return is_open ? Status::Ok : Status::RetryLater; };
  const auto both = [&](uint64_t lower_epoch, uint64_t upper_epoch) {
    control::RecoverTabletsRequest ask = request();
    addTablet(ask, 5, 0, kMiddle - 1, lower_epoch);
    addTablet(ask, 6, kMiddle, kLast, upper_epoch);
    return ask;
  };
  const auto one = [&](uint64_t epoch) {
    control::RecoverTabletsRequest ask = request();
    addTablet(ask, 5, 0, kMiddle - 1, epoch);
    return ask;
  };
  ASSERT_EQ(recover(both(3, 3)), Status::Ok);
  EXPECT_EQ(recover(both(3, 3)), Status::Ok);
  EXPECT_EQ(recover(one(3)), Status::StaleEpoch) << "all of it or nothing";
  EXPECT_EQ(recover(both(2, 3)), Status::StaleEpoch);
  EXPECT_EQ(recover(both(4, 3)), Status::StaleEpoch);
  control::RecoverTabletsRequest of_another = both(3, 3);
  of_another.set_dead(world.addresses[kDead].id + 1000);
  EXPECT_EQ(recover(of_another), Status::StaleEpoch);
  EXPECT_EQ(take(5, 0, kMiddle - 1, 3, 1, false), Status::RetryLater);
  is_open = true;
  ASSERT_EQ(pullEnd(5, 1).status(), 0u);
  ASSERT_EQ(pullEnd(6, 1).status(), 0u);
  const int requests = backup.requests;
  EXPECT_EQ(recover(both(3, 3)), Status::Ok) << "done";
  EXPECT_EQ(take(5, 0, kMiddle - 1, 4, 1, false), Status::NotFound);
  ASSERT_EQ(take(5, 0, kMiddle - 1, 3, 1, false), Status::Ok);
  EXPECT_EQ(recover(both(3, 3)), Status::Ok) << "half taken";
  EXPECT_EQ(recover(one(3)), Status::Ok) << "here";
  EXPECT_EQ(recover(one(4)), Status::BadRequest) << "in service";
  ASSERT_EQ(take(6, kMiddle, kLast, 3, 1, false), Status::Ok);
  EXPECT_EQ(recover(both(3, 3)), Status::Ok) << "taken";
  EXPECT_EQ(backup.requests, requests);
  expectModel(3);
  ASSERT_EQ(drop(5, 3, 1), Status::Ok);
  EXPECT_EQ(recover(both(3, 3)), Status::StaleEpoch) << "late";
}

TEST_F(MasterRecoveryTest, ANewerAttemptReplacesTheOlderOne) {
  runtime::Random random(6);
  mutateRandomly(random, 30, 300);
  die();
  ScriptedBackup& backup = addBackup();
  backup.page_bytes_max = 500;
  int requests_of_first = 0;
  bool first_may_go_on = false;
  backup.refuse = [&](const wire::ReadReplica::Request& ask) {
    const bool is_first = ask.range_count == 2;
    return is_first && ++requests_of_first > 40 && !first_may_go_on ? Status::RetryLater : Status::Ok;
  };
  control::RecoverTabletsRequest both = request();
  addTablet(both, 5, 0, kMiddle - 1, 2);
  addTablet(both, 6, kMiddle, kLast, 2);
  ASSERT_EQ(recover(both), Status::Ok);
  ASSERT_TRUE(world.runUntil([&] { return requests_of_first > 60; }));
  // One tablet again under a newer epoch; the attempt goes on with the other.
  control::RecoverTabletsRequest again = request();
  addTablet(again, 5, 0, kMiddle - 1, 3);
  ASSERT_EQ(recover(again), Status::Ok);
  EXPECT_EQ(recover(both), Status::StaleEpoch);
  ASSERT_EQ(pullEnd(5, 1).status(), 0u);
  EXPECT_EQ(take(5, 0, kMiddle - 1, 2, 1, false), Status::StaleEpoch);
  ASSERT_EQ(take(5, 0, kMiddle - 1, 3, 1, false), Status::Ok);
  // It brings back nothing that is removed in the meantime.
  const auto isInFirst = [](const std::string& key) { return hashKey(TableId(kTable), asBytes(key)) < kMiddle; };
  for (const uint64_t number : keys) {
    const std::string key = keyBytes(number);
    if (!isInFirst(key) || !model.contains(key)) continue;
    ASSERT_EQ(remove(key, nextSequence(1), {.epoch = 3, .server = 1}).status, Status::Ok);
    model.erase(key);
  }
  first_may_go_on = true;
  ASSERT_EQ(pullEnd(6, 1).status(), 0u);
  ASSERT_EQ(take(6, kMiddle, kLast, 2, 1, false), Status::Ok);
  EXPECT_EQ(world.servers[1]->master().index().entryCount(), model.size());
  for (const uint64_t number : keys) {
    const std::string key = keyBytes(number);
    const Answer found = read(key, isInFirst(key) ? 3 : 2, 1);
    const auto expected = model.find(key);
    EXPECT_EQ(found.status, expected == model.end() ? Status::NotFound : Status::Ok) << key;
    if (expected != model.end()) EXPECT_EQ(found.value, expected->second.value);
  }
  expectOwnLogSaysTheSame(1);
}

TEST_F(MasterRecoveryTest, GivenUpTabletsEndAndLeaveNothing) {
  runtime::Random random(8);
  mutateRandomly(random, 30, 300);
  die();
  ScriptedBackup& backup = addBackup();
  backup.page_bytes_max = 2000;
  int left = 20;
  backup.refuse = [&](const wire::ReadReplica::Request&) { return --left < 0 ? Status::RetryLater : Status::Ok; };
  control::RecoverTabletsRequest both = request();
  addTablet(both, 5, 0, kMiddle - 1, 2);
  addTablet(both, 6, kMiddle, kLast, 2);
  ASSERT_EQ(recover(both), Status::Ok);
  ASSERT_TRUE(world.runUntil([&] { return left < -10; }));
  ASSERT_EQ(drop(5, 2, 1), Status::Ok);
  EXPECT_EQ(pullEnd(5, 1).status(), static_cast<uint32_t>(Status::NotFound));
  EXPECT_FALSE(world.servers[1]->master().recoveryTarget()->idle()) << "the other goes on";
  ASSERT_EQ(drop(6, 2, 1), Status::Ok);
  const int64_t before_ns = world.scheduler.nowNs();
  ASSERT_TRUE(world.runUntil([&] { return world.servers[1]->master().recoveryTarget()->idle(); }));
  EXPECT_LT(world.scheduler.nowNs() - before_ns, kNanosPerSecond);
  world.runFor(kNanosPerSecond);
  EXPECT_TRUE(world.servers[1]->master().tablets().list().empty());
  EXPECT_EQ(world.servers[1]->master().index().entryCount(), 0u);
  EXPECT_EQ(world.servers[1]->master().results().recordCount(), 0u);
  EXPECT_EQ(recover(both), Status::StaleEpoch);
  left = 1'000'000;
  ASSERT_EQ(recoverAll(3), Status::Ok);
  ASSERT_EQ(take(5, 0, kLast, 3, 1, false), Status::Ok);
  expectModel(3);
  expectDuplicatesAreAnswered(3, [](KeyHash) { return 1; });
}

TEST_F(MasterRecoveryTest, ATabletThatWasBeingPulledIsRecoveredInstead) {
  runtime::Random random(9);
  mutateRandomly(random, 30, 100);
  ASSERT_EQ(freeze(1, 1), Status::Ok);
  die();
  addBackup();
  ASSERT_EQ(pull(1, 0, kLast, 1, 2, 1, 0), Status::Ok);
  world.runFor(kNanosPerMilli);
  control::RecoverTabletsRequest ask = request();
  addTablet(ask, 1, 0, kLast, 3);
  ASSERT_EQ(recover(ask), Status::Ok);
  EXPECT_EQ(pull(1, 0, kLast, 1, 2, 1, 0), Status::StaleEpoch);
  EXPECT_EQ(pull(1, 0, kLast, 1, 3, 1, 0), Status::StaleEpoch);
  ASSERT_EQ(pullEnd(1, 1).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, 3, 1, false), Status::Ok);
  expectModel(3);
  world.runFor(5 * kNanosPerSecond);
  expectModel(3);
}

TEST_F(MasterRecoveryTest, ARecoveryThatIsGivenUpIsPulledInstead) {
  runtime::Random random(10);
  mutateRandomly(random, 30, 100);
  ASSERT_EQ(freeze(1, 1), Status::Ok);
  log = copyLog(world.servers[kDead]->master());
  addBackup().refuse = [](const wire::ReadReplica::Request&) { return Status::RetryLater; };
  control::RecoverTabletsRequest ask = request();
  addTablet(ask, 1, 0, kLast, 2);
  ASSERT_EQ(recover(ask), Status::Ok);
  world.runFor(100 * kNanosPerMilli);
  ASSERT_EQ(pull(1, 0, kLast, 1, 3, 1, 0), Status::Ok);
  EXPECT_EQ(recover(ask), Status::StaleEpoch);
  ASSERT_EQ(pullEnd(1, 1).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, 3, 1, false), Status::Ok);
  expectModel(3);
}

/// A log that is longer than the memory and replayed oldest first: what died has to be cleaned while it is replayed.
TEST_F(MasterRecoveryTest, ALongLogFitsIfWhatLivesDoes) {
  SimServer::Options large;
  large.log.memory_bytes *= 8;
  const size_t dead = world.addServer(large);
  ASSERT_EQ(take(2, 0, kLast, 1, dead), Status::Ok);
  for (int round = 0; round < 70; ++round) {
    for (uint64_t number = 0; number < 10; ++number) {
      put(number, uniqueValueBytes(++value_number, 5000), dead);
    }
  }
  const SegmentBytes segments = copyLog(world.servers[dead]->master());
  uint64_t bytes_total = 0;
  for (const auto& [id, bytes] : segments) {
    log[1'000'000 - id] = bytes;
    bytes_total += bytes.size();
  }
  ASSERT_GT(bytes_total, 3 * log::LogConfig::forTest().memory_bytes);
  addBackup();
  ASSERT_EQ(recoverAll(2), Status::Ok);
  ASSERT_EQ(take(5, 0, kLast, 2, 1, false), Status::Ok);
  expectModel(2);
  expectOwnLogSaysTheSame(1);
}

// ---- backups that do not do what they should

TEST_F(MasterRecoveryTest, HoldersThatAreGoneAreDoneWithout) {
  runtime::Random random(12);
  mutateRandomly(random, 20, 50);
  die();
  for (int i = 0; i < 3; ++i) addBackup();
  world.network.partition("server2", backups[0]->process.node.name());
  const int64_t fenced_ns = world.scheduler.nowNs() + 3 * kNanosPerSecond;
  backups[1]->refuse = [&](const wire::ReadReplica::Request&) {
    return world.scheduler.nowNs() < fenced_ns ? Status::RetryLater : Status::Ok;
  };
  backups[2]->segments.clear();
  // Enough segments that one wait for each of them would take too long.
  for (uint64_t i = 1; i <= 40; ++i) log[1'000'000 + i] = backups[1]->segments[1'000'000 + i] = log.begin()->second;
  ASSERT_EQ(recoverAll(2), Status::Ok);
  EXPECT_LT(world.scheduler.nowNs() - fenced_ns, 5 * kNanosPerSecond);
  ASSERT_EQ(take(5, 0, kLast, 2, 1, false), Status::Ok);
  expectModel(2);
}

/// A recovery master may be one of the holders.
TEST_F(MasterRecoveryTest, AProcessCallsItselfLikeOthers) {
  ScriptedBackup& backup = addBackup();
  RpcProcess& process = backup.process;
  const rpc::PeerAddress self{.id = process.identity.id, .locators = {process.locator()}};
  wire::ReadReplica::Request ask{};
  ask.header = {.opcode = Opcode::ReadReplica, .target = ServerId(self.id)};
  NotedCall call;
  call.request = process.caller->allocate(sizeof(ask));
  call.request.appendHead(ask);
  process.onDispatch([&] { process.caller->connection(self).start(call); });
  ASSERT_TRUE(world.runUntil([&] { return call.ended != 0; }));
  EXPECT_EQ(call.outcome(), Status::NotFound);
  EXPECT_EQ(backup.requests, 1);
}

TEST_F(MasterRecoveryTest, WithoutHoldersItFailsAfterAWhile) {
  put(1, "x");
  die();
  addBackup().segments.clear();
  const int64_t before_ns = world.scheduler.nowNs();
  EXPECT_EQ(recoverAll(2), Status::NotFound);
  EXPECT_GT(world.scheduler.nowNs() - before_ns, 9 * kNanosPerSecond);
  EXPECT_EQ(take(5, 0, kLast, 2, 1, false), Status::RetryLater);
  backups[0]->segments = log;
  ASSERT_EQ(recoverAll(3), Status::Ok);
  ASSERT_EQ(take(5, 0, kLast, 3, 1, false), Status::Ok);
  expectModel(3);
}

class HostileBackupTest : public MasterRecoveryTest {
 protected:
  using Request = wire::ReadReplica::Request;
  using Page = ScriptedBackup::Page;

  HostileBackupTest() {
    EXPECT_EQ(drop(1, 1), Status::Ok);
    EXPECT_EQ(take(2, 0, kLast, 1), Status::Ok);
  }
  void prepare() {
    runtime::Random random(13);
    mutateRandomly(random, 20, 60);
    die();
    addBackup();
  }
  /// The first entry of this type, and its key or payload, can be changed and is given its checksum again.
  static void changeEntry(Page& page, log::EntryType type, const std::function<void(std::byte* entry)>& change) {
    for (size_t at = 0; at < page.entries.size();) {
      std::byte* const bytes = page.entries.data() + at;
      const log::EntryView entry(bytes);
      at += entry.alignedBytes();
      if (entry.type() != type) continue;
      change(bytes);
      storeAs(bytes + offsetof(log::EntryHeader, crc), log::EntryView(bytes).computeCrc());
      return;
    }
  }
  static void setVersion(std::byte* entry, Version version) {
    std::memcpy(entry + offsetof(log::EntryHeader, version), &version, 7);
  }
  /// Answers like this end the recovery soon; with an honest backup beside it, or alone the next time, it is all there.
  void expectRefused(const char* what, const std::function<void(const Request&, Page&)>& twist) {
    SCOPED_TRACE(what);
    backups[0]->twist = twist;
    const int64_t before_ns = world.scheduler.nowNs();
    const Status status = recoverAll(++epoch_);
    EXPECT_TRUE(status == Status::BadRequest || status == Status::Corrupt) << name(status);
    EXPECT_LT(world.scheduler.nowNs() - before_ns, 5 * kNanosPerSecond);
    if (backups.size() == 1) addBackup();
    ASSERT_EQ(recoverAll(++epoch_), Status::Ok);
    ASSERT_EQ(take(5, 0, kLast, epoch_, 1, false), Status::Ok);
    expectModel(epoch_);
    ASSERT_EQ(drop(5, epoch_, 1), Status::Ok);
    backups.pop_back();
  }

  uint64_t epoch_ = 1;
};

TEST_F(HostileBackupTest, EntriesOfOthers) {
  prepare();
  for (const auto type : {log::EntryType::Object, log::EntryType::Tombstone, log::EntryType::ResultRecord}) {
    expectRefused("another table", [type](const Request&, Page& page) {
      changeEntry(page, type,
                  [](std::byte* entry) { storeAs(entry + offsetof(log::EntryHeader, table), uint32_t{kTable + 1}); });
    });
    expectRefused("a version near the end", [type](const Request&, Page& page) {
      changeEntry(page, type, [](std::byte* entry) { setVersion(entry, kVersionMax); });
    });
  }
  expectRefused("a safe version near the end",
                [](const Request&, Page& page) { page.header.safe_version = ~uint64_t{0}; });
  expectRefused("a result of another kind", [](const Request&, Page& page) {
    changeEntry(page, log::EntryType::ResultRecord, [](std::byte* entry) {
      const size_t at = log::kEntryHeaderBytes + offsetof(log::ResultRecordPayload, opcode);
      storeAs(entry + at, static_cast<uint16_t>(Opcode::Read));
    });
  });
  expectRefused("other types of entries", [this](const Request& ask, Page& page) {
    const auto& segment = log.at(ask.segment.value);
    const log::EntryView header(segment.data());
    page.entries.assign(segment.begin(), segment.begin() + header.alignedBytes());
    page.header.entry_bytes = header.alignedBytes();
    page.header.entry_count = 1;
  });
}

TEST_F(HostileBackupTest, EntriesOutsideTheRanges) {
  prepare();
  control::RecoverTabletsRequest ask = request();
  addTablet(ask, 5, 0, kMiddle - 1, 2);
  const auto everything = [&](const Request& part, Page& page) {
    // As if it had not looked at the ranges.
    const auto& segment = log.at(part.segment.value);
    log::SegmentReader reader(segment);
    page = {};
    for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
      for (const log::EntryView& entry : group) {
        if (entry.type() != log::EntryType::Object) continue;
        page.entries.insert(page.entries.end(), entry.address(), entry.address() + entry.alignedBytes());
        ++page.header.entry_count;
      }
    }
    page.header.entry_bytes = static_cast<uint32_t>(page.entries.size());
  };
  backups[0]->twist = everything;
  ASSERT_EQ(recover(ask), Status::Ok);
  EXPECT_EQ(pullEnd(5, 1).status(), static_cast<uint32_t>(Status::BadRequest));

  ask = request();
  addTablet(ask, 5, 0, kLast, 3, 1'000'000);
  ASSERT_EQ(recover(ask), Status::Ok);
  EXPECT_EQ(pullEnd(5, 1).status(), static_cast<uint32_t>(Status::BadRequest)) << "entries of an earlier ownership";
  backups[0]->twist = nullptr;
  ask = request();
  addTablet(ask, 5, 0, kLast, 4, 1'000'000);
  ASSERT_EQ(recover(ask), Status::Ok);
  ASSERT_EQ(pullEnd(5, 1).status(), 0u);
  EXPECT_EQ(pullEnd(5, 1).objects(), 0u);
  EXPECT_EQ(world.servers[1]->master().index().entryCount(), 0u);
}

TEST_F(HostileBackupTest, PagesThatMakeNoSense) {
  prepare();
  expectRefused("a broken entry", [](const Request&, Page& page) {
    if (!page.entries.empty()) page.entries[page.entries.size() / 2] ^= std::byte{1};
  });
  expectRefused("half an entry", [](const Request&, Page& page) {
    if (page.entries.empty()) return;
    page.entries.resize(page.entries.size() - 8);
    page.header.entry_bytes -= 8;
  });
  expectRefused("fewer bytes than it says", [](const Request&, Page& page) { page.header.entry_bytes += 8; });
  expectRefused("fewer entries than it says", [](const Request&, Page& page) { page.header.entry_count += 1; });
  expectRefused("pages that never advance", [](const Request& ask, Page& page) {
    page.header.done = 0;
    page.header.next_offset_bytes = ask.offset_bytes;
  });
  expectRefused("pages that go back", [](const Request& ask, Page& page) {
    page.header.done = 0;
    page.header.next_offset_bytes = ask.offset_bytes == 0 ? 8 : 0;
  });
  expectRefused("more entries than the page is long", [](const Request& ask, Page& page) {
    page.header.done = 0;
    page.header.next_offset_bytes = ask.offset_bytes + 8;
  });
  expectRefused("pages behind the end of any segment", [](const Request&, Page& page) {
    page.header.done = 0;
    page.header.next_offset_bytes = ~uint32_t{0};
  });
}

TEST_F(HostileBackupTest, CommandsThatMakeNoSense) {
  prepare();
  const auto refused = [&](const char* what, const std::function<void(control::RecoverTabletsRequest&)>& change) {
    control::RecoverTabletsRequest ask = wholeTable(2);
    change(ask);
    EXPECT_EQ(recover(ask), Status::BadRequest) << what;
  };
  refused("no dead server", [](auto& ask) { ask.set_dead(0); });
  refused("no tablets", [](auto& ask) { ask.clear_tablets(); });
  refused("no segments", [](auto& ask) { ask.clear_segments(); });
  refused("segment 0", [](auto& ask) { ask.mutable_segments(0)->set_segment(0); });
  refused("nobody has a segment", [](auto& ask) { ask.mutable_segments(0)->clear_holders(); });
  refused("a holder that is not listed", [](auto& ask) { ask.mutable_segments(0)->add_holders(1); });
  refused("a holder without an id", [](auto& ask) { ask.mutable_holders(0)->set_id(0); });
  refused("a holder without a place", [](auto& ask) { ask.mutable_holders(0)->clear_locators(); });
  refused("a log of others", [](auto& ask) { ask.mutable_tablets(0)->mutable_logs(1)->set_server(1); });
  refused("tablets that overlap", [&](auto& ask) { addTablet(ask, 6, kMiddle, kLast, 2); });
  refused("a tablet twice", [&](auto& ask) { addTablet(ask, 5, kMiddle, kLast, 2); });
  EXPECT_TRUE(world.servers[1]->master().recoveryTarget()->idle());
  ASSERT_EQ(recoverAll(2), Status::Ok);
}

}  // namespace
}  // namespace ramcore::sim::raw
