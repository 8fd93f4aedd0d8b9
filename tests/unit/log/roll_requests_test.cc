#include "log/roll_requests.h"

#include <gtest/gtest.h>

namespace ramcore::log {
namespace {

TEST(RollRequests, NameTheNextId) {
  LogLock lock;
  RollRequests rolls;
  LogGuard guard(lock);
  EXPECT_EQ(rolls.takeId(), SegmentId(1));
  EXPECT_EQ(rolls.request(), SegmentId(2));
  EXPECT_EQ(rolls.wanted(), SegmentId(2));
  EXPECT_EQ(rolls.wantedForPass(), SegmentId());
  EXPECT_EQ(rolls.takeId(), SegmentId(2)) << "a request takes none";
  EXPECT_EQ(rolls.requestForPass(), SegmentId(3));
  EXPECT_EQ(rolls.wanted(), SegmentId(3));
  EXPECT_EQ(rolls.wantedForPass(), SegmentId(3));
}

}  // namespace
}  // namespace ramcore::log
