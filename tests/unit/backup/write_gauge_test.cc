#include "backup/write_gauge.h"

#include <gtest/gtest.h>

namespace ramcore::backup {
namespace {

using runtime::kNanosPerMicro;
using runtime::kNanosPerMilli;
using runtime::kNanosPerSecond;

constexpr int64_t kNow = 1000 * kNanosPerSecond;

TEST(WriteGauge, CopiesAreQuickForEver) {
  WriteGauge gauge;
  for (int i = 0; i < 1'000'000; ++i) gauge.note(kNow, WriteGauge::kFreeNs);
  EXPECT_TRUE(gauge.isQuick(kNow));
}

TEST(WriteGauge, AThreadThatLostItsCoreNowAndThenIsNoSlowDisk) {
  WriteGauge gauge;
  int64_t now_ns = kNow;
  for (int i = 0; i < 1'000; ++i, now_ns += 4 * kNanosPerSecond) {
    gauge.note(now_ns, 4 * kNanosPerMilli);
    EXPECT_TRUE(gauge.isQuick(now_ns)) << i;
  }
}

TEST(WriteGauge, WhatAWriteTookIsPaidForWithAThousandTimesAsLong) {
  WriteGauge gauge;
  gauge.note(kNow, 500 * kNanosPerMilli);
  EXPECT_FALSE(gauge.isQuick(kNow));
  EXPECT_FALSE(gauge.isQuick(kNow + 494 * kNanosPerSecond));
  EXPECT_TRUE(gauge.isQuick(kNow + 500 * kNanosPerSecond));
}

TEST(WriteGauge, ManyWritesThatAreALittleSlowAddUp) {
  WriteGauge gauge;
  for (int i = 0; i < 3; ++i) gauge.note(kNow, 2 * kNanosPerMilli);
  EXPECT_FALSE(gauge.isQuick(kNow));
}

TEST(WriteGauge, TenMinutesAfterTheLastSlowOneItIsTriedAgain) {
  WriteGauge gauge;
  for (int i = 0; i < 100; ++i) gauge.note(kNow, 3600 * kNanosPerSecond);
  EXPECT_FALSE(gauge.isQuick(kNow + 590 * kNanosPerSecond));
  EXPECT_TRUE(gauge.isQuick(kNow + 600 * kNanosPerSecond));
}

}  // namespace
}  // namespace ramcore::backup
