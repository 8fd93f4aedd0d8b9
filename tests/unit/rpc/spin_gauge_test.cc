#include "rpc/spin_gauge.h"

#include <gtest/gtest.h>

namespace ramcore::rpc {
namespace {

using runtime::kNanosPerMicro;
using Wait = SpinGauge::Wait;

constexpr int64_t kSpinNs = 50 * kNanosPerMicro;
constexpr int64_t kShortNs = 10 * kNanosPerMicro;
constexpr int64_t kLongNs = 100 * kNanosPerMicro;

class SpinGaugeTest : public ::testing::Test {
 protected:
  // One wait of a thread that does what the gauge says. Returns how long it spun.
  int64_t wait(Wait kind, int64_t length_ns) {
    const int64_t begin_ns = clock_.nowNs();
    int64_t spun_ns = 0;
    while (gauge_.expectsSoon(kind) && gauge_.goesOn(kind, clock_.nowNs()) && clock_.nowNs() < begin_ns + length_ns) {
      clock_.advance(kNanosPerMicro);
      spun_ns += kNanosPerMicro;
    }
    if (clock_.nowNs() < begin_ns + length_ns) {
      gauge_.sleeps(kind);
      clock_.advance(begin_ns + length_ns - clock_.nowNs());
    }
    gauge_.found();
    return spun_ns;
  }
  int64_t waits(int count, Wait kind, int64_t length_ns) {
    int64_t spun_ns = 0;
    for (int i = 0; i < count; ++i) spun_ns += wait(kind, length_ns);
    return spun_ns;
  }

  runtime::ManualClock clock_;
  SpinGauge gauge_{clock_, kSpinNs};
};

TEST_F(SpinGaugeTest, SpinsThroughShortWaits) { EXPECT_EQ(waits(1000, Wait::Requests, kShortNs), 1000 * kShortNs); }

TEST_F(SpinGaugeTest, ALongWaitIsSpunForOnceAtMost) {
  waits(100, Wait::Requests, kShortNs);
  EXPECT_EQ(wait(Wait::Requests, kLongNs), kSpinNs);
  EXPECT_EQ(waits(2, Wait::Requests, kLongNs), kSpinNs);
  EXPECT_EQ(waits(20, Wait::Requests, kLongNs), 0);
}

TEST_F(SpinGaugeTest, OneLongWaitDoesNotEndTheSpinningOfABusyThread) {
  for (int i = 0; i < 50; ++i) {
    waits(20, Wait::Requests, kShortNs);
    EXPECT_EQ(wait(Wait::Requests, kLongNs), kSpinNs);
    EXPECT_EQ(wait(Wait::Requests, kShortNs), kShortNs);
  }
}

TEST_F(SpinGaugeTest, AWakeUpThatFindsNothingDoesNotSpinAgainNorCountTwice) {
  waits(100, Wait::Requests, kShortNs);
  const int64_t begin_ns = clock_.nowNs();
  while (gauge_.goesOn(Wait::Requests, clock_.nowNs())) clock_.advance(kNanosPerMicro);
  EXPECT_EQ(clock_.nowNs() - begin_ns, kSpinNs);
  for (int i = 0; i < 10; ++i) {
    gauge_.sleeps(Wait::Requests);
    clock_.advance(kLongNs);
    EXPECT_FALSE(gauge_.goesOn(Wait::Requests, clock_.nowNs()));
  }
  gauge_.found();
  EXPECT_TRUE(gauge_.expectsSoon(Wait::Requests));
}

// A thread that waits for three backups, which flush side by side.
TEST_F(SpinGaugeTest, ShortWaitsBehindALongOneAreNotSpunFor) {
  waits(8, Wait::Answers, kLongNs);
  int64_t spun_ns = 0;
  constexpr int kTurns = 1000;
  for (int i = 0; i < kTurns; ++i) {
    spun_ns += wait(Wait::Answers, kLongNs) + wait(Wait::Answers, kShortNs) + wait(Wait::Answers, kShortNs);
  }
  EXPECT_LT(spun_ns, kTurns * kSpinNs / 5);
}

TEST_F(SpinGaugeTest, LearnsEachKindOfWaitByItself) {
  waits(20, Wait::Answers, kLongNs);
  waits(20, Wait::Requests, kShortNs);
  EXPECT_EQ(wait(Wait::Answers, kLongNs), 0);
  EXPECT_EQ(wait(Wait::Requests, kShortNs), kShortNs);
}

TEST_F(SpinGaugeTest, BeginsAgainAfterSomeShortSleeps) {
  waits(20, Wait::Requests, kLongNs);
  EXPECT_LE(waits(5, Wait::Requests, kShortNs), kShortNs);
  EXPECT_EQ(wait(Wait::Requests, kShortNs), kShortNs);
}

// If a sleeper takes longer to wake than the longest spin, only a spin can tell that the wait itself is short.
TEST_F(SpinGaugeTest, FindsOutWhenOnlyWakingUpTakesLong) {
  constexpr int64_t kWakeUpNs = 150 * kNanosPerMicro;
  waits(20, Wait::Requests, kLongNs);
  int sleeps = 0;
  for (; !gauge_.expectsSoon(Wait::Requests); ++sleeps) {
    ASSERT_LT(sleeps, 40);
    wait(Wait::Requests, kShortNs + kWakeUpNs);
  }
  EXPECT_EQ(waits(100, Wait::Requests, kShortNs), 100 * kShortNs);
}

TEST_F(SpinGaugeTest, AnIdleThreadSpinsForNextToNothing) {
  waits(20, Wait::Requests, kShortNs);
  EXPECT_LT(waits(1000, Wait::Requests, 100 * runtime::kNanosPerMilli), 40 * kSpinNs);
}

TEST_F(SpinGaugeTest, NeverSpinsIfItMayNot) {
  SpinGauge gauge(clock_, 0);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(gauge.expectsSoon(Wait::Requests));
    gauge.sleeps(Wait::Requests);
    gauge.found();
  }
}

TEST_F(SpinGaugeTest, ACoreIsNotCrowdedWhileNobodyElseRuns) {
  gauge_.offerCore(clock_.nowNs());
  EXPECT_FALSE(gauge_.isCrowded());
}

// A thread that computes on the core keeps it when it is offered; a sleeper that is woken gets it back at once.
TEST_F(SpinGaugeTest, DoesNotSpinForAWhileWhereSomebodyComputes) {
  waits(20, Wait::Requests, kShortNs);
  gauge_.offerCore(clock_.nowNs() - 3 * runtime::kNanosPerMilli);
  EXPECT_FALSE(gauge_.expectsSoon(Wait::Requests));
  EXPECT_FALSE(gauge_.expectsSoon(Wait::Answers));
  EXPECT_EQ(waits(100, Wait::Requests, kShortNs), 0);
  clock_.advance(100 * runtime::kNanosPerMilli);
  EXPECT_EQ(waits(100, Wait::Requests, kShortNs), 100 * kShortNs);
}

// The core is offered ever more seldom while a thread computes there; when that has gone, as often as before.
TEST_F(SpinGaugeTest, OffersTheCoreMoreSeldomAsLongAsSomebodyComputes) {
  const auto pause = [this] {
    gauge_.offerCore(clock_.nowNs() - 3 * runtime::kNanosPerMilli);
    const int64_t begin_ns = clock_.nowNs();
    while (!gauge_.expectsSoon(Wait::Requests)) clock_.advance(runtime::kNanosPerMilli);
    return clock_.nowNs() - begin_ns;
  };
  const int64_t first_ns = pause();
  EXPECT_EQ(pause(), 2 * first_ns);
  int64_t longest_ns = 0;
  for (int i = 0; i < 10; ++i) longest_ns = pause();
  EXPECT_EQ(pause(), longest_ns);
  EXPECT_LT(longest_ns, runtime::kNanosPerSecond);
  clock_.advance(2 * longest_ns);
  EXPECT_EQ(pause(), first_ns);
}

// The caller names a time before the offer that lies far back, so that another thread seems to have run.
TEST_F(SpinGaugeTest, ACoreIsCrowdedForAWhileAfterSomebodyElseRan) {
  gauge_.offerCore(clock_.nowNs() - 20 * kNanosPerMicro);
  EXPECT_TRUE(gauge_.isCrowded());
  clock_.advance(runtime::kNanosPerMilli);
  EXPECT_TRUE(gauge_.isCrowded());
  clock_.advance(10 * runtime::kNanosPerMilli);
  EXPECT_FALSE(gauge_.isCrowded());
}

}  // namespace
}  // namespace ramcore::rpc
