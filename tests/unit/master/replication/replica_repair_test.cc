/// Replicas when servers come and go, or are full: how many there are, where, and until when.

#include <gtest/gtest.h>

#include "log/cleaning/compaction.h"
#include "master/replication/replica_manager.h"
#include "unit/master/replication/replica_fixture.h"

namespace ramcore::master {
namespace {

using Mode = ScriptedBackup::Mode;
class ReplicaRepairTest : public ReplicaTest {
 protected:
  size_t closedAt(uint64_t id, uint64_t first, uint64_t last) {
    size_t count = 0;
    for (uint64_t segment = first; segment <= last; ++segment) {
      count += static_cast<size_t>(backup(id).hasClosed(SegmentId(segment)));
    }
    return count;
  }
  std::vector<uint64_t> closedOn(SegmentId segment) {
    std::vector<uint64_t> ids;
    for (uint64_t id = 1; id <= backups_.size(); ++id) {
      if (backup(id).hasClosed(segment)) ids.push_back(id);
    }
    return ids;
  }
  /// A backup says that it has lost its replica.
  void lose(uint64_t id, SegmentId segment, uint64_t epoch) {
    server_.onDispatch([&] { manager_->noteLostReplica(ServerId(id), segment, epoch); });
  }
};

TEST_F(ReplicaRepairTest, FewerServersThanReplicasAreEnoughDownToTheLeast) {
  start(3, {1, 2, 3});
  EXPECT_EQ(manager_->writeStatus(), Status::Ok);
  setMembers({1, 2});
  EXPECT_EQ(manager_->writeStatus(), Status::Ok);
  const LogPosition with_two = put("a");
  EXPECT_TRUE(becomesDurable(with_two));
  EXPECT_EQ(floors_.stored, (std::vector<ScriptedFloors::Floor>{{SegmentId(1), 2}})) << "shrinking needs a floor";
  setMembers({1});
  EXPECT_EQ(manager_->writeStatus(), Status::TooFewReplicas);
  const LogPosition with_one = put("b");
  EXPECT_FALSE(becomesDurable(with_one));
  EXPECT_EQ(floors_.stored.size(), 1U) << "one replica must not pass for the head's";
  EXPECT_EQ(counts().wanted, 3U);
  setMembers({1, 3});
  EXPECT_EQ(manager_->writeStatus(), Status::Ok);
  EXPECT_TRUE(becomesDurable(with_one));
  EXPECT_EQ(holders(with_one, 2), (std::vector<uint64_t>{1, 3}));
  setMembers({1, 2, 3});
  const LogPosition with_three = put("c");
  EXPECT_TRUE(becomesDurable(with_three));
  ASSERT_TRUE(comesTrue([&] { return holders(with_three, 2).size() == 3; }));
  EXPECT_EQ(counts().least, 3U);
}

// The next head is opened ahead of need. While no backup takes it, writes are refused instead of being left waiting.
TEST_F(ReplicaRepairTest, WritersAreToldThatNoServerHasPlace) {
  start(3, {1, 2, 3});
  for (const uint64_t id : {2, 3}) {
    backup(id).mode = Mode::Refuse;
    backup(id).refusal = Status::NoSpace;
    backup(id).spared = SegmentId(1);
  }
  server_.onDispatch([this] { log_->requestRoll(); });
  runFor(500 * kMilli);
  EXPECT_EQ(manager_->writeStatus(), Status::Ok) << "they may be about to free something";
  const LogPosition in_time = put("a");
  EXPECT_TRUE(becomesDurable(in_time)) << "the present head has its replicas";
  EXPECT_TRUE(comesTrue([this] { return manager_->writeStatus() == Status::TooFewReplicas; }, 1500 * kMilli));
  runFor(5000 * kMilli);
  EXPECT_EQ(manager_->writeStatus(), Status::TooFewReplicas) << "also while it asks them again";
  for (const uint64_t id : {2, 3}) backup(id).mode = Mode::Answer;
  EXPECT_TRUE(comesTrue([this] { return manager_->writeStatus() == Status::Ok; }, 5000 * kMilli));
  EXPECT_TRUE(comesTrue([this] { return log_->headId() == SegmentId(2); }));
}

// The storage frames that backups keep for small heads let removals go on, and passes of the cleaner end.
TEST_F(ReplicaRepairTest, AHeadThatFindsNoPlaceGivesWayToASmallOne) {
  start(3, {1, 2, 3});
  for (const uint64_t id : {2, 3}) backup(id).is_full = true;
  server_.onDispatch([this] { log_->requestRoll(); });
  ASSERT_TRUE(comesTrue([this] { return manager_->isShortOfPlaces(); }));
  EXPECT_EQ(manager_->storagePercent(), 100U);
  ASSERT_TRUE(comesTrue([this] { return manager_->writeStatus() == Status::TooFewReplicas; }, 1500 * kMilli));
  EXPECT_EQ(manager_->removeStatus(), Status::Ok);
  EXPECT_EQ(log_->headId(), SegmentId(1));
  EXPECT_TRUE(backup(1).kept.contains(SegmentId(2)));
  EXPECT_FALSE(backup(1).holds(SegmentId(2), 0)) << "a recovery must not find a head that may be given up";
  // Requests a head as the end of a pass does.
  server_.onDispatch([this] { log_->heads().requestRollForPass(); });
  ASSERT_TRUE(comesTrue([this] { return log_->headId() > SegmentId(2); }));
  const SegmentId small = log_->headId();
  EXPECT_TRUE(comesTrue([this] { return std::ranges::count(backup(1).freed, SegmentId(2)) == 1; }));
  EXPECT_FALSE(backup(1).kept.contains(SegmentId(2)));
  for (const uint64_t id : {1, 2, 3}) EXPECT_TRUE(backup(id).holds(small, 0)) << id;
  EXPECT_TRUE(manager_->isShortOfPlaces()) << "a small head says nothing about others";
  EXPECT_EQ(manager_->writeStatus(), Status::TooFewReplicas);
  EXPECT_EQ(manager_->removeStatus(), Status::Ok);
  setMembers({1});
  EXPECT_EQ(manager_->removeStatus(), Status::TooFewReplicas) << "removals need copies, too";
  setMembers({1, 2, 3});
  EXPECT_EQ(manager_->removeStatus(), Status::Ok);
  for (const uint64_t id : {2, 3}) backup(id).is_full = false;
  EXPECT_TRUE(comesTrue([this] { return !manager_->isShortOfPlaces(); }, 5000 * kMilli));
  EXPECT_TRUE(comesTrue([this] { return manager_->writeStatus() == Status::Ok; }, 500 * kMilli));
  EXPECT_TRUE(comesTrue([&] { return log_->headId() > small; })) << "writes go on in a head of theirs";
  EXPECT_TRUE(becomesDurable(put("a")));
}

// The withdrawal comes too late: a head that a recovery could find is opened.
TEST_F(ReplicaRepairTest, AHeadThatFindsItsPlacesIsNotWithdrawn) {
  start(3, {1, 2, 3});
  for (const uint64_t id : {2, 3}) backup(id).is_full = true;
  server_.onDispatch([this] { log_->requestRoll(); });
  ASSERT_TRUE(comesTrue([this] { return manager_->isShortOfPlaces(); }));
  for (const uint64_t id : {2, 3}) backup(id).is_full = false;
  ASSERT_TRUE(comesTrue([this] { return log_->headId() == SegmentId(2); }, 5000 * kMilli));
  server_.onDispatch([this] { manager_->withdraw(SegmentId(2)); });
  runFor(500 * kMilli);
  EXPECT_EQ(log_->headId(), SegmentId(2));
  EXPECT_TRUE(becomesDurable(put("a")));
  EXPECT_TRUE(backup(1).freed.empty());
}

// A recovery could find the head, so it cannot be given up; and while it has too few replicas no head can follow it.
TEST_F(ReplicaRepairTest, AHeadThatHasLostAReplicaMayHaveAPlaceThatIsKeptForSurvivors) {
  start(3, {1, 2}, {.replicas = 2, .min_replicas = 2});
  EXPECT_TRUE(becomesDurable(put("a")));
  backup(3).is_full = true;
  setMembers({1, 3});
  EXPECT_TRUE(becomesDurable(put("b")));
  EXPECT_EQ(holders(owner_->end(), 2), (std::vector<uint64_t>{1, 3}));
}

// It says nothing about places for others. But no roll ends before it is closed, so who waits for one has to know.
TEST_F(ReplicaRepairTest, ASmallHeadThatLacksAPlaceIsStuckWhileOthersHaveTheirs) {
  start(3, {1, 2}, {.replicas = 2, .min_replicas = 2});
  for (const uint64_t id : {1, 2}) backup(id).is_full = true;
  server_.onDispatch([this] { log_->requestRoll(); });
  ASSERT_TRUE(comesTrue([this] { return manager_->isHeadStuck(); }));
  server_.onDispatch([this] { log_->heads().requestRollForPass(); });
  ASSERT_TRUE(comesTrue([this] { return log_->headId() > SegmentId(2); }));
  const SegmentId small = log_->headId();
  const SegmentId next = SegmentId(small.value + 1);
  backup(3).mode = Mode::Refuse;
  backup(3).refusal = Status::NoSpace;
  backup(3).spared = next;
  backup(1).is_full = false;
  setMembers({1, 3});
  ASSERT_TRUE(comesTrue([&] { return log_->headId() == next; }, 5000 * kMilli));
  ASSERT_TRUE(comesTrue([this] { return manager_->isHeadStuck(); }));
  runFor(5000 * kMilli);
  EXPECT_TRUE(manager_->isHeadStuck()) << "also between two attempts";
  EXPECT_FALSE(manager_->isShortOfPlaces()) << "the next head has its places";
  EXPECT_FALSE(log_->isRolled(next));
  backup(3).mode = Mode::Answer;
  EXPECT_TRUE(comesTrue([this] { return !manager_->isHeadStuck(); }, 5000 * kMilli));
  EXPECT_TRUE(comesTrue([&] { return log_->isRolled(next); }));
}

// Beyond the least number, replicas get only the storage frames that are not kept for cleaning: otherwise the cleaner,
// which makes room for them, would have none.
TEST_F(ReplicaRepairTest, FurtherCopiesLeavePlacesToSurvivors) {
  start(4, {1, 2, 3});
  log::Segment* side = nullptr;
  server_.onDispatch([&] {
    side = log_->privateSegments().open(log::SegmentKind::Side);
    log_->privateSegments().close(*side);
  });
  ASSERT_TRUE(comesTrue([&] { return side->state() == log::SegmentState::Closed; }));
  const SegmentId id = side->id();
  backup(4).is_full = true;
  setMembers({1, 2, 4});
  runFor(5000 * kMilli);
  EXPECT_EQ(closedOn(id), (std::vector<uint64_t>{1, 2, 3})) << "3 keeps what it has, and nobody counts it";
  setMembers({1, 4});
  EXPECT_TRUE(comesTrue([&] { return backup(4).hasClosed(id); })) << "one copy is too few";
  EXPECT_TRUE(becomesDurable(put("a")));
}

// A recovery gives other replicas away when it has all its own, so it waits for all of them: also for a server that is
// full, but not for one that fails.
TEST_F(ReplicaRepairTest, WhatIsToHaveAllCopiesWaitsForThoseThatHaveNoPlace) {
  start(3, {1, 2, 3});
  backup(3).mode = Mode::Refuse;
  backup(3).refusal = Status::NoSpace;
  log::Segment* least = nullptr;
  log::Segment* all = nullptr;
  server_.onDispatch([&] {
    least = log_->privateSegments().open(log::SegmentKind::Side);
    all = log_->privateSegments().open(log::SegmentKind::Side, 0, log::CopiesAwaited::All);
    log_->privateSegments().close(*least);
    log_->privateSegments().close(*all);
  });
  ASSERT_TRUE(comesTrue([&] { return least->state() == log::SegmentState::Closed; }));
  runFor(5000 * kMilli);
  EXPECT_EQ(all->state(), log::SegmentState::Closing);
  EXPECT_FALSE(all->hasPlaces());
  EXPECT_TRUE(all->lacksPlaces()) << "also while it is asked again";
  EXPECT_FALSE(least->lacksPlaces());
  backup(3).mode = Mode::Answer;
  ASSERT_TRUE(comesTrue([&] { return all->state() == log::SegmentState::Closed; }));
  EXPECT_EQ(closedOn(all->id()), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_FALSE(all->lacksPlaces());

  backup(3).mode = Mode::Refuse;
  backup(3).refusal = Status::NoSpace;
  log::Segment* first = nullptr;
  server_.onDispatch([&] {
    first = log_->privateSegments().open(log::SegmentKind::Side, 0, log::CopiesAwaited::All);
    log_->privateSegments().close(*first);
  });
  ASSERT_TRUE(comesTrue([&] { return first->lacksPlaces(); }));
  server_.onDispatch([&] { log_->replicator().awaitLeast(first->id()); });
  ASSERT_TRUE(comesTrue([&] { return first->state() == log::SegmentState::Closed; }));
  EXPECT_EQ(closedOn(first->id()), (std::vector<uint64_t>{1, 2}));
  EXPECT_FALSE(first->lacksPlaces());

  backup(3).mode = Mode::Refuse;
  backup(3).refusal = Status::IoError;
  log::Segment* another = nullptr;
  server_.onDispatch([&] {
    another = log_->privateSegments().open(log::SegmentKind::Side, 0, log::CopiesAwaited::All);
    log_->privateSegments().close(*another);
  });
  EXPECT_TRUE(comesTrue([&] { return another->state() == log::SegmentState::Closed; }));
  EXPECT_FALSE(another->lacksPlaces());
}

// Few segments are repaired at a time. Those that find no place do not keep a turn from one that does.
TEST_F(ReplicaRepairTest, CopiesThatFindNoPlaceDoNotKeepOthersFromTheirs) {
  start(4, {1, 2, 3});
  constexpr size_t kSegments = 8;
  std::vector<log::Segment*> sides;
  server_.onDispatch([&] {
    for (size_t i = 0; i < kSegments; ++i) {
      sides.push_back(log_->privateSegments().open(log::SegmentKind::Side));
      log_->privateSegments().close(*sides.back());
    }
  });
  const auto isClosed = [](const log::Segment* side) { return side->state() == log::SegmentState::Closed; };
  ASSERT_TRUE(comesTrue([&] { return std::ranges::all_of(sides, isClosed); }));
  backup(4).is_full = true;
  setMembers({1, 2, 4});
  runFor(5000 * kMilli);
  const SegmentId last = sides.back()->id();
  EXPECT_EQ(closedOn(last), (std::vector<uint64_t>{1, 2, 3}));
  lose(1, last, 1);
  lose(2, last, 1);
  EXPECT_TRUE(comesTrue([&] { return backup(4).hasClosed(last); }));
}

// After all servers have died, the storage is full of replicas that are to be recovered.
TEST_F(ReplicaRepairTest, AServerBeginsAndTakesSegmentsOverWhileStorageIsFull) {
  addBackups(3);
  for (const uint64_t id : {1, 2, 3}) backup(id).is_full = true;
  makeManager();
  setMembers({1, 2, 3});
  makeLog();
  ASSERT_TRUE(comesTrue([this] { return manager_->isShortOfPlaces(); }));
  const auto maintained = [this](const auto& what) {
    return comesTrue([&] {
      server_.onDispatch([this] { log_->maintain(); });
      return what();
    });
  };
  ASSERT_TRUE(maintained([this] { return log_->headId() != SegmentId(); }));
  SegmentId request;
  server_.onDispatch([&] { request = log_->heads().addToJoin({}); });
  EXPECT_TRUE(maintained([&] { return log_->isRolled(request); }));
  EXPECT_TRUE(comesTrue([this] { return manager_->writeStatus() == Status::TooFewReplicas; }, 2000 * kMilli))
      << "what is kept is not for writes";
  EXPECT_GE(log_->pool().freeSmallHeadCount(), 1U);
}

TEST_F(ReplicaRepairTest, AClosedReplicaThatIsLostIsMadeElsewhere) {
  start(4, {1, 2, 3, 4});
  put("a");
  roll();
  ASSERT_EQ(closedOn(SegmentId(1)).size(), 3U);
  const std::vector<uint64_t> before = closedOn(SegmentId(1));
  lose(before[1], SegmentId(1), 1);
  EXPECT_EQ(counts().least, 2U);
  EXPECT_EQ(counts().repairing, 1U);
  ASSERT_TRUE(comesTrue([this] { return closedOn(SegmentId(1)).size() == 4; }));
  ASSERT_TRUE(comesTrue([this] { return counts().least == 3; }));
  EXPECT_EQ(manager_->stats().repairs.load(), 1U);
  EXPECT_EQ(manager_->stats().replicas_lost.load(), 1U);
  lose(before[1], SegmentId(1), 1);
  lose(before[0], SegmentId(99), 1);
  lose(77, SegmentId(1), 1);
  EXPECT_EQ(manager_->stats().replicas_lost.load(), 1U) << "nothing that is not there";
}

TEST_F(ReplicaRepairTest, ALostReplicaIsMadeOnTheSameServerIfThereIsNoOther) {
  start(3, {1, 2, 3});
  put("a");
  roll();
  lose(2, SegmentId(1), 1);
  ASSERT_TRUE(comesTrue([this] { return counts().least == 3; }));
  EXPECT_GT(backup(2).kept[SegmentId(1)].epoch, 1U);
  EXPECT_TRUE(backup(2).hasClosed(SegmentId(1)));
  lose(2, SegmentId(1), 1);
  EXPECT_EQ(manager_->stats().replicas_lost.load(), 1U) << "it was told of the former one";
}

// A replica that is being made when the memory of its segment is compacted is made again from what is left, under
// another epoch. Replicas that are complete stay as they are.
TEST_F(ReplicaRepairTest, AHalfMadeReplicaOfACompactedSegmentIsBegunAgain) {
  start(3, {1, 2, 3});
  for (int i = 0; i < 60; ++i) put("key" + std::to_string(i), std::string(500, 'x'));
  roll();
  for (int i = 1; i < 60; ++i) put("key" + std::to_string(i), "new");
  roll();
  const SegmentId id(1);
  const size_t bytes_before = backup(1).kept[id].bytes.size();
  // The first write of the new replica is in flight, and is not answered before the segment has moved.
  backup(2).mode = Mode::Hold;
  backup(2).only = id;
  lose(2, id, 1);
  ASSERT_TRUE(comesTrue([&] { return !backup(2).held.empty(); }));
  log::SharedCopy copying(*log_, *owner_, 1);
  log::Compaction compaction(*log_, copying);
  log::Segment* const original = log_->pool().find(id);
  server_.onDispatch([&] { ASSERT_TRUE(compaction.begin(std::span(&original, 1))); });
  ASSERT_TRUE(comesTrue([&] {
    auto progress = log::Compaction::Progress::Waiting;
    server_.onDispatch([&] {
      rcu_.reclaim(16);
      progress = compaction.step(64 * 1024);
    });
    return progress == log::Compaction::Progress::Done;
  }));
  const uint64_t epoch_before = backup(2).kept[id].epoch;
  backup(2).mode = Mode::Answer;
  backup(2).release();
  ASSERT_TRUE(comesTrue([&] { return counts().least == 3 && backup(2).hasClosed(id); }));
  EXPECT_GT(backup(2).kept[id].epoch, epoch_before);
  EXPECT_LT(backup(2).kept[id].bytes.size(), bytes_before / 2);
  EXPECT_EQ(backup(2).kept[id].bytes.size(), log_->pool().find(id)->committedBytes());
  for (const uint64_t other : {1, 3}) EXPECT_EQ(backup(other).kept[id].bytes.size(), bytes_before);
}

// Four segments have a turn at a time. Those whose bytes cannot be restored do not keep their turns.
TEST_F(ReplicaRepairTest, SegmentsThatAreDamagedForGoodDoNotStopTheOthers) {
  start(4, {1, 2, 3});
  for (int i = 0; i < 8; ++i) {
    put("key" + std::to_string(i));
    roll();
  }
  std::vector<std::byte*> damaged;
  for (uint64_t id = 1; id <= 5; ++id) {
    const log::Segment& segment = *log_->pool().find(SegmentId(id));
    damaged.push_back(log_->pool().memory().at(segment.refAt(0)) + 9);
    *damaged.back() ^= std::byte{4};
  }
  setMembers({1, 2, 4});
  ASSERT_TRUE(comesTrue([this] { return closedAt(4, 6, 8) == 3; }));
  runFor(2000 * kMilli);
  EXPECT_EQ(closedAt(4, 1, 5), 0U) << "a copy of damage";
  EXPECT_EQ(counts().repairing, 5U);
  server_.onDispatch([&] {
    for (std::byte* const byte : damaged) *byte ^= std::byte{4};
  });
  ASSERT_TRUE(comesTrue([this] { return closedAt(4, 1, 8) == 8; }));
  EXPECT_EQ(counts().least, 3U);
}

// How full the storage is that survivors need, as the cleaner is told.
TEST_F(ReplicaRepairTest, StorageIsAsFullAsTheServersOwnOrFullIfNobodyTakesAHead) {
  struct Gauge final : BackupGauge {
    uint64_t framesTotal() const override { return 400; }
    uint64_t framesKept() const override { return 100; }
    uint64_t framesFree() const override { return free; }
    uint64_t storageBytes() const override { return 0; }
    uint64_t storageBytesNeeded() const override { return 0; }
    bool hasFailed() const override { return false; }
    uint64_t free = 175;
  } gauge;
  gauge_ = &gauge;
  start(3, {1, 2, 3});
  put("a");
  roll();
  EXPECT_EQ(manager_->storagePercent(), 75U);
  gauge.free = 400;
  put("b");
  roll();
  EXPECT_EQ(manager_->storagePercent(), 0U);
  for (const uint64_t id : {2, 3}) backup(id).mode = Mode::Refuse;
  server_.onDispatch([this] { log_->requestRoll(); });
  EXPECT_TRUE(comesTrue([this] { return manager_->storagePercent() == 100U; }));
}

TEST_F(ReplicaRepairTest, AnOpenReplicaThatIsSaidToBeLostIsReplacedLikeAnyOther) {
  start(4, {1, 2, 3, 4});
  const LogPosition earlier = put("a");
  ASSERT_TRUE(becomesDurable(earlier));
  lose(holders(earlier).front(), SegmentId(1), ~uint64_t{0});
  const LogPosition later = put("b");
  EXPECT_TRUE(becomesDurable(later));
  EXPECT_EQ(counts().least, 3U);
}

TEST_F(ReplicaRepairTest, ABackupThatPutsOffToFreeIsNotAskedWithoutPause) {
  start(3, {1, 2, 3});
  log::Segment* side = nullptr;
  server_.onDispatch([&] { side = log_->privateSegments().open(log::SegmentKind::Side); });
  server_.onDispatch([&] { log_->privateSegments().close(*side); });
  ASSERT_TRUE(comesTrue([&] { return side->state() == log::SegmentState::Closed; }));
  backup(1).frees_refused = 1'000'000;
  server_.onDispatch([&] { log_->privateSegments().drop(*side); });
  ASSERT_TRUE(comesTrue([this] { return !backup(1).freed.empty(); }));
  runFor(1000 * kMilli);
  EXPECT_GE(backup(1).freed.size(), 5U);
  EXPECT_LE(backup(1).freed.size(), 30U);
  backup(1).frees_refused = 0;
  const size_t asked = backup(1).freed.size();
  ASSERT_TRUE(comesTrue([&] { return backup(1).freed.size() > asked; }));
  runFor(1000 * kMilli);
  EXPECT_EQ(backup(1).freed.size(), asked + 1);
}

// Members may be known before this server has its id, and there may be no later report of them.
TEST_F(ReplicaRepairTest, ItsOwnServerIsNotCountedWhoeverComesFirst) {
  addBackups(1);
  makeManager();
  setMembers({1});
  makeLog();
  EXPECT_EQ(manager_->writeStatus(), Status::TooFewReplicas);
}

TEST_F(ReplicaRepairTest, ALocalReplicaIsOnThisServerAndNowhereElse) {
  addBackups(2);
  backups_.push_back(std::make_unique<ScriptedBackup>(server_, kSelf));
  makeManager({.replicas = 3, .min_replicas = 2, .local_replica = true});
  setMembers({1, 2});
  makeLog();
  ASSERT_TRUE(comesTrue([this] { return log_->headId() == SegmentId(1); }));
  EXPECT_EQ(manager_->writeStatus(), Status::Ok);
  const LogPosition end = put("a");
  EXPECT_TRUE(becomesDurable(end));
  EXPECT_EQ(holders(end), std::vector<uint64_t>{kSelf});
  EXPECT_TRUE(backup(1).writes.empty() && backup(2).writes.empty());
  EXPECT_EQ(counts().wanted, 1U);
}

TEST_F(ReplicaRepairTest, ReplicasAreInDifferentFailureDomainsWhereThereAreEnough) {
  domains_ = {{1, "a"}, {2, "a"}, {3, "b"}, {4, "c"}};
  start(4, {1, 2, 3, 4});
  for (int i = 0; i < 6; ++i) roll();
  for (uint64_t segment = 1; segment <= 6; ++segment) {
    const bool first = backup(1).hasClosed(SegmentId(segment));
    const bool second = backup(2).hasClosed(SegmentId(segment));
    EXPECT_NE(first, second) << segment;
    EXPECT_TRUE(backup(3).hasClosed(SegmentId(segment)) && backup(4).hasClosed(SegmentId(segment))) << segment;
  }
  // Two replicas in one failure domain are better than too few.
  setMembers({1, 2, 3});
  EXPECT_TRUE(comesTrue([this] { return closedAt(1, 1, 6) == 6 && closedAt(2, 1, 6) == 6; }));
}

TEST_F(ReplicaRepairTest, ClosedSegmentsAreCopiedAgainAFewAtATime) {
  start(4, {1, 2, 3});
  for (int i = 0; i < 9; ++i) roll();
  backup(4).mode = Mode::Hold;
  setMembers({1, 2, 4});
  runFor(200 * kMilli);
  std::set<SegmentId> closed = backup(4).heldSegments();
  std::erase_if(closed, [](SegmentId id) { return id > SegmentId(9); });
  EXPECT_EQ(closed.size(), 4U);
  EXPECT_EQ(counts().repairing, 10U);
  EXPECT_EQ(counts().least, 2U);
  server_.onDispatch([this] {
    for (uint64_t id = 1; id <= 9; ++id) EXPECT_TRUE(manager_->isNeeded(SegmentId(id))) << id;
  });
  backup(4).mode = Mode::Answer;
  backup(4).release();
  EXPECT_TRUE(comesTrue([this] { return counts().repairing == 0; }));
  EXPECT_EQ(closedAt(4, 1, 9), 9U);
  EXPECT_EQ(counts().least, 3U);
  EXPECT_TRUE(std::all_of(floors_.stored.begin(), floors_.stored.end(), [](const auto& floor) {
    return floor.first == SegmentId(10);
  })) << "what is closed needs no floor";
}

// Turns that come free while nothing else happens go to the segments that wait, also to those with lower ids.
TEST_F(ReplicaRepairTest, RepairsGoOnWhenAllTurnsComeFreeAtOnce) {
  start(5, {1, 2, 3});
  for (int i = 0; i < 4; ++i) roll();
  // The replicas of later segments are on 2, 3 and 4.
  backup(1).mode = Mode::Refuse;
  setMembers({1, 2, 3, 4});
  ASSERT_TRUE(becomesDurable(put("x")));
  ASSERT_EQ(manager_->stats().replicas_lost.load(), 1U);
  for (int i = 0; i < 6; ++i) roll();
  // The later segments lose a replica, and have all turns to make another one. Meanwhile the earlier ones lose one,
  // too.
  backup(1).mode = Mode::Answer;
  backup(5).mode = Mode::Hold;
  backup(5).spared = log_->headId();  // an answer about the head would have all segments stepped
  setMembers({1, 2, 3, 5});
  runFor(50 * kMilli);
  const std::set<SegmentId> held = backup(5).heldSegments();
  ASSERT_EQ(held.size(), 4U);
  ASSERT_GT(*held.begin(), SegmentId(4));
  setMembers({2, 3, 5});
  runFor(50 * kMilli);
  // All four answers are there when the server looks again.
  server_.node.pause();
  backup(5).mode = Mode::Answer;
  backup(5).release();
  runFor(10 * kMilli);
  server_.node.resume();
  EXPECT_TRUE(comesTrue([this] { return closedAt(5, 1, 10) == 10; }));
}

// While all writers wait nothing new is written: only a timer has the backup tried again.
TEST_F(ReplicaRepairTest, ABackupThatFailedIsTriedAgainThoughNobodyWrites) {
  start(2, {1, 2});
  backup(2).mode = Mode::Refuse;
  const LogPosition end = put("a");
  EXPECT_FALSE(becomesDurable(end, 1000 * kMilli));
  backup(2).mode = Mode::Answer;
  EXPECT_TRUE(becomesDurable(end));
  EXPECT_EQ(holders(end, 2), (std::vector<uint64_t>{1, 2}));
}

TEST_F(ReplicaRepairTest, WhatIsFreedIsToldToEverybodyWhoEverHadIt) {
  start(4, {1, 2, 3, 4});
  log::Segment* side = nullptr;
  server_.onDispatch([&] { side = log_->privateSegments().open(log::SegmentKind::Side); });
  const SegmentId id = side->id();
  runFor(50 * kMilli);
  uint64_t former = 0;
  for (const uint64_t number : {1, 2, 3, 4}) {
    if (backup(number).kept.contains(id)) former = number;
  }
  ASSERT_NE(former, 0U);
  // One of its holders fails when it is closed.
  backup(former).mode = Mode::Refuse;
  backup(former).only = id;
  server_.onDispatch([&] { log_->privateSegments().close(*side); });
  ASSERT_TRUE(comesTrue([&] { return side->state() == log::SegmentState::Closed; }));
  backup(former).mode = Mode::Answer;
  const uint64_t away = former == 1 ? 2 : 1;
  backup(away).frees_refused = 3;
  server_.onDispatch([&] { log_->privateSegments().drop(*side); });
  EXPECT_TRUE(comesTrue([&] {
    return std::all_of(backups_.begin(), backups_.end(), [](const auto& backup) { return !backup->freed.empty(); });
  }));
  for (const auto& backup : backups_) {
    EXPECT_EQ(backup->freed.front(), id);
    EXPECT_FALSE(backup->kept.contains(id));
  }
  runFor(1000 * kMilli);
  EXPECT_EQ(backup(away).freed.size(), 4U);
  EXPECT_EQ(backup(former).freed.size(), 1U);
}

// The thread that frees a segment need not wait for the dispatch thread before it uses the memory for another one.
TEST_F(ReplicaRepairTest, ASegmentIsNotLookedAtAnyMoreOnceItIsFreed) {
  start(3, {1, 2, 3});
  log::Segment* side = nullptr;
  for (const uint64_t id : {1, 2, 3}) backup(id).mode = Mode::Hold;
  server_.onDispatch([&] { side = log_->privateSegments().open(log::SegmentKind::Side); });
  const SegmentId id = side->id();
  ASSERT_TRUE(comesTrue([&] {
    return std::all_of(backups_.begin(), backups_.end(), [](const auto& backup) { return backup->held.size() == 1; });
  }));
  // The answers have arrived when another thread frees the segment, and uses its memory again.
  server_.node.pause();
  for (const uint64_t number : {1, 2, 3}) {
    backup(number).mode = Mode::Answer;
    backup(number).writes.clear();
    backup(number).release();
  }
  runFor(10 * kMilli);
  log_->privateSegments().drop(*side);
  for (uint64_t now_ns = 1; log_->reclaim(now_ns) != 0; ++now_ns) rcu_.reclaim(16);
  std::vector<log::Segment*> others;
  do {
    others.push_back(log_->privateSegments().open(log::SegmentKind::Side));
    ASSERT_NE(others.back(), nullptr);
  } while (others.back() != side);
  log_->privateSegments().close(*side);
  server_.node.resume();
  ASSERT_TRUE(comesTrue([&] { return side->state() == log::SegmentState::Closed; }));
  for (const uint64_t number : {1, 2, 3}) {
    EXPECT_TRUE(std::none_of(backup(number).writes.begin(), backup(number).writes.end(),
                             [id](const auto& write) { return write.segment == id; }));
    EXPECT_TRUE(comesTrue([&] { return !backup(number).kept.contains(id); }));
  }
}

TEST_F(ReplicaRepairTest, AnEndInTheMiddleOfEverythingLeavesNothing) {
  start(5, {1, 2, 3});
  for (int i = 0; i < 6; ++i) roll();
  log::Segment* side = nullptr;
  server_.onDispatch([&] { side = log_->privateSegments().open(log::SegmentKind::Side); });
  floors_.holding = true;
  backup(4).mode = Mode::Hold;
  backup(5).mode = Mode::Refuse;
  backup(5).refusal = Status::RetryLater;
  backup(1).frees_refused = 1'000'000;
  setMembers({1, 2, 5});
  const LogPosition end = put("a");
  server_.onDispatch([&] { log_->privateSegments().drop(*side); });
  runFor(50 * kMilli);
  setMembers({1, 2, 4});
  put("b");
  runFor(50 * kMilli);
  stop();
  backup(4).mode = Mode::Answer;
  backup(4).release();
  runFor(10 * kMilli);
  std::vector<size_t> heard;
  for (const auto& backup : backups_) heard.push_back(backup->writes.size() + backup->freed.size());
  put("c");
  runFor(5000 * kMilli);
  for (size_t i = 0; i < heard.size(); ++i) {
    EXPECT_EQ(heard[i], backups_[i]->writes.size() + backups_[i]->freed.size()) << i + 1;
  }
  EXPECT_FALSE(log_->durability().isDurable(end));
  server_.onDispatch([this] { manager_->stop(); });
}

// A call of another thread may be the last thing that happens before the end.
TEST_F(ReplicaRepairTest, ItIsNotIdleWhileTheDispatchHasToCallIt) {
  start(3, {1, 2, 3});
  stop();
  server_.node.pause();
  manager_->free(SegmentId(99));
  EXPECT_FALSE(manager_->isIdle());
  server_.node.resume();
  EXPECT_TRUE(comesTrue([this] { return manager_->isIdle(); }));
}

}  // namespace
}  // namespace ramcore::master
