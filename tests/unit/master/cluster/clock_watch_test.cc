#include "master/cluster/clock_watch.h"

#include <gtest/gtest.h>

namespace ramcore::master {
namespace {

constexpr int64_t kMilli = 1'000'000;
constexpr uint64_t kStart = 7;

TEST(ClockWatch, ClocksOfTheSameRateLoseNothing) {
  ClockWatch watch;
  // Answers take any time, and the coordinator reads its clock at any moment of it.
  const int64_t answered_after_ms[] = {0, 100, 3, 0, 99, 100, 1};
  int64_t sent_ns = 5'000 * kMilli;
  for (const int64_t after_ms : answered_after_ms) {
    EXPECT_EQ(watch.lostNs(kStart, sent_ns + after_ms * kMilli + 1'000'000 * kMilli, sent_ns, sent_ns + 100 * kMilli),
              0);
    sent_ns += 500 * kMilli;
  }
}

TEST(ClockWatch, ThoseThatDifferByLessThanFivePercentLoseNothing) {
  for (const int64_t rate_permille : {953, 1000, 1049}) {
    ClockWatch watch;
    for (int64_t at_ms = 1; at_ms < 100'000; at_ms += 500) {
      const int64_t own_ns = at_ms * kMilli * rate_permille / 1000;
      EXPECT_EQ(watch.lostNs(kStart, at_ms * kMilli, own_ns, own_ns), 0) << rate_permille;
    }
  }
}

TEST(ClockWatch, WhatAFrozenClockHasMissedIsFoundOnce) {
  ClockWatch watch;
  EXPECT_EQ(watch.lostNs(kStart, 1'000 * kMilli, 10 * kMilli, 11 * kMilli), 0);
  EXPECT_EQ(watch.lostNs(kStart, 41'000 * kMilli, 510 * kMilli, 511 * kMilli), (38'000 - 501) * kMilli);
  EXPECT_EQ(watch.lostNs(kStart, 41'500 * kMilli, 1'010 * kMilli, 1'011 * kMilli), 0);
}

TEST(ClockWatch, ASlowClockIsFoundEachTime) {
  ClockWatch watch;
  EXPECT_EQ(watch.lostNs(kStart, 1'000 * kMilli, 0, 0), 0);
  for (int64_t number = 1; number < 10; ++number) {
    EXPECT_GT(watch.lostNs(kStart, (1'000 + 500 * number) * kMilli, 450 * number * kMilli, 450 * number * kMilli), 0);
  }
}

TEST(ClockWatch, AnotherStartOrNoClockIsNotCompared) {
  ClockWatch watch;
  EXPECT_EQ(watch.lostNs(kStart, 1'000 * kMilli, 0, 0), 0);
  EXPECT_EQ(watch.lostNs(kStart + 1, 900'000 * kMilli, 500, 500), 0);
  EXPECT_EQ(watch.lostNs(kStart + 1, 0, 1'000, 1'000), 0);
  EXPECT_EQ(watch.lostNs(kStart + 1, INT64_MAX, 1'500, 1'500), 0);
  EXPECT_EQ(watch.lostNs(kStart + 1, INT64_MIN, 2'000, 2'000), 0);
  EXPECT_EQ(watch.lostNs(kStart + 1, 5, 2'500, 2'500), 0) << "it went back";
}

}  // namespace
}  // namespace ramcore::master
