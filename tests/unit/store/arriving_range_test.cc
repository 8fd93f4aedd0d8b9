#include "store/arriving_range.h"

#include <gtest/gtest.h>

namespace ramcore::store {
namespace {

constexpr KeyHash kLast = ~uint64_t{0};

TEST(ArrivingRangeTest, NothingHasArrivedAtFirst) {
  const ArrivingRange range({0, kLast}, SegmentId(7));
  // Also not a hash that a place of the table of known hashes could be taken for.
  for (KeyHash hash = 0; hash < 10'000; ++hash) ASSERT_FALSE(range.has(hash)) << hash;
  EXPECT_FALSE(range.has(kLast));
  EXPECT_FALSE(range.hasAll());
  EXPECT_EQ(range.anchor(), SegmentId(7));
  EXPECT_EQ(range.fraction(), 0);
}

TEST(ArrivingRangeTest, WhatIsBeforeTheFrontierHasArrived) {
  ArrivingRange range({1000, 1999}, SegmentId(7));
  EXPECT_FALSE(range.has(1000));
  range.advance(1250);
  EXPECT_TRUE(range.has(1000));
  EXPECT_TRUE(range.has(1249));
  EXPECT_FALSE(range.has(1250)) << "the next one to be asked for";
  EXPECT_EQ(range.fraction(), 0.25);
  range.advance(1999);
  EXPECT_TRUE(range.has(1998));
  EXPECT_FALSE(range.has(1999));
  range.noteAll();
  EXPECT_TRUE(range.has(1999));
  EXPECT_EQ(range.fraction(), 1);
}

TEST(ArrivingRangeTest, HashesThatWereNamedMayHaveSeveralKeys) {
  ArrivingRange range({0, kLast}, SegmentId(7));
  EXPECT_TRUE(range.hasOneKeyAtMost(5));
  range.nameCrowded({.are_all = false, .hashes = {5, 900}});
  EXPECT_FALSE(range.hasOneKeyAtMost(5));
  EXPECT_FALSE(range.hasOneKeyAtMost(900));
  EXPECT_TRUE(range.hasOneKeyAtMost(6));
  range.nameCrowded({.are_all = true, .hashes = {}});
  EXPECT_FALSE(range.hasOneKeyAtMost(6));
}

TEST(ArrivingRangeTest, AHashThatWasAskedForIsKnown) {
  ArrivingRange range({0, kLast}, SegmentId(7));
  range.noteKnown(5'000'000);
  range.noteKnown(kLast);
  EXPECT_TRUE(range.has(5'000'000));
  EXPECT_TRUE(range.has(kLast));
  EXPECT_FALSE(range.has(5'000'001));
  EXPECT_FALSE(range.has(5'000'000 + 4096)) << "has the same place";
}

TEST(ArrivingRangeTest, AKnownHashMayBeForgottenAndIsNeverInvented) {
  ArrivingRange range({0, kLast}, SegmentId(7));
  constexpr KeyHash kMany = 100'000;
  for (KeyHash i = 1; i <= kMany; ++i) {
    range.noteKnown(i * 1'000'003);
    ASSERT_TRUE(range.has(i * 1'000'003)) << "the latest";
  }
  size_t known = 0;
  for (KeyHash i = 1; i <= kMany; ++i) {
    known += range.has(i * 1'000'003) ? 1 : 0;
    ASSERT_FALSE(range.has(i * 1'000'003 + 1));
  }
  EXPECT_GT(known, 1000u);
  EXPECT_LE(known, 4096u);
}

TEST(ArrivingRangeTest, WhatHasArrivedStaysSoWhenNothingArrivesAnyMore) {
  ArrivingRange range({0, kLast}, SegmentId(7));
  range.advance(100);
  range.noteKnown(500);
  EXPECT_FALSE(range.isClosed());
  range.close();
  EXPECT_TRUE(range.isClosed());
  EXPECT_TRUE(range.has(99) && range.has(500));
  EXPECT_FALSE(range.has(100));
}

}  // namespace
}  // namespace ramcore::store
