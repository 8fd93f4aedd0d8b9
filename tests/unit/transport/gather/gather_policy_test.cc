#include "transport/gather/gather_policy.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace ramcore::transport {
namespace {

constexpr GatherLimits kLimits{.entries_max = 32, .inline_bytes_max = 200, .copy_below_bytes = 256};

std::unique_ptr<TxBuffer> messageOf(uint32_t head_bytes, const std::vector<uint32_t>& chunks) {
  static std::byte somewhere[1];
  auto buffer = std::make_unique<TxBuffer>();
  buffer->head_bytes = head_bytes;
  for (const uint32_t bytes : chunks) {
    Chunk& chunk = buffer->chunks[buffer->chunk_count++];
    chunk.address = somewhere;
    chunk.bytes = bytes;
  }
  return buffer;
}

bool anywhere(const Chunk&) { return true; }

TEST(GatherPolicy, LongChunksAreReadWhereTheyAreAndShortOnesAreCopied) {
  const auto message = messageOf(100, {1000, 255, 256, 10, 20, 4000});
  const GatherPlan plan = planGather(*message, kLimits, anywhere);
  EXPECT_FALSE(plan.is_inline);
  EXPECT_EQ(plan.copied_bytes, 255u + 10 + 20);
  EXPECT_EQ(std::vector<bool>(plan.is_copied.begin(), plan.is_copied.begin() + 6),
            (std::vector<bool>{false, true, false, true, true, false}));
  EXPECT_EQ(plan.entries, 6u) << "what is copied side by side is one entry";
}

TEST(GatherPolicy, WhatHardwareCannotReachIsCopied) {
  const auto message = messageOf(300, {1000, 1000});
  const GatherPlan plan =
      planGather(*message, kLimits, [&](const Chunk& chunk) { return &chunk != &message->chunks[1]; });
  EXPECT_FALSE(plan.is_copied[0]);
  EXPECT_TRUE(plan.is_copied[1]);
  EXPECT_EQ(plan.copied_bytes, 1000u);
}

TEST(GatherPolicy, SmallMessagesGoInsideTheDescriptor) {
  EXPECT_TRUE(planGather(*messageOf(100, {50, 50}), kLimits, anywhere).is_inline);
  EXPECT_FALSE(planGather(*messageOf(100, {50, 51}), kLimits, anywhere).is_inline);
  GatherLimits without = kLimits;
  without.inline_bytes_max = 0;
  EXPECT_FALSE(planGather(*messageOf(0, {}), without, anywhere).is_inline) << "not even an empty one";
  GatherLimits narrow = kLimits;
  narrow.entries_max = 2;
  EXPECT_FALSE(planGather(*messageOf(10, {10, 10}), narrow, anywhere).is_inline);
}

TEST(GatherPolicy, BeyondTheEntriesThereAreTheCheapestNeighboursAreCopied) {
  std::vector<uint32_t> chunks(32, 5000);
  chunks[10] = 300;
  chunks[20] = 400;
  chunks[21] = 500;
  const auto message = messageOf(100, chunks);
  const GatherPlan plan = planGather(*message, kLimits, anywhere);
  EXPECT_EQ(plan.entries, 32u);
  EXPECT_EQ(plan.copied_bytes, 900u) << "one alone would be an entry as before";
  EXPECT_TRUE(plan.is_copied[20] && plan.is_copied[21]);
  // A neighbour of a chunk that is copied anyway is joined with it.
  chunks[20] = 200;
  chunks[30] = 100;
  const auto other = messageOf(100, chunks);
  const GatherPlan joined =
      planGather(*other, {.entries_max = 31, .inline_bytes_max = 0, .copy_below_bytes = 256}, anywhere);
  EXPECT_EQ(joined.entries, 31u);
  EXPECT_TRUE(joined.is_copied[20] && joined.is_copied[21] && joined.is_copied[30]);
  EXPECT_EQ(joined.copied_bytes, 200u + 500 + 100 + 5000);
}

TEST(GatherPolicy, EveryNumberOfEntriesIsKept) {
  for (uint32_t entries_max = 2; entries_max <= 33; ++entries_max) {
    GatherLimits limits = kLimits;
    limits.entries_max = entries_max;
    for (uint32_t count = 0; count <= 32; ++count) {
      const auto message = messageOf(300, std::vector<uint32_t>(count, 1000));
      const GatherPlan plan = planGather(*message, limits, anywhere);
      EXPECT_LE(plan.entries, entries_max) << count;
      uint32_t copied = 0;
      for (uint32_t i = 0; i < count; ++i) copied += plan.is_copied[i] ? 1000 : 0;
      EXPECT_EQ(plan.copied_bytes, copied);
      if (count + 1 <= entries_max) EXPECT_EQ(copied, 0u) << "nothing for nothing";
    }
  }
}

TEST(GatherPolicy, EmptyChunksTakeNoEntry) {
  EXPECT_EQ(planGather(*messageOf(300, {0, 1000, 0}), kLimits, anywhere).entries, 2u);
}

// The plan for a part of a message that one frame holds: the caller says which ends of cut chunks are copied.
TEST(GatherPolicy, PiecesOfAMessageAreCopiedAsTheCallerSays) {
  const auto message = messageOf(0, {10, 1400, 30});
  const auto chunks = std::span<const Chunk>(message->chunks).first(3);
  GatherLimits limits = kLimits;
  limits.inline_bytes_max = 0;
  const auto short_one = [](const Chunk& chunk) { return chunk.bytes < 20; };
  const GatherPlan plan = planPieces(64, chunks, limits, short_one);
  EXPECT_TRUE(plan.is_copied[0]);
  EXPECT_FALSE(plan.is_copied[1]);
  EXPECT_FALSE(plan.is_copied[2]) << "shorter than copy_below_bytes, which is the caller's business here";
  EXPECT_EQ(plan.copied_bytes, 10u);
  EXPECT_EQ(plan.entries, 4u);
  limits.entries_max = 3;
  const GatherPlan narrow = planPieces(64, chunks, limits, short_one);
  EXPECT_LE(narrow.entries, 3u);
  EXPECT_TRUE(narrow.is_copied[0]) << "what had to be copied still is";
  const GatherPlan none = planPieces(64, {}, limits, short_one);
  EXPECT_EQ(none.entries, 1u);
  EXPECT_FALSE(none.is_inline);
  limits.inline_bytes_max = 100;
  EXPECT_TRUE(planPieces(64, chunks.first(1), limits, short_one).is_inline);
  EXPECT_FALSE(planPieces(91, chunks.first(1), limits, short_one).is_inline);
}

}  // namespace
}  // namespace ramcore::transport
