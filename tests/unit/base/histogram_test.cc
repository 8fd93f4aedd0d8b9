#include "base/histogram.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace ramcore {
namespace {

TEST(LogLinearHistogram, SmallValuesHaveBucketsOfTheirOwn) {
  for (uint64_t value = 0; value < 32; ++value) {
    EXPECT_EQ(LogLinearHistogram::upperBoundOf(LogLinearHistogram::bucketOf(value)), value);
  }
}

TEST(LogLinearHistogram, BucketsAreInOrderWithoutGapsAndAtMostOneSixteenthWide) {
  for (uint32_t bucket = 0; bucket + 1 < LogLinearHistogram::kBucketCount; ++bucket) {
    const uint64_t last = LogLinearHistogram::upperBoundOf(bucket);
    ASSERT_EQ(LogLinearHistogram::bucketOf(last), bucket);
    ASSERT_EQ(LogLinearHistogram::bucketOf(last + 1), bucket + 1);
    const uint64_t width = LogLinearHistogram::upperBoundOf(bucket + 1) - last;
    ASSERT_LE(width - 1, last / 16 + 1) << bucket;
  }
}

TEST(LogLinearHistogram, TheLargestValueHasABucket) {
  LogLinearHistogram histogram;
  histogram.record(~uint64_t{0});
  EXPECT_EQ(LogLinearHistogram::bucketOf(~uint64_t{0}), LogLinearHistogram::kBucketCount - 1);
  EXPECT_EQ(histogram.count(), 1u);
  EXPECT_EQ(histogram.quantile(1), ~uint64_t{0});
}

TEST(LogLinearHistogram, QuantilesOfKnownValues) {
  LogLinearHistogram histogram;
  EXPECT_EQ(histogram.quantile(0.5), 0u);
  for (uint64_t value = 1; value <= 1000; ++value) histogram.record(value);
  EXPECT_EQ(histogram.count(), 1000u);
  EXPECT_EQ(histogram.sum(), 500'500u);
  for (const double fraction : {0.01, 0.25, 0.5, 0.9, 0.99, 1.0}) {
    const double exact = fraction * 1000;
    EXPECT_GE(static_cast<double>(histogram.quantile(fraction)), exact) << fraction;
    EXPECT_LE(static_cast<double>(histogram.quantile(fraction)), exact * 17 / 16 + 1) << fraction;
  }
  EXPECT_EQ(histogram.quantile(0), 1u);
}

TEST(LogLinearHistogram, MergeAddsAndResetForgets) {
  LogLinearHistogram a;
  LogLinearHistogram b;
  a.record(5);
  b.record(5);
  b.record(1'000'000);
  a.merge(b);
  EXPECT_EQ(a.count(), 3u);
  EXPECT_EQ(a.sum(), 1'000'010u);
  EXPECT_EQ(a.bucketCountAt(LogLinearHistogram::bucketOf(5)), 2u);
  EXPECT_EQ(b.count(), 2u);
  a.reset();
  EXPECT_EQ(a.count(), 0u);
  EXPECT_EQ(a.sum(), 0u);
}

TEST(LogLinearHistogram, MergesWhileAnotherThreadRecords) {
  LogLinearHistogram recorded;
  constexpr uint64_t kCount = 20'000;
  std::thread recorder([&recorded] {
    for (uint64_t i = 0; i < kCount; ++i) recorded.record(i);
  });
  uint64_t before = 0;
  while (before < kCount) {
    LogLinearHistogram seen;
    seen.merge(recorded);
    ASSERT_GE(seen.count(), before);
    before = seen.count();
  }
  recorder.join();
  EXPECT_EQ(recorded.sum(), kCount * (kCount - 1) / 2);
}

}  // namespace
}  // namespace ramcore
