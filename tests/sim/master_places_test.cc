/// Recovery masters whose copies find no places: they give back all that they have taken, and what is recovered later
/// is whole.

#include <gtest/gtest.h>

#include "sim/recovery_fixture.h"

namespace ramcore::sim::raw {
namespace {

using Lacking = SimReplicator::Lacking;

class MasterPlacesTest : public MasterRecoveryTest {
 protected:
  static constexpr size_t kMaster = 2;

  MasterPlacesTest() { EXPECT_EQ(addReplicatedServer(), kMaster); }

  SimReplicator& replicator() { return *world.servers[kMaster]->replicator(); }
  const master::Master& master() { return world.servers[kMaster]->master(); }
  /// A log of several segments, with objects that are dead in it.
  void live() {
    runtime::Random random(5);
    mutateRandomly(random, 40, 900);
    die();
    addBackup();
  }
  Status begin(uint64_t epoch) { return recover(wholeTable(epoch), kMaster); }
  control::PullProgressResponse progressNow() {
    control::PullProgressResponse progress;
    EXPECT_EQ(MasterServiceTest::progressNow(5, kMaster, progress), Status::Ok);
    return progress;
  }
  /// Expects that nothing is left of an attempt: no entry, no result, no place, no tablet.
  void expectNothingIsHeld(size_t places_before) {
    EXPECT_TRUE(world.runUntil([&] { return replicator().placeCount() <= places_before; }))
        << replicator().placeCount() << " segments have places or wait for some, before it were " << places_before;
    EXPECT_EQ(master().index().entryCount(), 0u);
    EXPECT_EQ(master().results().recordCount(), 0u);
    EXPECT_TRUE(master().tablets().list().empty());
  }
  void expectRecovered(uint64_t epoch) {
    ASSERT_EQ(begin(epoch), Status::Ok);
    ASSERT_EQ(static_cast<Status>(pullEnd(5, kMaster).status()), Status::Ok);
    ASSERT_EQ(take(5, 0, kLast, epoch, kMaster, false), Status::Ok);
    expectModel(epoch, kMaster);
    expectOwnLogSaysTheSame(kMaster);
    put(1, "again", kMaster, epoch);
  }
};

TEST_F(MasterPlacesTest, AnAttemptThatFindsNoPlacesGivesAllBackAndTheNextOneIsWhole) {
  live();
  const size_t places = replicator().placeCount();
  replicator().lackPlaces(Lacking::Sides);
  ASSERT_EQ(begin(2), Status::Ok);
  const int64_t began_ns = world.scheduler.nowNs();
  ASSERT_TRUE(world.runUntil([&] { return progressNow().lacks_places(); })) << "it says so before";
  EXPECT_FALSE(progressNow().done());
  const control::PullProgressResponse end = pullEnd(5, kMaster);
  EXPECT_EQ(static_cast<Status>(end.status()), Status::TooFewReplicas);
  EXPECT_TRUE(end.lacks_places());
  EXPECT_GE(world.scheduler.nowNs() - began_ns, store::TabletIntake::kPatienceNs * 9 / 10);
  expectNothingIsHeld(places);
  replicator().lackPlaces(Lacking::Nothing);
  expectRecovered(3);
}

// All its copies are there, but none of the head with which they would become a part of the log.
TEST_F(MasterPlacesTest, AlsoWhenItIsTheHeadThatFindsNone) {
  live();
  const size_t places = replicator().placeCount();
  replicator().lackPlaces(Lacking::Heads);
  ASSERT_EQ(begin(2), Status::Ok);
  ASSERT_EQ(static_cast<Status>(pullEnd(5, kMaster).status()), Status::TooFewReplicas);
  expectNothingIsHeld(places);
  replicator().lackPlaces(Lacking::Nothing);
  expectRecovered(3);
}

// The head with which they become a part of the log is open, so they cannot be given up, and the coordinator has to
// know that it is places which are lacking.
TEST_F(MasterPlacesTest, OneWhoseFormerHeadCannotBeClosedSaysSo) {
  live();
  replicator().lackPlaces(Lacking::FormerHeads);
  ASSERT_EQ(begin(2), Status::Ok);
  ASSERT_TRUE(world.runUntil([&] { return progressNow().lacks_places(); }));
  world.runFor(2 * store::TabletIntake::kPatienceNs);
  EXPECT_TRUE(progressNow().lacks_places());
  EXPECT_FALSE(progressNow().done());
  replicator().lackPlaces(Lacking::Nothing);
  ASSERT_EQ(static_cast<Status>(pullEnd(5, kMaster).status()), Status::Ok);
  ASSERT_EQ(take(5, 0, kLast, 2, kMaster, false), Status::Ok);
  expectModel(2, kMaster);
}

// A server that has just begun: it goes on trying to open its first head, and what is recovered waits for none.
TEST_F(MasterPlacesTest, AlsoWhenItHasNoHeadYet) {
  live();
  const size_t fresh = addReplicatedServer();
  world.servers[fresh]->replicator()->lackPlaces(Lacking::Heads);
  ASSERT_EQ(recover(wholeTable(2), fresh), Status::Ok);
  EXPECT_EQ(static_cast<Status>(pullEnd(5, fresh).status()), Status::TooFewReplicas);
  world.servers[fresh]->replicator()->lackPlaces(Lacking::Nothing);
  ASSERT_EQ(recover(wholeTable(3), fresh), Status::Ok);
  ASSERT_EQ(static_cast<Status>(pullEnd(5, fresh).status()), Status::Ok);
  ASSERT_EQ(take(5, 0, kLast, 3, fresh, false), Status::Ok);
  expectModel(3, fresh);
}

// Until others have room what is recovered has fewer copies, as what is written then has: it is not left out of reach.
TEST_F(MasterPlacesTest, TheLeastCopiesWillDoWhereThereAreNoPlacesForMore) {
  live();
  replicator().lackPlaces(Lacking::Further);
  ASSERT_EQ(begin(2), Status::Ok);
  const int64_t began_ns = world.scheduler.nowNs();
  ASSERT_TRUE(world.runUntil([&] { return progressNow().done(); }));
  EXPECT_EQ(static_cast<Status>(progressNow().status()), Status::Ok);
  EXPECT_GE(world.scheduler.nowNs() - began_ns, 2 * kNanosPerSecond) << "places may come free soon";
  EXPECT_LT(world.scheduler.nowNs() - began_ns, store::TabletIntake::kPatienceNs / 2);
  ASSERT_EQ(take(5, 0, kLast, 2, kMaster, false), Status::Ok);
  expectModel(2, kMaster);
  expectOwnLogSaysTheSame(kMaster);
}

TEST_F(MasterPlacesTest, WhoFindsPlacesInTimeGoesOn) {
  live();
  for (const Lacking lacking : {Lacking::Sides, Lacking::Heads}) {
    replicator().lackPlaces(lacking);
    const uint64_t epoch = lacking == Lacking::Sides ? 2 : 3;
    ASSERT_EQ(begin(epoch), Status::Ok);
    ASSERT_TRUE(world.runUntil([&] { return progressNow().lacks_places(); }));
    replicator().lackPlaces(Lacking::Nothing);
    EXPECT_EQ(static_cast<Status>(pullEnd(5, kMaster).status()), Status::Ok);
    EXPECT_FALSE(progressNow().lacks_places());
  }
  ASSERT_EQ(take(5, 0, kLast, 3, kMaster, false), Status::Ok);
  expectModel(3, kMaster);
  expectOwnLogSaysTheSame(kMaster);
}

// The coordinator has given the attempt up, so others may have its places at once.
TEST_F(MasterPlacesTest, AnAttemptThatIsGivenUpWaitsForNoPlaces) {
  live();
  const size_t places = replicator().placeCount();
  for (const Lacking lacking : {Lacking::Sides, Lacking::Heads}) {
    const uint64_t epoch = lacking == Lacking::Sides ? 2 : 4;
    replicator().lackPlaces(lacking);
    ASSERT_EQ(begin(epoch), Status::Ok);
    ASSERT_TRUE(world.runUntil([&] { return progressNow().fraction() == 1 || progressNow().lacks_places(); }));
    ASSERT_EQ(drop(5, epoch, kMaster), Status::Ok);
    const int64_t dropped_ns = world.scheduler.nowNs();
    expectNothingIsHeld(places);
    EXPECT_LT(world.scheduler.nowNs() - dropped_ns, store::TabletIntake::kPatienceNs / 2);
    replicator().lackPlaces(Lacking::Nothing);
  }
  expectRecovered(6);
}

// The recovery joins early because memory is full. The server stops while the join waits for replicas of the side log,
// or for the head that lists it.
TEST_F(MasterPlacesTest, AServerThatStopsOverAnEarlyJoinStopsInOrder) {
  liveLong();
  addBackup();
  for (const Lacking lacking : {Lacking::Sides, Lacking::Heads}) {
    const size_t stopped = addReplicatedServer();
    const auto progress = [&] {
      control::PullProgressResponse found;
      EXPECT_EQ(MasterServiceTest::progressNow(5, stopped, found), Status::Ok);
      return found;
    };
    ASSERT_EQ(recover(wholeTable(2), stopped), Status::Ok);
    ASSERT_TRUE(world.runUntil([&] { return progress().objects() != 0; }));
    world.servers[stopped]->replicator()->lackPlaces(lacking);
    ASSERT_TRUE(world.runUntil([&] { return progress().lacks_places(); }));
    EXPECT_LT(progress().fraction(), 1) << "it is not through";
    world.servers[stopped]->stopInOrder();
    EXPECT_TRUE(world.runUntil([&] { return world.servers[stopped]->hasStopped(); }));
  }
}

// ---- moves

class MovePlacesTest : public MasterServiceTest {
 protected:
  MovePlacesTest() {
    to_ = addReplicatedServer();
    for (int i = 0; i < 50; ++i) EXPECT_EQ(write("key" + std::to_string(i), "value", ++sequence_).status, Status::Ok);
    EXPECT_EQ(freeze(1, 1), Status::Ok);
  }
  SimReplicator& replicator() { return *world.servers[to_]->replicator(); }
  Status beginPull(uint64_t epoch) { return pull(1, 0, kLast, 1, epoch, to_, 0); }
  /// Something newer than the present log head makes every intake wait for another one.
  void makeHeadOld() {
    control::TakeTabletRequest create;
    *create.mutable_tablet() = tabletOf(7, 0, kLast, 1);
    create.mutable_tablet()->set_table(kTable + 1);
    create.set_created_empty(true);
    ASSERT_EQ(world.command(Opcode::TakeTablet, create)->outcome(), Status::Ok);
    control::PullTabletRequest ask;
    *ask.mutable_tablet() = tabletOf(7, 0, kLast, 2);
    ask.mutable_tablet()->set_table(kTable + 1);
    ask.set_source_epoch(1);
    ask.set_source(world.addresses[0].id);
    ask.add_source_locators(world.addresses[0].locators.front().toString());
    ASSERT_EQ(MasterServiceTest::beginPull(ask, to_), Status::Ok);
    ASSERT_EQ(pullProgress(7, to_, control::PULL_PREPARED).phase(), control::PULL_PREPARED);
  }
  void arrive() {
    ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, to_, 0));
    ASSERT_EQ(lend(1, 1), Status::Ok);
    ASSERT_EQ(takeArriving(1, 0, kLast, 2, to_), Status::Ok);
  }
  void lackFirst(Lacking lacking) {
    ASSERT_TRUE(world.runUntil([&] { return world.servers[to_]->master().log()->headId() != SegmentId(); }));
    replicator().lackPlaces(lacking);
  }
  control::PullProgressResponse progressNow() {
    control::PullProgressResponse found;
    EXPECT_EQ(MasterServiceTest::progressNow(1, to_, found), Status::Ok);
    return found;
  }

  size_t to_ = 0;
  uint64_t sequence_ = 0;
};

TEST_F(MovePlacesTest, AMoveThatFindsNoPlacesBeforeTheHandOverEndsAndTheNextOneIsWhole) {
  ASSERT_NO_FATAL_FAILURE(makeHeadOld());
  lackFirst(Lacking::Heads);
  const size_t places = replicator().placeCount();
  ASSERT_EQ(beginPull(2), Status::Ok);
  EXPECT_EQ(static_cast<Status>(pullEnd(1, to_).status()), Status::TooFewReplicas);
  replicator().lackPlaces(Lacking::Nothing);
  EXPECT_TRUE(world.runUntil([&] { return replicator().placeCount() <= places; }));
  EXPECT_EQ(world.servers[to_]->master().index().entryCount(), 0u);
  ASSERT_NO_FATAL_FAILURE(moveAll(1, 0, kLast, 1, 3, to_, 0));
  EXPECT_EQ(read("key7", 3, to_).value, "value");
}

// Nothing says that places are scarce in general: what is waited for is a place for the former head.
TEST_F(MovePlacesTest, AMoveThatWaitsForTheFormerHeadEndsAsWell) {
  ASSERT_NO_FATAL_FAILURE(makeHeadOld());
  lackFirst(Lacking::FormerHeads);
  ASSERT_EQ(beginPull(2), Status::Ok);
  EXPECT_EQ(static_cast<Status>(pullEnd(1, to_).status()), Status::TooFewReplicas);
  EXPECT_FALSE(replicator().isShortOfPlaces());
  replicator().lackPlaces(Lacking::Nothing);
  ASSERT_NO_FATAL_FAILURE(moveAll(1, 0, kLast, 1, 3, to_, 0));
  EXPECT_EQ(read("key7", 3, to_).value, "value");
}

TEST_F(MovePlacesTest, WhatHasArrivedWaitsForPlaces) {
  lackFirst(Lacking::Sides);
  ASSERT_NO_FATAL_FAILURE(arrive());
  world.runFor(2 * store::TabletIntake::kPatienceNs);
  EXPECT_EQ(progressNow().phase(), control::PULL_ARRIVED);
  EXPECT_TRUE(progressNow().lacks_places());
  EXPECT_EQ(read("key7", 2, to_).value, "value") << "it is answered for";
  EXPECT_EQ(take(1, 0, kLast, 2, to_, false), Status::RetryLater) << "the source is still needed";
  replicator().lackPlaces(Lacking::Nothing);
  ASSERT_EQ(pullProgress(1, to_, control::PULL_JOINED).phase(), control::PULL_JOINED);
  ASSERT_EQ(take(1, 0, kLast, 2, to_, false), Status::Ok);
}

TEST_F(MovePlacesTest, OneThatWasGivenUpHoldsTheNextOneUpForNoPlaces) {
  ASSERT_NO_FATAL_FAILURE(makeHeadOld());
  lackFirst(Lacking::Heads);
  ASSERT_EQ(beginPull(2), Status::Ok);
  ASSERT_TRUE(world.runUntil([&] { return progressNow().lacks_places(); }));
  ASSERT_EQ(drop(1, 2, to_), Status::Ok);
  const int64_t begun_ns = world.scheduler.nowNs();
  ASSERT_EQ(beginPull(3), Status::Ok);
  EXPECT_EQ(static_cast<Status>(pullEnd(1, to_).status()), Status::TooFewReplicas) << "it has the places to itself";
  EXPECT_LT(world.scheduler.nowNs() - begun_ns, store::TabletIntake::kPatienceNs * 3 / 2);
  replicator().lackPlaces(Lacking::Nothing);
}

TEST_F(MovePlacesTest, AServerThatStopsOverAMoveStopsInOrder) {
  lackFirst(Lacking::Sides);
  ASSERT_NO_FATAL_FAILURE(arrive());
  ASSERT_TRUE(world.runUntil([&] { return progressNow().lacks_places(); }));
  world.servers[to_]->stopInOrder();
  EXPECT_TRUE(world.runUntil([&] { return world.servers[to_]->hasStopped(); }));
}

}  // namespace
}  // namespace ramcore::sim::raw
