#include "transport/session/timeout_rounds.h"

#include <gtest/gtest.h>

#include "runtime/real/system_clock.h"

namespace ramcore::transport {
namespace {

constexpr TimeoutRounds::Pace kUnhurried{.rounds = 8, .pause_ns = 100};

class TimeoutRoundsOfAnEndpoint : public ::testing::Test {
 protected:
  // How many rounds pass before runsNow() is to be called.
  int roundsToNext() {
    int rounds = 1;
    while (!rounds_.isOver()) ++rounds;
    return rounds;
  }

  runtime::SystemClock clock_;
  EpollSleeper sleeper_{clock_};
  TimeoutRounds rounds_{sleeper_};
};

TEST_F(TimeoutRoundsOfAnEndpoint, RunAfterSoManyRoundsAndSuchAPause) {
  EXPECT_EQ(rounds_.lastNs(), 0);
  EXPECT_EQ(roundsToNext(), 1);
  EXPECT_TRUE(rounds_.runsNow(1000, kUnhurried));
  EXPECT_EQ(rounds_.lastNs(), 1000);
  EXPECT_EQ(sleeper_.lookCount(), 1u);
  EXPECT_EQ(roundsToNext(), 8);
  EXPECT_FALSE(rounds_.runsNow(1099, kUnhurried));
  EXPECT_EQ(rounds_.lastNs(), 1000);
  EXPECT_EQ(sleeper_.lookCount(), 1u) << "only the clock was read";
  EXPECT_EQ(roundsToNext(), 8);
  EXPECT_TRUE(rounds_.runsNow(1100, kUnhurried));
}

TEST_F(TimeoutRoundsOfAnEndpoint, RunInTheNextRoundIfTheyAreCalled) {
  EXPECT_EQ(roundsToNext(), 1);
  EXPECT_TRUE(rounds_.runsNow(1000, kUnhurried));
  rounds_.call();
  EXPECT_TRUE(rounds_.isCalled());
  EXPECT_EQ(roundsToNext(), 1);
  EXPECT_TRUE(rounds_.runsNow(1001, kUnhurried));
  EXPECT_FALSE(rounds_.isCalled());
  EXPECT_EQ(sleeper_.lookCount(), 2u) << "nothing was asked in between";
  rounds_.call();
  sleeper_.poll();
  EXPECT_TRUE(rounds_.runsNow(1002, kUnhurried));
  EXPECT_EQ(sleeper_.lookCount(), 3u) << "what there was to be told has been told";
}

TEST_F(TimeoutRoundsOfAnEndpoint, TheClockIsReadWithinSomeRoundsButNotLaterThanItWas) {
  EXPECT_EQ(roundsToNext(), 1);
  EXPECT_TRUE(rounds_.runsNow(1000, kUnhurried));
  rounds_.readClockWithin(20);
  EXPECT_EQ(roundsToNext(), 8);
  EXPECT_FALSE(rounds_.runsNow(1001, kUnhurried));
  rounds_.readClockWithin(3);
  EXPECT_EQ(roundsToNext(), 3);
  EXPECT_FALSE(rounds_.runsNow(1002, kUnhurried));
  rounds_.readClockSoon();
  rounds_.readClockWithin(3);
  EXPECT_EQ(roundsToNext(), 1);
}

}  // namespace
}  // namespace ramcore::transport
