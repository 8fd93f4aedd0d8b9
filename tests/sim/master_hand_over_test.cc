/// The two servers of a tablet that is being handed over when one of them dies, command by command: the other one
/// replays the dead one's log over its own.
#include "sim/hand_over_fixture.h"

namespace ramcore::sim::raw {
namespace {

TEST_F(MasterHandOverTest, TheNewOwnerReplaysTheFormerOnesLogOverWhatItHas) {
  fill(0, 300, "old");
  removeAll(0, 20, 0, 1);
  // The source is cut off before anything but a few keys has come.
  ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, 1, 0));
  ASSERT_EQ(lend(1, 1, 0), Status::Ok);
  ASSERT_EQ(takeArriving(1, 0, kLast, 2, 1), Status::Ok);
  put(30, "written by the new owner", 1, 2);
  removeAll(40, 45, 1, 2);
  cut();
  keepLogOf(0);
  ASSERT_EQ(recoverOver(0, 1, 3), Status::Ok);
  ASSERT_EQ(pullEnd(1, 1).status(), 0u);
  EXPECT_EQ(world.servers[1]->master().tablets().get(TabletId(1))->epoch, TabletEpoch(2)) << "until it is granted";
  ASSERT_EQ(take(1, 0, kLast, 3, 1, false), Status::Ok);
  ASSERT_EQ(take(1, 0, kLast, 3, 1, false), Status::Ok) << "repeated";
  expectAll(1, 3);
  world.runFor(kNanosPerSecond);
  expectAll(1, 3);
  expectOwnLogSaysTheSame(1);
}

TEST_F(MasterHandOverTest, WhileWhatHasArrivedFindsNoPlacesTheReplayWaitsAndTheReasonIsSaid) {
  const size_t to = addReplicatedServer();
  SimReplicator& replicator = *world.servers[to]->replicator();
  fill(0, 300, "old");
  ASSERT_TRUE(world.runUntil([&] { return world.servers[to]->master().log()->headId() != SegmentId(); }));
  replicator.lackPlaces(SimReplicator::Lacking::Sides);
  ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, to, 0));
  ASSERT_EQ(lend(1, 1, 0), Status::Ok);
  ASSERT_EQ(takeArriving(1, 0, kLast, 2, to), Status::Ok);
  ASSERT_EQ(pullProgress(1, to, control::PULL_ARRIVED).phase(), control::PULL_ARRIVED);
  keepLogOf(0);
  EXPECT_EQ(recoverOver(0, to, 3), Status::TooFewReplicas);
  EXPECT_EQ(recoverOver(0, to, 3), Status::TooFewReplicas) << "nothing was given up";
  replicator.lackPlaces(SimReplicator::Lacking::Nothing);
  ASSERT_TRUE(world.runUntil([&] { return recoverOver(0, to, 3) == Status::Ok; }));
  ASSERT_EQ(pullEnd(1, to).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, 3, to, false), Status::Ok);
  expectAll(to, 3);
}

// What the first attempt has brought is not given up either: the second one waits until it is in the log.
TEST_F(MasterHandOverTest, AnAttemptThatWaitsForAFormerOneLacksThePlacesThatThatLacks) {
  const size_t to = addReplicatedServer();
  SimReplicator& replicator = *world.servers[to]->replicator();
  fill(0, 300, "old");
  ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, to, 0));
  ASSERT_EQ(lend(1, 1, 0), Status::Ok);
  world.network.partition("server1", "server" + std::to_string(to + 1));
  ASSERT_EQ(takeArriving(1, 0, kLast, 2, to), Status::Ok);
  keepLogOf(0);
  const auto lacks = [&] {
    control::PullProgressResponse found;
    EXPECT_EQ(progressNow(1, to, found), Status::Ok);
    return found.lacks_places();
  };
  // What is brought back finds no places, once the little that has arrived is in the log.
  ASSERT_EQ(recoverOver(0, to, 3), Status::Ok);
  replicator.lackPlaces(SimReplicator::Lacking::Sides);
  ASSERT_TRUE(world.runUntil(lacks));
  ASSERT_EQ(recoverOver(0, to, 4), Status::Ok);
  EXPECT_TRUE(world.runUntil(lacks));
  control::PullProgressResponse progress;
  ASSERT_EQ(progressNow(1, to, progress), Status::Ok);
  EXPECT_EQ(progress.objects(), 0u) << "it waits for the former one";
  replicator.lackPlaces(SimReplicator::Lacking::Nothing);
  ASSERT_EQ(pullEnd(1, to).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, 4, to, false), Status::Ok);
  expectAll(to, 4);
}

TEST_F(MasterHandOverTest, WhatHasNotArrivedIsClosedWhileTheLogIsReplayed) {
  fill(0, 150, kOld);
  fill(0, 150, kNew);
  ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, 1, 0));
  ASSERT_EQ(lend(1, 1, 0), Status::Ok);
  cut();
  ASSERT_EQ(takeArriving(1, 0, kLast, 2, 1), Status::Ok);
  keepLogOldestFirst(0);
  ASSERT_EQ(recoverOver(0, 1, 3, SegmentId(1)), Status::Ok);
  world.runFor(50 * kNanosPerMilli);
  // Old versions are in the index now.
  for (uint64_t i = 0; i < 300; ++i) {
    const Answer found = read(keyOf(i % 150), 2, 1);
    EXPECT_TRUE(found.status == Status::RetryLater || found.value == kNew) << i << ": " << found.value;
  }
  goOn();
  ASSERT_EQ(pullEnd(1, 1).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, 3, 1, false), Status::Ok);
  expectAll(1, 3);
}

TEST_F(MasterHandOverTest, WhatHasArrivedIsServedWhileTheLogIsReplayed) {
  fill(0, 100, kOld);
  fill(0, 100, kNew);
  removeAll(50, 100, 0, 1);
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  ASSERT_GE(pullProgress(1, 1, control::PULL_ARRIVED).phase(), control::PULL_ARRIVED);
  cut();
  keepLogOldestFirst(0);
  ASSERT_EQ(recoverOver(0, 1, 3, SegmentId(1)), Status::Ok);
  world.runFor(50 * kNanosPerMilli);
  for (uint64_t i = 0; i < 300; ++i) {
    const Answer found = read(keyOf(i % 100), 2, 1);
    ASSERT_EQ(found.status, i % 100 < 50 ? Status::Ok : Status::NotFound) << i;
    if (i % 100 < 50) ASSERT_EQ(found.value, kNew);
  }
  goOn();
  ASSERT_EQ(pullEnd(1, 1).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, 3, 1, false), Status::Ok);
  expectAll(1, 3);
}

/// What arrives later does not bring it back.
TEST_F(MasterHandOverTest, WhatWasChangedBeforeItHasArrivedStaysSo) {
  size_t from = 0;
  size_t to = 0;
  ASSERT_NO_FATAL_FAILURE(begin(from, to));
  const uint64_t removed = lastKey();
  ASSERT_NO_FATAL_FAILURE(handOver(2, 0, kLast, 1, 2, to, from));
  ASSERT_EQ(lend(2, 1, from), Status::Ok);
  ASSERT_EQ(takeArriving(2, 0, kLast, 2, to), Status::Ok);
  ASSERT_EQ(remove(keyOf(removed), nextSequence(1), {.client = 1, .epoch = 2, .server = to}).status, Status::Ok);
  model.erase(keyOf(removed));
  keys.erase(removed);
  const uint64_t changed = lastKey();
  put(changed, "changed", to, 2);
  EXPECT_LT(world.servers[to]->master().index().entryCount(), kLarge - 500) << "too much has arrived to show anything";
  ASSERT_EQ(pullProgress(2, to, control::PULL_JOINED).phase(), control::PULL_JOINED);
  EXPECT_EQ(read(keyOf(removed), 2, to).status, Status::NotFound);
  EXPECT_EQ(read(keyOf(changed), 2, to).value, "changed");
  ASSERT_EQ(take(2, 0, kLast, 2, to, false), Status::Ok);
  expectAll(to, 2);
}

TEST_F(MasterHandOverTest, AWriteWithoutConditionWaitsForNothing) {
  fill(0, 20, "old");
  ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, 1, 0));
  ASSERT_EQ(lend(1, 1, 0), Status::Ok);
  cut();
  ASSERT_EQ(takeArriving(1, 0, kLast, 2, 1), Status::Ok);
  const master::PriorityPulls::Stats& waits = world.servers[1]->master().migrationTarget()->waitStats();
  put(5, "of a key that exists", 1, 2);
  put(100, "of one that does not", 1, 2);
  EXPECT_EQ(waits.waits.load(), 0u);
  EXPECT_EQ(read(keyOf(5), 2, 1).value, "of a key that exists");
  EXPECT_EQ(write(keyOf(6), "y", nextSequence(1), {.epoch = 2, .condition = Condition::MustExist, .server = 1}).status,
            Status::RetryLater);
  EXPECT_EQ(increment("counter", 1, nextSequence(1), {.epoch = 2, .server = 1}).status, Status::RetryLater);
  EXPECT_EQ(waits.waits.load(), 2u);
  // What was there before does not come back, nor does what was removed again.
  put(7, "removed again", 1, 2);
  ASSERT_NO_FATAL_FAILURE(removeAll(7, 8, 1, 2));
  keepLogOf(0);
  ASSERT_EQ(recoverOver(0, 1, 3), Status::Ok);
  ASSERT_EQ(pullEnd(1, 1).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, 3, 1, false), Status::Ok);
  expectAll(1, 3);
  expectOwnLogSaysTheSame(1);
}

TEST_F(MasterHandOverTest, HashesDoNotGetTooManyKeys) {
  constexpr uint64_t kMax = store::ObjectStore::kKeysPerHashMax;
  for (uint64_t i = 1; i <= kMax; ++i) ASSERT_EQ(write(collidingKey(i, 'f'), "", nextSequence(1)).status, Status::Ok);
  ASSERT_EQ(write(collidingKey(1, 'o'), "", nextSequence(1)).status, Status::Ok);
  ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, 1, 0));
  ASSERT_EQ(lend(1, 1, 0), Status::Ok);
  cut();
  ASSERT_EQ(takeArriving(1, 0, kLast, 2, 1), Status::Ok);
  const auto writeThere = [&](uint64_t number, char family, uint64_t epoch) {
    return write(collidingKey(number, family), "", nextSequence(1), {.epoch = epoch, .server = 1}).status;
  };
  EXPECT_EQ(writeThere(kMax + 1, 'f', 2), Status::RetryLater) << "the source has named the hash";
  for (uint64_t i = 2; i <= kMax; ++i) EXPECT_EQ(writeThere(i, 'o', 2), Status::Ok) << i;
  EXPECT_EQ(writeThere(kMax + 1, 'o', 2), Status::RetryLater) << "a place is kept for the one that is to arrive";
  keepLogOf(0);
  ASSERT_EQ(recoverOver(0, 1, 3), Status::Ok);
  ASSERT_EQ(pullEnd(1, 1).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, 3, 1, false), Status::Ok);
  for (const char family : {'f', 'o'}) {
    EXPECT_EQ(writeThere(kMax + 1, family, 3), Status::TooLarge) << family;
    for (uint64_t i = 1; i <= kMax; ++i) EXPECT_EQ(read(collidingKey(i, family), 3, 1).status, Status::Ok) << i;
  }
  // The next owner is told of what has arrived and of what was written here.
  const store::CrowdedHashes::List crowded =
      world.servers[1]->master().store().crowdedHashes().list(TableId(kTable), {0, kLast});
  EXPECT_EQ(crowded.hashes.size(), 2u);
}

/// Keys that arrive last, of which nothing is there, and that do not exist.
TEST_F(MasterHandOverTest, RequestsOfSeveralKeysWaitForAllOfThemTogether) {
  size_t from = 0;
  size_t to = 0;
  ASSERT_NO_FATAL_FAILURE(begin(from, to));
  std::vector<uint64_t> numbers;
  for (int i = 0; i < 20; ++i) {
    numbers.push_back(lastKey());
    keys.erase(numbers.back());
  }
  ASSERT_NO_FATAL_FAILURE(handOver(2, 0, kLast, 1, 2, to, from));
  ASSERT_EQ(lend(2, 1, from), Status::Ok);
  ASSERT_EQ(takeArriving(2, 0, kLast, 2, to), Status::Ok);
  const master::PriorityPulls::Stats& waits = world.servers[to]->master().migrationTarget()->waitStats();

  auto read_bytes = join({bytesOf(wire::MultiRead::Request{.header = header(Opcode::MultiRead, to), .count = 11})});
  const auto addRead = [&](const std::string& key) {
    auto part =
        join({bytesOf(wire::MultiRead::RequestPart{
                  .epoch = TabletEpoch(2), .table = TableId(kTable), .key_bytes = static_cast<uint16_t>(key.size())}),
              asBytes(key)});
    part.resize(alignUp(part.size(), 8));
    read_bytes.insert(read_bytes.end(), part.begin(), part.end());
  };
  for (size_t i = 0; i < 10; ++i) addRead(keyBytes(numbers[i]));
  addRead("none");
  const auto answered = world.send(read_bytes, to);
  ASSERT_EQ(answered->outcome(), Status::Ok);
  EXPECT_EQ(waits.waits.load(), 1u) << "one wait for all of them";
  const std::string read_answer = bytesOfAnswer(*answered);
  wire::Cursor cursor(asBytes(read_answer));
  wire::MultiRead::Response response{};
  ASSERT_TRUE(cursor.take(response));
  for (size_t i = 0; i < 11; ++i) {
    wire::MultiRead::ResponsePart part{};
    ASSERT_TRUE(cursor.take(part));
    EXPECT_EQ(part.status, i < 10 ? Status::Ok : Status::NotFound) << i;
    if (i < 10) EXPECT_EQ(part.version, highest[keyBytes(numbers[i])]);
  }

  auto write_bytes = join({bytesOf(wire::MultiMutate::Request{
      .header = header(Opcode::MultiMutate, to), .client = ClientId(1), .acknowledged = Sequence(0), .count = 10})});
  for (size_t i = 10; i < 20; ++i) {
    const std::string key = keyBytes(numbers[i]);
    auto part = join({bytesOf(wire::MultiMutate::RequestPart{.sequence = Sequence(nextSequence(1)),
                                                             .epoch = TabletEpoch(2),
                                                             .condition_version = 0,
                                                             .table = TableId(kTable),
                                                             .value_bytes = 0,
                                                             .key_bytes = static_cast<uint16_t>(key.size()),
                                                             .kind = wire::MultiMutate::Kind::Remove,
                                                             .condition = Condition::MustExist}),
                      asBytes(key)});
    part.resize(alignUp(part.size(), 8));
    write_bytes.insert(write_bytes.end(), part.begin(), part.end());
    model.erase(key);
  }
  const auto removed = world.send(write_bytes, to);
  ASSERT_EQ(removed->outcome(), Status::Ok);
  EXPECT_EQ(waits.waits.load(), 2u);
  const std::string write_answer = bytesOfAnswer(*removed);
  wire::Cursor results(asBytes(write_answer));
  wire::MultiMutate::Response written{};
  ASSERT_TRUE(results.take(written));
  for (size_t i = 10; i < 20; ++i) {
    wire::MultiMutate::ResponsePart part{};
    ASSERT_TRUE(results.take(part));
    EXPECT_EQ(part.status, Status::Ok) << i;
    EXPECT_EQ(part.version, highest[keyBytes(numbers[i])]) << "of what was removed";
  }
  EXPECT_LT(world.servers[to]->master().index().entryCount(), kLarge - 500) << "too much has arrived to show anything";
  ASSERT_EQ(pullProgress(2, to, control::PULL_JOINED).phase(), control::PULL_JOINED);
  ASSERT_EQ(take(2, 0, kLast, 2, to, false), Status::Ok);
  for (size_t i = 0; i < 10; ++i) keys.insert(numbers[i]);
  expectAll(to, 2);
}

/// The tombstone of a removed key is needed as long as the former owner's log counts, and the cleaner of the new owner
/// knows nothing of that log.
TEST_F(MasterHandOverTest, WhatWasRemovedStaysRemovedHoweverMuchIsCleaned) {
  fill(0, 100, "old");
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  ASSERT_EQ(pullProgress(1, 1, control::PULL_JOINED).phase(), control::PULL_JOINED);
  removeAll(0, 50, 1, 2);
  const auto cleaned = [&] { return world.servers[1]->master().log()->stats().segments_cleaned.load(); };
  const uint64_t before = cleaned();
  for (int round = 0; round < 4'000 && cleaned() < before + 60; ++round) {
    put(1000 + static_cast<uint64_t>(round % 20), std::string(900, 'y'), 1, 2);
  }
  ASSERT_GE(cleaned(), before + 60);
  keepLogOf(1);
  ASSERT_EQ(recoverOver(1, 0, 3), Status::Ok);
  ASSERT_EQ(pullEnd(1, 0).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, 3, 0, false), Status::Ok);
  expectAll(0, 3);
}

TEST_F(MasterHandOverTest, TheFormerOwnerReplaysTheNewOnesLogOverWhatItHas) {
  fill(0, 300, "old");
  removeAll(0, 20, 0, 1);
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  fill(20, 60, "written by the new owner", 1, 2);
  fill(300, 320, "new", 1, 2);
  removeAll(60, 100, 1, 2);
  removeAll(300, 305, 1, 2);
  keepLogOf(1);
  ASSERT_EQ(recoverOver(1, 0, 3), Status::Ok);
  ASSERT_EQ(pullEnd(1, 0).status(), 0u);
  EXPECT_EQ(read(keyOf(200), 1, 0).status, Status::WrongServer) << "until it is granted";
  ASSERT_EQ(take(1, 0, kLast, 3, 0, false), Status::Ok);
  expectAll(0, 3);
  expectOwnLogSaysTheSame(0);
}

/// What the new owner's log has lost may have had any version above those of the former owner, which may be high.
TEST_F(MasterHandOverTest, VersionsAfterALossAreAboveThoseOfBothServers) {
  constexpr Version kHigh = Version{1} << 42;
  fill(0, 20, "old");
  world.servers[0]->master().store().raiseSafeVersion(kHigh);
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  put(5, "written by the new owner, and lost", 1, 2);
  put(100, "another one", 1, 2);
  ASSERT_GT(highest[keyOf(100)], kHigh);
  log.clear();
  ASSERT_EQ(recoverOver(1, 0, 3, firstSegment(1), true), Status::Ok);
  ASSERT_EQ(pullEnd(1, 0).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, 3, 0, false), Status::Ok);
  EXPECT_EQ(read(keyOf(5), 3, 0).value, "old");
  EXPECT_GT(read(keyOf(5), 3, 0).version, highest[keyOf(5)]);
  // put() expects a version above every one that the key ever had.
  for (const uint64_t number : {5, 7, 100}) put(number, "again", 0, 3);
}

TEST_F(MasterHandOverTest, ASurvivorKeepsWhatItHasWhenAnAttemptIsGivenUp) {
  fill(0, 100, "old");
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  fill(0, 10, "written by the new owner", 1, 2);
  keepLogOf(1);
  backups.back()->refuse = [](const wire::ReadReplica::Request&) { return Status::RetryLater; };
  ASSERT_EQ(recoverOver(1, 0, 3), Status::Ok);
  world.runFor(100 * kNanosPerMilli);
  control::DropTabletRequest give_up;
  give_up.set_tablet(1);
  give_up.set_epoch(3);
  give_up.set_keeps_tablet(true);
  ASSERT_EQ(world.command(Opcode::DropTablet, give_up, 0)->outcome(), Status::Ok);
  EXPECT_EQ(world.servers[0]->master().index().entryCount(), 100u);
  backups.back()->refuse = {};
  EXPECT_EQ(recoverOver(1, 0, 3), Status::StaleEpoch) << "a late copy of the order";
  ASSERT_EQ(recoverOver(1, 0, 4), Status::Ok);
  ASSERT_EQ(pullEnd(1, 0).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, 4, 0, false), Status::Ok);
  expectAll(0, 4);
}

TEST_F(MasterHandOverTest, IfBothAreDeadBothLogsAreReplayedTogether) {
  fill(0, 200, "old");
  removeAll(0, 20, 0, 1);
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  fill(20, 60, "written by the new owner", 1, 2);
  removeAll(60, 100, 1, 2);
  // Segments of both logs have the same numbers: each has a backup of its own.
  const auto former = copyLog(world.servers[0]->master());
  const auto present = copyLog(world.servers[1]->master());
  log = former;
  backups.back()->segments = former;
  control::RecoverTabletsRequest ask = request();
  addTablet(ask, 1, 0, kLast, 3, firstSegment(0).value);
  control::LogRef& second_log = *ask.mutable_tablets(0)->mutable_logs(0);
  second_log.set_server(world.addresses[1].id);
  second_log.set_first_segment(firstSegment(1).value);
  log = present;
  addBackup();
  control::DeadLog& second = *ask.mutable_second();
  second.set_dead(world.addresses[1].id);
  control::ReplicaHolder& holder = *second.add_holders();
  holder.set_id(backups.back()->process.identity.id);
  holder.add_locators(backups.back()->process.locator().toString());
  for (const auto& [id, bytes] : present) {
    control::RecoverySegment& segment = *second.add_segments();
    segment.set_segment(id);
    segment.add_holders(0);
    segment.add_replicas()->set_length_bytes(static_cast<uint32_t>(bytes.size()));
  }
  ASSERT_EQ(recover(ask, 2), Status::Ok);
  ASSERT_EQ(pullEnd(1, 2).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, 3, 2, false), Status::Ok);
  expectAll(2, 3);
  expectOwnLogSaysTheSame(2);
}

/// An overwritten key has a version above those of new keys. If versions began below it at the new owner, a new object
/// there would lose to an older one that arrives after it.
TEST_F(MasterHandOverTest, VersionsOfTheNewOwnerBeginAboveAllOfTheFormerOne) {
  for (int i = 0; i < 20; ++i) put(1, "again", 0, 1);
  const Version former = model.at(keyOf(1)).version;
  ASSERT_GE(former, 20u);
  ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, 1, 0));
  EXPECT_GT(world.servers[1]->master().store().safeVersionNow(), former);
  ASSERT_EQ(lend(1, 1, 0), Status::Ok);
  ASSERT_EQ(takeArriving(1, 0, kLast, 2, 1), Status::Ok);
  put(2, "new", 1, 2);
  EXPECT_GT(model.at(keyOf(2)).version, former);
}

}  // namespace
}  // namespace ramcore::sim::raw
