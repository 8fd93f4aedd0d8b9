#include "log/memory/free_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace ramcore::log {
namespace {

constexpr uint64_t kSeglet = 4096;
constexpr uint64_t kBlock = 4 * kSeglet;

TEST(FreeRuns, NeighboursJoin) {
  FreeRuns runs(kBlock);
  runs.put({0, kSeglet});
  runs.put({2 * kSeglet, kSeglet});
  EXPECT_EQ(runs.pieceBytes(), 2 * kSeglet);
  EXPECT_FALSE(runs.takeBlocks(kBlock));
  runs.put({kSeglet, kSeglet});
  EXPECT_EQ(runs.pieceBytes(), 3 * kSeglet);
  runs.put({3 * kSeglet, kSeglet});
  EXPECT_EQ(runs.pieceBytes(), 0u);
  EXPECT_EQ(runs.blockRunBytes(), kBlock);
  const auto block = runs.takeBlocks(kBlock);
  ASSERT_TRUE(block);
  EXPECT_EQ(block->begin, 0u);
  EXPECT_EQ(block->bytes, kBlock);
  EXPECT_EQ(runs.blockRunBytes() + runs.pieceBytes(), 0u);
}

TEST(FreeRuns, BlocksComeFromTheShortestRunThatSuffices) {
  FreeRuns runs(kBlock);
  runs.put({0, 10 * kBlock});
  runs.put({100 * kBlock, 3 * kBlock});
  runs.put({200 * kBlock, 2 * kBlock});
  EXPECT_EQ(runs.takeBlocks(3 * kBlock)->begin, 100 * kBlock);
  EXPECT_EQ(runs.takeBlocks(kBlock)->begin, 200 * kBlock);
  EXPECT_EQ(runs.takeBlocks(20 * kBlock)->bytes, 10 * kBlock) << "the longest, if none suffices";
}

TEST(FreeRuns, WhatStaysBehindIsABlockOrTooShortForTwo) {
  FreeRuns runs(kBlock);
  runs.put({0, 3 * kBlock});
  const auto less = runs.takeBlocks(2 * kBlock + kSeglet);
  EXPECT_EQ(less->bytes, 2 * kBlock);
  EXPECT_EQ(runs.blockRunBytes(), kBlock);
  runs.put({100 * kBlock, kBlock + kSeglet});
  ASSERT_TRUE(runs.takeBlocks(kBlock));
  EXPECT_EQ(runs.takeBlocks(kBlock)->bytes, kBlock + kSeglet) << "the rest would be of no use to large entries";
}

TEST(FreeRuns, PiecesComeFromTheLongest) {
  FreeRuns runs(kBlock);
  runs.put({0, kSeglet});
  runs.put({10 * kBlock, 3 * kSeglet});
  runs.put({20 * kBlock, kBlock});
  EXPECT_EQ(runs.takePiece(2 * kSeglet)->begin, 10 * kBlock);
  EXPECT_EQ(runs.pieceBytes(), 2 * kSeglet);
  EXPECT_TRUE(runs.takePiece(2 * kSeglet));
  EXPECT_TRUE(runs.takePiece(2 * kSeglet));
  EXPECT_FALSE(runs.takePiece(2 * kSeglet)) << "blocks are left alone";
  EXPECT_EQ(runs.blockRunBytes(), kBlock);
}

TEST(FreeRuns, NothingIsLostOrGivenTwice) {
  FreeRuns runs(kBlock);
  constexpr uint64_t kSeglets = 512;
  std::vector<bool> taken(kSeglets, true);
  const auto mark = [&](FreeRuns::Run run, bool value) {
    for (uint64_t at = run.begin; at < run.begin + run.bytes; at += kSeglet) {
      ASSERT_NE(taken[at / kSeglet], value);
      taken[at / kSeglet] = value;
    }
  };
  std::vector<FreeRuns::Run> held{{0, kSeglets * kSeglet}};
  std::mt19937_64 random(5);
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 2 == 0 && !held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      FreeRuns::Run run = held.back();
      held.pop_back();
      if (run.bytes > kSeglet && random() % 2 == 0) {  // a part of it only
        const uint64_t kept = (1 + random() % (run.bytes / kSeglet - 1)) * kSeglet;
        held.push_back({run.begin, kept});
        run = {run.begin + kept, run.bytes - kept};
      }
      mark(run, false);
      runs.put(run);
    } else {
      const uint64_t wanted = (1 + random() % 40) * kSeglet;
      const auto run = random() % 2 == 0 ? runs.takeBlocks(wanted) : runs.takePiece(wanted);
      if (!run) continue;
      mark(*run, true);
      held.push_back(*run);
    }
    const auto free = static_cast<uint64_t>(std::count(taken.begin(), taken.end(), false)) * kSeglet;
    ASSERT_EQ(runs.blockRunBytes() + runs.pieceBytes(), free);
  }
}

}  // namespace
}  // namespace ramcore::log
