/// Objects that the former owner of a tablet loses from its memory before they have arrived at the new one.
#include "sim/hand_over_fixture.h"

namespace ramcore::sim::raw {
namespace {

/// Without replicas nothing restores it.
TEST_F(MasterHandOverTest, WhatTheFormerOwnerHasLostIsCorruptUntilItIsOverwritten) {
  fill(0, 200, "old");
  loseAtTheFormerOwner({3, 150});
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  ASSERT_EQ(pullProgress(1, 1, control::PULL_ARRIVING).phase(), control::PULL_ARRIVING);
  world.runFor(2 * kNanosPerSecond);
  control::PullProgressResponse progress;
  ASSERT_EQ(progressNow(1, 1, progress), Status::Ok);
  EXPECT_EQ(progress.phase(), control::PULL_ARRIVING) << "two keys have not arrived";
  EXPECT_EQ(static_cast<Status>(progress.problem()), Status::Corrupt);
  for (const uint64_t number : {3, 150}) {
    const std::string key = keyOf(number);
    const WriteOptions there{.epoch = 2, .server = 1};
    WriteOptions must_exist = there;
    must_exist.condition = Condition::MustExist;
    EXPECT_EQ(read(key, 2, 1).status, Status::Corrupt);
    EXPECT_EQ(multiRead(key, 2, 1), Status::Corrupt);
    EXPECT_EQ(write(key, "y", nextSequence(1), must_exist).status, Status::Corrupt);
    EXPECT_EQ(remove(key, nextSequence(1), there).status, Status::Corrupt);
    EXPECT_EQ(increment(key, 1, nextSequence(1), there).status, Status::Corrupt);
    EXPECT_EQ(scan(2, 1), Status::Corrupt);
    put(number, "overwritten", 1, 2);
  }
  EXPECT_EQ(scan(2, 1), Status::Ok);
  ASSERT_NO_FATAL_FAILURE(removeAll(150, 151, 1, 2));
  ASSERT_EQ(pullProgress(1, 1, control::PULL_JOINED).phase(), control::PULL_JOINED);
  ASSERT_EQ(take(1, 0, kLast, 2, 1, false), Status::Ok);
  expectAll(1, 2);
}

/// What is restored meanwhile is asked for again. Here somebody puts the right byte back, and takes the mark away.
TEST_F(MasterHandOverTest, WhatIsRestoredAtTheFormerOwnerArrivesLater) {
  fill(0, 200, "old");
  loseAtTheFormerOwner({3, 150});
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  EXPECT_EQ(read(keyOf(3), 2, 1).status, Status::Corrupt);
  EXPECT_EQ(read(keyOf(4), 2, 1).status, Status::Ok);
  put(150, "overwritten", 1, 2);
  restoreAtTheFormerOwner();
  world.runFor(kNanosPerSecond);
  EXPECT_EQ(read(keyOf(3), 2, 1).value, "old");
  ASSERT_EQ(pullProgress(1, 1, control::PULL_JOINED).phase(), control::PULL_JOINED);
  ASSERT_EQ(take(1, 0, kLast, 2, 1, false), Status::Ok);
  expectAll(1, 2);
}

/// The log of the former owner has what its memory has lost.
TEST_F(MasterHandOverTest, WhatTheFormerOwnerHasLostComesFromItsLogWhenItDies) {
  fill(0, 200, "old");
  keepLogOf(0);
  loseAtTheFormerOwner({3, 150});
  ASSERT_NO_FATAL_FAILURE(handOverAndServe());
  EXPECT_EQ(read(keyOf(3), 2, 1).status, Status::Corrupt);
  put(150, "overwritten", 1, 2);
  cut();
  ASSERT_EQ(recoverOver(0, 1, 3), Status::Ok);
  ASSERT_EQ(pullEnd(1, 1).status(), 0u);
  ASSERT_EQ(take(1, 0, kLast, 3, 1, false), Status::Ok);
  expectAll(1, 3);
}

}  // namespace
}  // namespace ramcore::sim::raw
