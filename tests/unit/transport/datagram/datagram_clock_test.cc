#include "transport/datagram/datagram_clock.h"

#include <gtest/gtest.h>

namespace ramcore::transport::datagram {
namespace {

TEST(DatagramClock, IsReadOnceInABurstAndOnlyIfItIsStale) {
  runtime::ManualClock time(1'000'000);
  DatagramClock clock(time);
  EXPECT_EQ(clock.nowNs(), 1'000'000);
  clock.read();
  time.advance(1'000);
  clock.readIfStale();
  EXPECT_EQ(clock.nowNs(), 1'000'000);
  time.advance(100'000);
  EXPECT_EQ(clock.nowNs(), 1'000'000);
  clock.beginBurst();
  clock.readInThisBurst();
  EXPECT_EQ(clock.nowNs(), 1'101'000);
  time.advance(100'000);
  clock.readInThisBurst();
  EXPECT_EQ(clock.nowNs(), 1'101'000);
  clock.beginBurst();
  clock.readInThisBurst();
  EXPECT_EQ(clock.nowNs(), 1'201'000);
}

TEST(DatagramClock, IsReadInSomeRounds) {
  runtime::ManualClock time(1'000'000);
  DatagramClock clock(time);
  clock.countRound();
  time.advance(1);
  clock.countRound();
  EXPECT_EQ(clock.nowNs(), 1'000'000);
  clock.readInNextRound();
  clock.countRound();
  EXPECT_EQ(clock.nowNs(), 1'000'001);
  time.advance(1);
  for (int round = 0; round < 100; ++round) clock.countRound();
  EXPECT_EQ(clock.nowNs(), 1'000'002);
}

TEST(DatagramClock, TimeoutsAreDueByTheEarliestDeadline) {
  runtime::ManualClock time(1'000'000'000);
  DatagramClock clock(time);
  EXPECT_TRUE(clock.areTimeoutsDue());
  clock.beginTimeouts();
  clock.runTimeoutsBy(clock.nowNs() + 2'000'000);
  clock.endTimeouts(clock.nowNs() + 3'000'000);
  EXPECT_EQ(clock.timeoutsDueNs(), clock.nowNs() + 2'000'000);
  EXPECT_FALSE(clock.areTimeoutsDue());
  clock.runTimeoutsBy(clock.nowNs() + 1'000'000);
  EXPECT_EQ(clock.timeoutsDueNs(), clock.nowNs() + 1'000'000);
  clock.runTimeoutsNow();
  EXPECT_TRUE(clock.areTimeoutsDue());
  clock.beginTimeouts();
  clock.endTimeouts(clock.nowNs());
  EXPECT_EQ(clock.timeoutsDueNs(), clock.nowNs() + DatagramClock::kLeastTimeoutsNs);
}

TEST(DatagramClock, SilenceBeforeAPauseOfTheThreadIsNoPeersFault) {
  runtime::ManualClock time(1'000'000'000);
  DatagramClock clock(time);
  clock.beginTimeouts();
  clock.endTimeouts(clock.nowNs() + 10'000'000);
  const int64_t before_ns = clock.listeningSinceNs();
  time.advance(11'000'000);
  clock.read();
  clock.beginTimeouts();
  EXPECT_EQ(clock.listeningSinceNs(), before_ns);
  clock.endTimeouts(clock.nowNs() + 10'000'000);
  time.advance(100'000'000);
  clock.read();
  clock.beginTimeouts();
  EXPECT_EQ(clock.listeningSinceNs(), clock.nowNs());
}

}  // namespace
}  // namespace ramcore::transport::datagram
