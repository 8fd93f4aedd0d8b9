#include "base/ids.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "base/bytes.h"

namespace ramcore {
namespace {

TEST(Ids, KindsDoNotMix) {
  static_assert(!std::is_convertible_v<ServerId, ClientId>);
  static_assert(!std::is_convertible_v<uint64_t, ServerId>);
  static_assert(!std::is_constructible_v<TabletId, TableId>);
  EXPECT_FALSE(ServerId());
  EXPECT_TRUE(ServerId(1));
  EXPECT_LT(SegmentId(1), SegmentId(2));
  EXPECT_EQ(Sequence(3), Sequence(3));
}

TEST(Ids, AreTheirIntegerInWireStructs) {
  static_assert(sizeof(TableId) == 4 && sizeof(ServerId) == 8 && Fixed<ServerId> && Fixed<LogPosition>);
  const ServerId id(0x0102030405060708);
  EXPECT_EQ(loadAs<uint64_t>(bytesOf(id).data()), 0x0102030405060708u);
}

TEST(Ids, PositionsAreOrderedAsTheLogIs) {
  EXPECT_LT((LogPosition{SegmentId(1), 900}), (LogPosition{SegmentId(2), 0}));
  EXPECT_LT((LogPosition{SegmentId(2), 8}), (LogPosition{SegmentId(2), 16}));
  EXPECT_EQ(LogPosition{}, (LogPosition{SegmentId(0), 0}));
}

TEST(Ids, ClosedRangesReachBothEnds) {
  constexpr HashRange kAll;
  EXPECT_TRUE(kAll.contains(0));
  EXPECT_TRUE(kAll.contains(~uint64_t{0}));
  constexpr HashRange kOne{5, 5};
  EXPECT_TRUE(kOne.contains(5));
  EXPECT_FALSE(kOne.contains(4));
  EXPECT_FALSE(kOne.contains(6));
}

}  // namespace
}  // namespace ramcore
