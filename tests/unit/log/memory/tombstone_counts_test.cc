#include "log/memory/tombstone_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "log/bookkeeping.h"
#include "unit/log/log_fixture.h"

namespace ramcore::log {
namespace {

using Model = std::map<std::pair<uint32_t, uint32_t>, int64_t>;

int64_t sumOf(const Model& model, const std::pair<uint32_t, uint32_t>& pair) {
  const auto found = model.find(pair);
  return found == model.end() ? 0 : found->second;
}

TEST(TombstoneCounts, AgreesWithAMap) {
  constexpr uint32_t kSlots = 150;
  TombstoneCounts counts(kSlots);
  Model model;
  std::mt19937 random(7);
  const auto slot = [&] { return static_cast<uint32_t>(random() % kSlots); };
  for (int step = 0; step < 60'000; ++step) {
    const uint32_t named = slot();
    const uint32_t holder = slot();
    const uint32_t what = random() % 2000;
    if (what < 1600) {
      if (step % 3 == 0) counts.prepare();
      const auto bytes = static_cast<uint32_t>(8 + random() % 100);
      counts.add(named, holder, bytes);
      if ((model[{named, holder}] += bytes) == 0) model.erase({named, holder});
    } else if (what < 1990) {
      // The bytes may be moved away before they were counted.
      const int64_t bytes =
          random() % 4 == 0 ? 40 : sumOf(model, {named, holder}) / static_cast<int64_t>(1 + random() % 2);
      counts.add(named, holder, -bytes);
      if ((model[{named, holder}] -= bytes) == 0) model.erase({named, holder});
    } else if (what < 1993) {
      for (auto taken = counts.takeNaming(named); taken.bytes != 0; taken = counts.takeNaming(named)) {
        ASSERT_EQ(taken.bytes, sumOf(model, {named, taken.slot}));
        model.erase({named, taken.slot});
      }
      ASSERT_TRUE(std::ranges::none_of(model, [&](const auto& pair) { return pair.first.first == named; }));
    } else if (what < 1996) {
      for (auto taken = counts.takeHeld(holder); taken.bytes != 0; taken = counts.takeHeld(holder)) {
        ASSERT_EQ(taken.bytes, sumOf(model, {taken.slot, holder}));
        model.erase({taken.slot, holder});
      }
      ASSERT_TRUE(std::ranges::none_of(model, [&](const auto& pair) { return pair.first.second == holder; }));
    } else if (named != holder) {
      counts.moveNaming(named, holder);
      for (uint32_t i = 0; i < kSlots; ++i) {
        const auto found = model.find({named, i});
        if (found == model.end()) continue;
        const int64_t bytes = found->second;
        model.erase(found);
        if ((model[{holder, i}] += bytes) == 0) model.erase({holder, i});
      }
    }
    ASSERT_EQ(counts.bytesOf(named, holder), sumOf(model, {named, holder}));
  }
  for (uint32_t named = 0; named < kSlots; ++named) {
    for (uint32_t holder = 0; holder < kSlots; ++holder) {
      ASSERT_EQ(counts.bytesOf(named, holder), sumOf(model, {named, holder}));
    }
  }
  EXPECT_GT(model.size(), 4096U) << "the table has not grown";
}

/// 256 GiB have 49,184 slots: a counter for each two of them would be 9.7 GB.
TEST(TombstoneCounts, MemoryIsForPairsThatThereAre) {
  constexpr uint32_t kSlots = 49'184;
  TombstoneCounts counts(kSlots);
  EXPECT_EQ(counts.bytes(), 0U);
  std::mt19937 random(7);
  constexpr uint32_t kPairs = 100'000;
  for (uint32_t i = 0; i < kPairs; ++i) counts.add(random() % kSlots, i % 100, 64);
  EXPECT_LE(counts.bytes(), uint64_t{kPairs + 4096} * TombstoneCounts::kPairBytes);
  // New pairs in the place of those that have gone take no more memory.
  const uint64_t before = counts.bytes();
  for (uint32_t holder = 0; holder < 100; ++holder) {
    while (counts.takeHeld(holder).bytes != 0) {
    }
  }
  for (uint32_t i = 0; i < kPairs / 2; ++i) counts.add(random() % kSlots, i % 100, 64);
  EXPECT_EQ(counts.bytes(), before);
}

/// The memory that a server announces on top of its log has room for these pairs.
TEST(TombstoneCounts, OfASixteenthOfTheMemoryInAllPairsOfSegmentsAreInItsBudget) {
  const LogConfig config = LogConfig::forMemory(uint64_t{8} << 30);
  const uint64_t segments = config.memory_bytes / config.segment_bytes;
  TombstoneCounts counts(config.segmentSlots());
  for (uint32_t holder = 0; holder < segments; ++holder) {
    for (uint32_t named = 0; named < segments; ++named) counts.add(named, holder, 64);
  }
  EXPECT_GE(bookkeepingBytes(config), counts.bytes() + config.segmentSlots() * sizeof(Segment));
  // The memory does not grow with the square of the number of slots.
  const LogConfig large = LogConfig::forMemory(uint64_t{256} << 30);
  EXPECT_LT(bookkeepingBytes(large), large.memory_bytes / 20);
  const LogConfig largest = LogConfig::forMemory(uint64_t{2} << 40);
  EXPECT_LT(bookkeepingBytes(largest), largest.memory_bytes / 16);
}

/// A segment is given up under the log's lock, so the tombstones that name it are counted out later, but before its
/// slot is used again.
TEST(TombstoneCounts, WhatNamesASegmentThatIsGivenUpIsCountedOutByTheReclaimer) {
  LogFixture fixture;
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) {
    keys.push_back("key" + std::to_string(i));
    ASSERT_EQ(fixture.owner.put(*fixture.log, keys.back(), "value"), Status::Ok);
  }
  Segment& named = *fixture.log->pool().segmentOf(fixture.owner.refs().at(keys[0]));
  SegmentId request = fixture.log->requestRoll();
  ASSERT_TRUE(fixture.log->isRolled(request));
  for (const std::string& key : keys) ASSERT_EQ(fixture.owner.remove(*fixture.log, key), Status::Ok);
  const int64_t tombstone_bytes = fixture.log->stats().tombstone_bytes.load();
  ASSERT_GT(tombstone_bytes, 0);
  fixture.log->members().exchange({}, std::array{&named});
  request = fixture.log->requestRoll();
  ASSERT_TRUE(fixture.log->isRolled(request));
  ASSERT_EQ(named.state(), SegmentState::Unlinked);
  EXPECT_FALSE(fixture.log->counts().isTombstoneLive(&named));
  EXPECT_FALSE(fixture.log->heads().isSettled()) << "what has died is not counted yet";
  fixture.expectCountsAreRight();
  while (named.state() != SegmentState::Free) fixture.reclaim();
  EXPECT_EQ(fixture.log->stats().tombstone_bytes.load(), 0);
  EXPECT_EQ(fixture.log->stats().live_bytes.load(), 0);
  fixture.expectCountsAreRight();
}

}  // namespace
}  // namespace ramcore::log
