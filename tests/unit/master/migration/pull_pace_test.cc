#include "master/migration/pull_pace.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/clock.h"

namespace ramcore::master {
namespace {

using runtime::kNanosPerMilli;
using runtime::kNanosPerSecond;

constexpr TabletId kFirst{1};
constexpr TabletId kSecond{2};
constexpr uint64_t kMega = 1'000'000;

/// When `bytes` have come that are asked for one slice after the other.
int64_t timeFor(PullPace& pace, uint64_t bytes, uint32_t slice) {
  int64_t now_ns = kNanosPerSecond;
  for (uint64_t asked = 0; asked < bytes; asked += slice)
    now_ns = std::max(now_ns, pace.reserve(slice, now_ns).begin_ns);
  return pace.reserve(slice, now_ns).begin_ns - kNanosPerSecond;
}

TEST(PullPace, WithoutARateNothingWaits) {
  PullPace pace;
  EXPECT_EQ(pace.slice(512 * 1024), 512U * 1024);
  EXPECT_EQ(timeFor(pace, 100 * kMega, 512 * 1024), 0);
}

TEST(PullPace, ContentsComeAtTheRate) {
  PullPace pace;
  pace.set(kFirst, 10 * kMega);
  EXPECT_EQ(pace.slice(1'000'000), 500'000U) << "what comes in 50 ms";
  EXPECT_EQ(pace.slice(1000), 1000U);
  EXPECT_EQ(timeFor(pace, 20 * kMega, 500'000), 2 * kNanosPerSecond);
}

TEST(PullPace, TheLowestRateIsThatOfAllMoves) {
  PullPace pace;
  pace.set(kFirst, 10 * kMega);
  pace.set(kSecond, 5 * kMega);
  EXPECT_EQ(timeFor(pace, 10 * kMega, 250'000), 2 * kNanosPerSecond);
  pace.forget(kSecond);
  EXPECT_EQ(timeFor(pace, 10 * kMega, 250'000), kNanosPerSecond);
  pace.set(kFirst, 0);
  EXPECT_EQ(timeFor(pace, 10 * kMega, 250'000), 0);
}

TEST(PullPace, WhatDidNotComeIsNotWaitedFor) {
  PullPace pace;
  pace.set(kFirst, kMega);
  const PullPace::Place place = pace.reserve(500'000, 0);
  EXPECT_EQ(place.begin_ns, 0);
  pace.giveBack(place, 400'000);
  EXPECT_EQ(pace.reserve(1, 0).begin_ns, 100 * kNanosPerMilli);
}

TEST(PullPace, APlaceEndsWhenTheRateIsChanged) {
  PullPace pace;
  pace.set(kFirst, 1000);
  const PullPace::Place first = pace.reserve(100'000, 0);
  const PullPace::Place second = pace.reserve(100'000, 0);
  EXPECT_EQ(second.begin_ns, 100 * kNanosPerSecond);
  pace.set(kFirst, 1000);
  EXPECT_TRUE(pace.isValid(second)) << "it was only said again";
  pace.set(kFirst, kMega);
  EXPECT_FALSE(pace.isValid(second));
  const PullPace::Place third = pace.reserve(100'000, 0);
  EXPECT_EQ(third.begin_ns, 0);
  pace.giveBack(first, 100'000);
  EXPECT_EQ(pace.reserve(1, 0).begin_ns, 100 * kNanosPerMilli) << "the place is not one of this rate";
}

TEST(PullPace, LowRatesHaveSlicesThatMakeSense) {
  PullPace pace;
  pace.set(kFirst, 1);
  EXPECT_EQ(pace.slice(512 * 1024), 4096U);
  EXPECT_EQ(pace.slice(100), 100U);
}

}  // namespace
}  // namespace ramcore::master
