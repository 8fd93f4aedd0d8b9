#include "backup/free_frames.h"

#include <gtest/gtest.h>

#include "wire/replica_messages.h"

namespace ramcore::backup {
namespace {

using Flags = wire::WriteReplica;

constexpr uint8_t kSurvivorFlags = Flags::kOpen;
constexpr uint8_t kHeadFlags = Flags::kOpen | Flags::kHead;
constexpr uint8_t kSmallHeadFlags = kHeadFlags | Flags::kReserve;

TEST(FreeFrames, TheOneThatCameFreeLastIsTakenFirst) {
  StoreStats stats;
  FreeFrames frames(8, stats);
  EXPECT_EQ(frames.take(kSurvivorFlags), std::nullopt) << "none is free yet";
  for (const uint32_t frame : {3u, 1u, 2u}) frames.put(frame, false);
  EXPECT_EQ(frames.take(kSurvivorFlags), 2u);
  EXPECT_EQ(frames.take(kSurvivorFlags), 1u);
  EXPECT_EQ(stats.frames_free.load(), 1u);
  EXPECT_EQ(stats.frames_kept.load(), 2u);
}

TEST(FreeFrames, AnEighthIsKeptForSmallHeadsAndAnEighthForSurvivors) {
  StoreStats stats;
  FreeFrames frames(16, stats);
  for (uint32_t frame = 0; frame < 16; ++frame) frames.put(frame, false);
  EXPECT_EQ(stats.frames_kept.load(), 4u);
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(frames.take(kHeadFlags));
  EXPECT_FALSE(frames.take(kHeadFlags));
  const std::optional<uint32_t> small = frames.take(kSmallHeadFlags);
  ASSERT_TRUE(small);
  EXPECT_TRUE(frames.take(kSmallHeadFlags));
  EXPECT_FALSE(frames.take(kSmallHeadFlags)) << "the last two are for survivors";
  EXPECT_TRUE(frames.take(kSurvivorFlags));
  EXPECT_TRUE(frames.take(kSurvivorFlags));
  EXPECT_EQ(stats.frames_free.load(), 0u);
  // The frame of a small head that is gone fills the share of small heads again, before anything else.
  frames.put(*small, true);
  EXPECT_FALSE(frames.take(kSurvivorFlags));
  EXPECT_FALSE(frames.take(kHeadFlags));
  EXPECT_EQ(frames.take(kSmallHeadFlags), small);
}

}  // namespace
}  // namespace ramcore::backup
