/// A recovery by hand: a server's log is read out by scripted backups, other servers replay it. What a coordinator
/// makes them do, and what it is like when backups are gone.

#include <gtest/gtest.h>

#include "sim/recovery_fixture.h"

namespace ramcore::sim::raw {
namespace {

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
    segment.clear_replicas();
    segment.add_holders(1);
    segment.add_replicas();
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

/// The head of one backup may hold calls that were not acknowledged and that the head of another backup does not hold;
/// both may be chosen. A call that a failed attempt has found, and the next attempt does not find, must not be
/// answered.
TEST_F(MasterRecoveryTest, ResultsOfAnEarlierAttemptAreForgotten) {
  put(1, "value");
  put(2, "value");
  die();
  ScriptedBackup& backup = addBackup();
  ASSERT_EQ(recoverAll(2), Status::Ok);
  const master::Master& master = world.servers[1]->master();
  ASSERT_EQ(master.results().recordCount(), 2u);
  backup.refuse = [](const wire::ReadReplica::Request&) { return Status::RetryLater; };
  ASSERT_EQ(recover(wholeTable(3)), Status::Ok);
  ASSERT_TRUE(world.runUntil([&] { return master.results().recordCount() == 0; }));
  EXPECT_EQ(master.index().entryCount(), 0u);
  backup.refuse = nullptr;
  ASSERT_EQ(pullEnd(5, 1).status(), 0u);
  ASSERT_EQ(take(5, 0, kLast, 3, 1, false), Status::Ok);
  expectModel(3, 1);
  expectDuplicatesAreAnswered(3, [](KeyHash) { return size_t{1}; });
}

/// A tombstone that names a segment from before the ownership tells of versions that may have been handed out again.
TEST_F(MasterRecoveryTest, TombstonesOfAnEarlierOwnershipAreNotForThisOne) {
  put(1, "kept");
  put(2, "removed");
  die();
  constexpr uint64_t kFirst = 100;
  SegmentBytes renumbered;
  for (auto& [id, bytes] : log) renumbered[kFirst + id] = std::move(bytes);
  const auto addTombstone = [&](uint64_t number, uint64_t id, uint64_t named) {
    const std::string key = keyOf(number);
    log::EntryInput tombstone;
    tombstone.type = log::EntryType::Tombstone;
    tombstone.table = TableId(kTable);
    tombstone.version = model.at(key).version + 5;
    tombstone.key = asBytes(key);
    tombstone.dead = log::EntryRef::fromOffset(log::EntryRef::kFirstBytes);
    auto& bytes = renumbered[id];
    const log::EntryView header(renumbered.begin()->second.data());
    bytes.assign(header.address(), header.address() + header.alignedBytes());
    bytes.resize(bytes.size() + tombstone.alignedBytes());
    log::writeEntry(bytes.data() + header.alignedBytes(), tombstone, false, SegmentId(named));
  };
  addTombstone(1, 500, kFirst - 1);
  addTombstone(2, 501, kFirst);
  log = std::move(renumbered);
  addBackup();
  control::RecoverTabletsRequest ask = request();
  addTablet(ask, 5, 0, kLast, 2, kFirst);
  ASSERT_EQ(recover(ask), Status::Ok);
  ASSERT_EQ(pullEnd(5, 1).status(), 0u);
  ASSERT_EQ(take(5, 0, kLast, 2, 1, false), Status::Ok);
  EXPECT_EQ(read(keyOf(1), 2, 1).value, "kept");
  EXPECT_EQ(read(keyOf(2), 2, 1).status, Status::NotFound);
  const Answer again = write(keyOf(3), "new", nextSequence(1), {.client = 1, .epoch = 2, .server = 1});
  EXPECT_GT(again.version, model.at(keyOf(1)).version + 5) << "it may have been handed out";
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
    // Fails behind the new object, before the record of the call; or behind that.
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

/// A backup whose longer replica was chosen and is gone may have an older, shorter one, and tell of no other.
TEST_F(MasterRecoveryTest, NoShorterReplicaStandsInForTheOneThatWasChosen) {
  put(1, "first");
  const SegmentBytes shorter = copyLog(world.servers[kDead]->master());
  put(1, "second");
  put(2, "second");
  die();
  const auto recoverWhole = [&](uint64_t epoch) {
    control::RecoverTabletsRequest ask = request();
    for (control::RecoverySegment& segment : *ask.mutable_segments()) {
      const auto length = static_cast<uint32_t>(log.at(segment.segment()).size());
      for (control::ReplicaVersion& replica : *segment.mutable_replicas()) replica.set_length_bytes(length);
    }
    addTablet(ask, 5, 0, kLast, epoch);
    EXPECT_EQ(recover(ask), Status::Ok);
    return static_cast<Status>(pullEnd(5, 1).status());
  };
  addBackup().segments = shorter;
  EXPECT_EQ(recoverWhole(2), Status::NotFound);
  EXPECT_NE(take(5, 0, kLast, 2, 1, false), Status::Ok);
  addBackup();  // has all of it; the first one is still asked
  EXPECT_EQ(recoverWhole(3), Status::Ok);
  ASSERT_EQ(take(5, 0, kLast, 3, 1, false), Status::Ok);
  expectModel(3);
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
  // The first attempt goes on late: it must not bring back keys that are removed in the meantime.
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
  ASSERT_NO_FATAL_FAILURE(moveAll(1, 0, kLast, 1, 3, 1, 0));
  expectModel(3);
}

/// A log that is longer than the memory and replayed oldest first: what died has to be cleaned while it is replayed.
TEST_F(MasterRecoveryTest, ALongLogFitsIfWhatLivesDoes) {
  liveLong();
  addBackup();
  ASSERT_EQ(recoverAll(2), Status::Ok);
  ASSERT_EQ(take(5, 0, kLast, 2, 1, false), Status::Ok);
  expectModel(2);
  expectOwnLogSaysTheSame(1);
}

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

// The holder is stopped: its session stays open, and nothing tells that it will not answer.
TEST_F(MasterRecoveryTest, ASilentHolderIsNotWaitedForWhileOthersHaveTheSegment) {
  runtime::Random random(12);
  mutateRandomly(random, 20, 50);
  die();
  for (int i = 0; i < 2; ++i) addBackup();
  for (uint64_t i = 1; i <= 20; ++i) {
    log[1'000'000 + i] = log.begin()->second;
    for (const auto& backup : backups) backup->segments[1'000'000 + i] = log.begin()->second;
  }
  world.network.stopReading(backups[0]->process.node.name());
  const int64_t begun_ns = world.scheduler.nowNs();
  ASSERT_EQ(recoverAll(2), Status::Ok);
  EXPECT_LT(world.scheduler.nowNs() - begun_ns, 1 * kNanosPerSecond);
  EXPECT_EQ(backups[0]->requests, 0);
  world.network.resumeReading(backups[0]->process.node.name());
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

}  // namespace
}  // namespace ramcore::sim::raw
