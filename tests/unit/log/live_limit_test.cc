#include "log/live_limit.h"

#include <gtest/gtest.h>

namespace ramcore::log {
namespace {

struct LimitFixture {
  LimitFixture() : memory(LogMemory::open(config.memory_bytes).value()), pool(config, *memory), limit(pool, stats) {}
  LogConfig config = LogConfig::forTest();
  std::unique_ptr<LogMemory> memory;
  SegmentPool pool;
  LogStats stats;
  LiveLimit limit;
};

TEST(LiveLimit, TombstonesThatMayComeCountAsAlive) {
  LimitFixture fixture;
  const auto most = static_cast<int64_t>(fixture.limit.liveBytesMax());
  fixture.stats.live_bytes = most - 1000;
  EXPECT_TRUE(fixture.limit.hasSpaceFor(1000));
  EXPECT_FALSE(fixture.limit.hasSpaceFor(1001));
  fixture.stats.succeeded_bytes = 500;
  EXPECT_TRUE(fixture.limit.hasSpaceFor(500));
  EXPECT_FALSE(fixture.limit.hasSpaceFor(501));
}

TEST(LiveLimit, NothingIsGainedUntilASegletHasDied) {
  LimitFixture fixture;
  EXPECT_FALSE(fixture.limit.gainsNothing());
  fixture.limit.noteCollectable(false);
  EXPECT_FALSE(fixture.limit.gainsNothing()) << "there is memory for a head";
  for (uint64_t id = 1; fixture.pool.allocate(SegmentKind::Head, SegmentId(id)) != nullptr; ++id) {
  }
  EXPECT_TRUE(fixture.limit.gainsNothing());
  fixture.stats.appended_bytes = fixture.config.seglet_bytes - 1;
  EXPECT_TRUE(fixture.limit.gainsNothing());
  fixture.stats.appended_bytes = fixture.config.seglet_bytes;
  EXPECT_EQ(fixture.limit.deathsBytes(), int64_t{fixture.config.seglet_bytes});
  EXPECT_FALSE(fixture.limit.gainsNothing());
  fixture.limit.noteCollectable(false);
  EXPECT_TRUE(fixture.limit.gainsNothing());
  fixture.limit.noteCollectable(true);
  EXPECT_FALSE(fixture.limit.gainsNothing());
}

}  // namespace
}  // namespace ramcore::log
