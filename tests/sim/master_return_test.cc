/// A tablet that was handed over comes back to the server that has lent it, command by command (docs/migration.md,
/// "A move that is taken back"): what was changed meanwhile follows, and either server may die.
#include "sim/hand_over_fixture.h"

namespace ramcore::sim::raw {
namespace {

/// The tablet is server 1's under epoch 2, and goes back to server 0 under epoch 3.
class MasterReturnTest : public MasterHandOverTest {
 protected:
  static constexpr uint64_t kBack = 3;

  Status pullBack(uint64_t return_epoch = kBack) {
    control::PullTabletRequest ask;
    *ask.mutable_tablet() = tabletOf(1, 0, kLast, return_epoch);
    ask.set_source_epoch(2);
    ask.set_source(world.addresses[1].id);
    ask.add_source_locators(world.addresses[1].locators.front().toString());
    ask.set_returns(true);
    return beginPull(ask, 0);
  }
  /// The ceiling; 0 with `status` if it was refused.
  uint64_t freezeForReturn(uint64_t return_epoch, Status& status) {
    control::FreezeTabletRequest ask;
    ask.set_tablet(1);
    ask.set_epoch(2);
    ask.set_return_epoch(return_epoch);
    const auto call = world.command(Opcode::FreezeTablet, ask, 1);
    status = call->outcome();
    control::FreezeTabletResponse answer;
    return status == Status::Ok && wire::parseControl(asBytes(call->text()), answer) ? answer.version_ceiling() : 0;
  }
  Status thaw(uint64_t return_epoch) {
    control::UnfreezeTabletRequest ask;
    ask.set_tablet(1);
    ask.set_epoch(2);
    ask.set_new_epoch(return_epoch);
    ask.set_goes_on_arriving(true);
    return world.command(Opcode::UnfreezeTablet, ask, 1)->outcome();
  }
  Status forgetReturn(uint64_t return_epoch) {
    control::DropTabletRequest ask;
    ask.set_tablet(1);
    ask.set_epoch(return_epoch);
    ask.set_keeps_tablet(true);
    return world.command(Opcode::DropTablet, ask, 0)->outcome();
  }
  /// Everything is ready for the tablet to be handed back, and server 1 is frozen.
  void prepareReturn() {
    ASSERT_EQ(pullBack(), Status::Ok);
    ASSERT_EQ(pullBack(), Status::Ok) << "repeated";
    ASSERT_EQ(pullProgress(1, 0, control::PULL_PREPARED).phase(), control::PULL_PREPARED);
    Status status = Status::Ok;
    const uint64_t ceiling = freezeForReturn(kBack, status);
    ASSERT_NE(ceiling, 0u) << name(status);
    ASSERT_EQ(adopt(1, kBack, ceiling, 0), Status::Ok);
  }
  /// Server 0 answers again; what was changed at server 1 comes.
  void handBack() {
    ASSERT_NO_FATAL_FAILURE(prepareReturn());
    ASSERT_EQ(lend(1, 2, 1), Status::Ok);
    ASSERT_EQ(takeArriving(1, 0, kLast, kBack, 0), Status::Ok);
  }
  /// The new owner has these, and the former one has not.
  void changeAtTheNewOwner() {
    for (uint64_t number = 0; number < 30; ++number) put(number, "overwritten there", 1, 2);
    removeAll(40, 60, 1, 2);
    removeAll(60, 70, 1, 2);
    for (uint64_t number = 65; number < 80; ++number) put(number, "written again there", 1, 2);
    for (uint64_t number = 300; number < 320; ++number) put(number, "new there", 1, 2);
  }
  void settle() {
    ASSERT_EQ(pullProgress(1, 0, control::PULL_JOINED).phase(), control::PULL_JOINED);
    ASSERT_EQ(take(1, 0, kLast, kBack, 0, false), Status::Ok);
    ASSERT_EQ(drop(1, 2, 1), Status::Ok);
  }
};

TEST_F(MasterReturnTest, WhatWasChangedThereComesBack) {
  fill(0, 300, "old");
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  ASSERT_GE(pullProgress(1, 1, control::PULL_ARRIVED).phase(), control::PULL_ARRIVED);
  ASSERT_NO_FATAL_FAILURE(changeAtTheNewOwner());
  ASSERT_NO_FATAL_FAILURE(handBack());
  EXPECT_EQ(read(keyOf(0), 2, 1).status, Status::WrongServer);
  expectAll(0, kBack);
  for (uint64_t number = 50; number < 70; number += 2) put(number, "written here again", 0, kBack);
  removeAll(300, 310, 0, kBack);
  expectAll(0, kBack);
  ASSERT_NO_FATAL_FAILURE(settle());
  expectAll(0, kBack);
  world.runFor(kNanosPerSecond);
  expectAll(0, kBack);
  EXPECT_EQ(world.servers[1]->master().index().entryCount(), 0u) << "the other one forgets it";
  expectOwnLogSaysTheSame(0);
}

TEST_F(MasterReturnTest, ItComesBackAlsoWhileLittleHasArrived) {
  fill(0, 300, "old");
  ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, 1, 0));
  ASSERT_EQ(lend(1, 1, 0), Status::Ok);
  ASSERT_EQ(takeArriving(1, 0, kLast, 2, 1), Status::Ok);
  put(7, "written there at once", 1, 2);
  removeAll(8, 10, 1, 2);
  ASSERT_NO_FATAL_FAILURE(handBack());
  expectAll(0, kBack);
  ASSERT_NO_FATAL_FAILURE(settle());
  expectAll(0, kBack);
  expectOwnLogSaysTheSame(0);
}

// What the former owner has may be older than what the other one has not sent yet.
TEST_F(MasterReturnTest, WhatIsThereIsNotAnsweredBeforeItIsKnownToBeNew) {
  fill(0, 300, "old");
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  ASSERT_GE(pullProgress(1, 1, control::PULL_ARRIVED).phase(), control::PULL_ARRIVED);
  ASSERT_NO_FATAL_FAILURE(changeAtTheNewOwner());
  ASSERT_NO_FATAL_FAILURE(prepareReturn());
  ASSERT_EQ(lend(1, 2, 1), Status::Ok);
  cut();
  ASSERT_EQ(takeArriving(1, 0, kLast, kBack, 0), Status::Ok);
  EXPECT_EQ(read(keyOf(0), kBack, 0).status, Status::RetryLater);
  EXPECT_EQ(read(keyOf(200), kBack, 0).status, Status::RetryLater) << "nobody knows that it was not changed";
  EXPECT_EQ(multiRead(keyOf(45), kBack, 0), Status::RetryLater);
  EXPECT_EQ(remove(keyOf(1), nextSequence(1), {.client = 1, .epoch = kBack}).status, Status::RetryLater);
  EXPECT_EQ(scan(kBack, 0), Status::RetryLater);
  // What does not depend on it goes at once.
  put(2, "written here", 0, kBack);
  put(41, "written here", 0, kBack);
  EXPECT_EQ(read(keyOf(2), kBack, 0).value, "written here");
  EXPECT_EQ(read(keyOf(41), kBack, 0).value, "written here");
}

TEST_F(MasterReturnTest, OneThatIsGivenUpLeavesTheTabletWhereItIs) {
  fill(0, 300, "old");
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  ASSERT_NO_FATAL_FAILURE(prepareReturn());
  const Answer refused = write(keyOf(0), "x", nextSequence(1), {.client = 1, .epoch = 2, .server = 1});
  EXPECT_EQ(refused.status, Status::RetryLater) << "it is frozen";
  EXPECT_EQ(read(keyOf(0), 2, 1).status, Status::Ok) << "and read";
  ASSERT_EQ(thaw(kBack), Status::Ok);
  ASSERT_EQ(forgetReturn(kBack), Status::Ok);
  Status status = Status::Ok;
  EXPECT_EQ(freezeForReturn(kBack, status), 0u);
  EXPECT_EQ(status, Status::StaleEpoch) << "a late copy";
  EXPECT_EQ(pullBack(), Status::StaleEpoch) << "a late copy";
  put(0, "it goes on", 1, 2);
  ASSERT_EQ(pullProgress(1, 1, control::PULL_JOINED).phase(), control::PULL_JOINED);
  ASSERT_EQ(take(1, 0, kLast, 2, 1, false), Status::Ok);
  ASSERT_EQ(drop(1, 1, 0), Status::Ok);
  expectAll(1, 2);
  expectOwnLogSaysTheSame(1);
}

TEST_F(MasterReturnTest, ALateThawDoesNotEndALaterReturn) {
  fill(0, 10, "old");
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  Status status = Status::Ok;
  ASSERT_NE(freezeForReturn(5, status), 0u);
  ASSERT_EQ(thaw(4), Status::Ok);
  EXPECT_EQ(write(keyOf(0), "x", nextSequence(1), {.client = 1, .epoch = 2, .server = 1}).status, Status::RetryLater);
  ASSERT_EQ(thaw(5), Status::Ok);
  EXPECT_EQ(write(keyOf(0), "x", nextSequence(1), {.client = 1, .epoch = 2, .server = 1}).status, Status::Ok);
}

TEST_F(MasterReturnTest, ACallIsNotCarriedOutAgainAfterTheReturn) {
  fill(0, 10, "old");
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  const uint64_t sequence = nextSequence(2);
  ASSERT_EQ(increment("counter", 5, sequence, {.client = 2, .epoch = 2, .server = 1}).counter, 5);
  ASSERT_NO_FATAL_FAILURE(handBack());
  EXPECT_EQ(increment("counter", 5, sequence, {.client = 2, .epoch = kBack}).counter, 5);
  EXPECT_EQ(increment("counter", 5, nextSequence(2), {.client = 2, .epoch = kBack}).counter, 10);
}

TEST_F(MasterReturnTest, IfTheOtherOneDiesItsLogIsReplayedOverWhatIsHere) {
  fill(0, 300, "old");
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  ASSERT_GE(pullProgress(1, 1, control::PULL_ARRIVED).phase(), control::PULL_ARRIVED);
  ASSERT_NO_FATAL_FAILURE(changeAtTheNewOwner());
  ASSERT_NO_FATAL_FAILURE(prepareReturn());
  ASSERT_EQ(lend(1, 2, 1), Status::Ok);
  cut();
  ASSERT_EQ(takeArriving(1, 0, kLast, kBack, 0), Status::Ok);
  put(2, "written here", 0, kBack);
  put(41, "written here", 0, kBack);
  keepLogOf(1);
  ASSERT_EQ(recoverOver(1, 0, kBack + 1), Status::Ok);
  ASSERT_EQ(pullEnd(1, 0).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, kBack + 1, 0, false), Status::Ok);
  expectAll(0, kBack + 1);
  world.runFor(kNanosPerSecond);
  expectAll(0, kBack + 1);
  expectOwnLogSaysTheSame(0);
}

TEST_F(MasterReturnTest, IfTheFormerOwnerDiesTheOtherOneHasItAgain) {
  fill(0, 300, "old");
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  ASSERT_GE(pullProgress(1, 1, control::PULL_ARRIVED).phase(), control::PULL_ARRIVED);
  ASSERT_NO_FATAL_FAILURE(changeAtTheNewOwner());
  ASSERT_NO_FATAL_FAILURE(handBack());
  expectAll(0, kBack);
  put(2, "written here", 0, kBack);
  removeAll(5, 15, 0, kBack);
  removeAll(300, 305, 0, kBack);
  cut();
  keepLogOf(0);
  ASSERT_EQ(recoverOver(0, 1, kBack + 1), Status::Ok);
  ASSERT_EQ(pullEnd(1, 1).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, kBack + 1, 1, false), Status::Ok);
  expectAll(1, kBack + 1);
  world.runFor(kNanosPerSecond);
  expectAll(1, kBack + 1);
  expectOwnLogSaysTheSame(1);
}

TEST_F(MasterReturnTest, NotWhileSomethingHereIsDamaged) {
  fill(0, 300, "old");
  ASSERT_NO_FATAL_FAILURE(loseAtTheFormerOwner({7}));
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  put(7, "written there", 1, 2);
  ASSERT_EQ(pullBack(), Status::Ok);
  EXPECT_EQ(static_cast<Status>(pullProgress(1, 0, control::PULL_PREPARED).status()), Status::Corrupt);
  ASSERT_EQ(forgetReturn(kBack), Status::Ok);
  EXPECT_EQ(read(keyOf(7), 2, 1).value, "written there");
  ASSERT_EQ(pullProgress(1, 1, control::PULL_JOINED).phase(), control::PULL_JOINED);
  ASSERT_EQ(take(1, 0, kLast, 2, 1, false), Status::Ok);
  EXPECT_EQ(read(keyOf(7), 2, 1).value, "written there");
}

// The same command gives up an attempt of a recovery.
TEST_F(MasterReturnTest, AnAttemptThatIsGivenUpLeavesTheReturnAsItIs) {
  fill(0, 300, "old");
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  ASSERT_GE(pullProgress(1, 1, control::PULL_ARRIVED).phase(), control::PULL_ARRIVED);
  ASSERT_NO_FATAL_FAILURE(changeAtTheNewOwner());
  ASSERT_NO_FATAL_FAILURE(prepareReturn());
  ASSERT_EQ(lend(1, 2, 1), Status::Ok);
  cut();
  ASSERT_EQ(takeArriving(1, 0, kLast, kBack, 0), Status::Ok);
  for (uint64_t number = 0; number < 30; number += 3) put(number, "written here", 0, kBack);
  removeAll(0, 1, 0, kBack);
  keepLogOf(1);
  ASSERT_EQ(recoverOver(1, 0, kBack + 1), Status::Ok);
  ASSERT_EQ(forgetReturn(kBack + 1), Status::Ok);
  world.runFor(kNanosPerSecond);
  ASSERT_EQ(recoverOver(1, 0, kBack + 2), Status::Ok);
  ASSERT_EQ(pullEnd(1, 0).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, kBack + 2, 0, false), Status::Ok);
  expectAll(0, kBack + 2);
  world.runFor(kNanosPerSecond);
  expectAll(0, kBack + 2);
  expectOwnLogSaysTheSame(0);
}

TEST_F(MasterReturnTest, IfTheFormerOwnerDiesBeforeItTheOtherOneGoesOnAnswering) {
  fill(0, 300, "old");
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  ASSERT_GE(pullProgress(1, 1, control::PULL_ARRIVED).phase(), control::PULL_ARRIVED);
  ASSERT_NO_FATAL_FAILURE(changeAtTheNewOwner());
  Status status = Status::Ok;
  ASSERT_NE(freezeForReturn(kBack, status), 0u) << name(status);
  cut();
  keepLogOf(0);
  ASSERT_EQ(recoverOver(0, 1, kBack + 1), Status::Ok);
  EXPECT_EQ(read(keyOf(0), 2, 1).value, "overwritten there");
  put(0, "written during the recovery", 1, 2);
  ASSERT_EQ(pullEnd(1, 1).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, kBack + 1, 1, false), Status::Ok);
  expectAll(1, kBack + 1);
  expectOwnLogSaysTheSame(1);
}

}  // namespace
}  // namespace ramcore::sim::raw
