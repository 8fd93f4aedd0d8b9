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
  range.advance(0, 1250);
  EXPECT_TRUE(range.has(1000));
  EXPECT_TRUE(range.has(1249));
  EXPECT_FALSE(range.has(1250)) << "the next one to be asked for";
  EXPECT_EQ(range.fraction(), 0.25);
  range.advance(0, 1999);
  EXPECT_TRUE(range.has(1998));
  EXPECT_FALSE(range.has(1999));
  range.finish(0);
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
  range.advance(0, 100);
  range.noteKnown(500);
  EXPECT_FALSE(range.isClosed());
  range.close();
  EXPECT_TRUE(range.isClosed());
  EXPECT_TRUE(range.has(99) && range.has(500));
  EXPECT_FALSE(range.has(100));
}

TEST(ArrivingRangeTest, PartitionsCoverTheRangeWithoutAGap) {
  const auto ranges = {HashRange{0, kLast}, HashRange{1000, 1999},       HashRange{7, 7},
                       HashRange{3, 8},     HashRange{kLast - 2, kLast}, HashRange{1, kLast / 2 + 7}};
  for (const HashRange& range : ranges) {
    for (const size_t wanted : {1u, 2u, 4u, 8u}) {
      const ArrivingRange arriving(range, SegmentId(7), wanted);
      ASSERT_LE(arriving.partitionCount(), wanted);
      KeyHash next = range.first;
      for (size_t i = 0; i < arriving.partitionCount(); ++i) {
        const HashRange part = arriving.partition(i);
        ASSERT_EQ(part.first, next) << range.first << " " << wanted << " " << i;
        ASSERT_LE(part.first, part.last);
        next = part.last + 1;
      }
      EXPECT_EQ(next, range.last + 1);
    }
  }
}

TEST(ArrivingRangeTest, PartitionsArriveBesideEachOther) {
  ArrivingRange range({0, 7999}, SegmentId(7), 8);
  ASSERT_EQ(range.partitionCount(), 8u);
  const HashRange third = range.partition(2);
  range.advance(2, third.first + 10);
  EXPECT_TRUE(range.has(third.first) && range.has(third.first + 9));
  EXPECT_FALSE(range.has(third.first + 10) || range.has(third.first - 1) || range.has(0));
  EXPECT_EQ(range.lastFrom(third.first), third.first + 9);
  EXPECT_EQ(range.lastFrom(third.first + 10), std::nullopt);
  EXPECT_EQ(range.lastFrom(third.first - 1), std::nullopt);
  range.finish(1);
  EXPECT_EQ(range.lastFrom(range.partition(1).first), third.first + 9) << "without a gap";
  range.finish(2);
  EXPECT_EQ(range.lastFrom(third.first), third.last) << "of the next one nothing has come";
  EXPECT_FALSE(range.hasAll());
  for (size_t i = 0; i < range.partitionCount(); ++i) range.finish(i);
  EXPECT_TRUE(range.hasAll());
  EXPECT_EQ(range.lastFrom(0), KeyHash{7999});
  EXPECT_EQ(range.fraction(), 1);
}

TEST(ArrivingRangeTest, TheLastHashOfAllIsNotTakenForArrived) {
  ArrivingRange range({0, kLast}, SegmentId(7));
  range.advance(0, kLast);
  EXPECT_TRUE(range.has(kLast - 1));
  EXPECT_FALSE(range.has(kLast));
  EXPECT_FALSE(range.hasAll());
  EXPECT_EQ(range.lastFrom(5), kLast - 1);
  range.finish(0);
  EXPECT_TRUE(range.has(kLast));
}

}  // namespace
}  // namespace ramcore::store
