#include "log/memory/segment_live_bytes.h"

#include <gtest/gtest.h>

namespace ramcore::log {
namespace {

TEST(SegmentLiveBytes, AreTakenOnceAndClearedAltogether) {
  SegmentLiveBytes live;
  live.add(100);
  live.add(-30);
  live.addResults(20);
  live.addLarge(50);
  live.addNamedBy(8);
  live.addSucceeded(16);
  live.noteEntryBytes(64);
  live.noteEntryBytes(32);
  EXPECT_EQ(live.bytes(), 70);
  EXPECT_EQ(live.largestEntryBytes(), 64u);
  EXPECT_EQ(live.take(), 70);
  EXPECT_EQ(live.take(), 0);
  EXPECT_EQ(live.takeResults(), 20);
  EXPECT_EQ(live.takeLarge(), 50);
  EXPECT_EQ(live.takeSucceeded(), 16);
  EXPECT_EQ(live.namedByTombstoneBytes(), 8u) << "until the tombstones are counted out";
  live.addSucceeded(1);
  live.clear();
  EXPECT_EQ(live.succeededBytes(), 0);
  EXPECT_EQ(live.namedByTombstoneBytes(), 0u);
  EXPECT_EQ(live.largestEntryBytes(), 0u);
}

}  // namespace
}  // namespace ramcore::log
