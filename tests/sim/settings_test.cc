// The settings of simulated runs: what is drawn makes sense and reaches its corners, and is the same for the same seed.
#include "sim/cluster/settings.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ramcore::sim {
namespace {

TEST(Settings, WhatIsDrawnMakesSense) {
  EXPECT_EQ(Settings().problem(), "");
  for (uint64_t seed = 1; seed <= 5'000; ++seed) {
    for (const bool cold_bytes : {false, true}) {
      const Settings settings = Settings::drawn(seed, cold_bytes);
      EXPECT_EQ(settings.problem(), "") << "seed " << seed << ": " << settings.text();
      EXPECT_EQ(settings, Settings::drawn(seed, cold_bytes));
    }
  }
}

TEST(Settings, TheCornersAreDrawn) {
  constexpr uint64_t kSeeds = 2'000;
  Settings least = Settings::drawn(1, false);
  Settings most = least;
  uint64_t with_large_segments = 0;
  uint64_t with_little_memory = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Settings drawn = Settings::drawn(seed, seed % 2 == 0);
    for (const auto field : {&Settings::servers, &Settings::replicas, &Settings::min_replicas, &Settings::workers,
                             &Settings::cleaners, &Settings::keys, &Settings::large_value_bytes, &Settings::loops}) {
      least.*field = std::min(least.*field, drawn.*field);
      most.*field = std::max(most.*field, drawn.*field);
    }
    with_large_segments += drawn.segment_kb == Settings::kLargeSegmentKb ? 1 : 0;
    with_little_memory += drawn.memory_segments == 11 ? 1 : 0;
  }
  EXPECT_EQ(least.servers, 3u);
  EXPECT_EQ(most.servers, 6u);
  EXPECT_EQ(least.replicas, 1u);
  EXPECT_EQ(most.replicas, 3u);
  EXPECT_EQ(least.min_replicas, 1u);
  EXPECT_EQ(most.min_replicas, 2u);
  EXPECT_EQ(least.workers, 1u);
  EXPECT_EQ(most.workers, 6u);
  EXPECT_EQ(least.cleaners, 1u);
  EXPECT_EQ(most.cleaners, 5u);
  EXPECT_EQ(least.keys, 4u);
  EXPECT_GT(most.keys, 1'950u);
  EXPECT_EQ(most.large_value_bytes, 500'000u);
  EXPECT_EQ(least.loops, 1u);
  EXPECT_EQ(most.loops, 8u);
  EXPECT_GT(with_large_segments, kSeeds / 16);
  EXPECT_GT(with_little_memory, kSeeds / 6);
}

TEST(Settings, EachCanBeSet) {
  SettingsSource source{.drawn = true, .changes = {"keys=5", "loops=3"}};
  const Settings settings = source.of(7, false);
  EXPECT_EQ(settings.keys, 5u);
  EXPECT_EQ(settings.loops, 3u);
  EXPECT_EQ(settings.servers, Settings::drawn(7, false).servers);
  EXPECT_EQ(source.flags(), " --settings drawn --set keys=5 --set loops=3");
}

TEST(Settings, WhatMakesNoSenseIsRefused) {
  Settings settings;
  for (const char* text : {"keys", "keys=", "keys=x", "keys=5x", "keys=-1", "key=5", "=5", ""}) {
    EXPECT_FALSE(settings.set(text)) << text;
  }
  EXPECT_TRUE(settings.set("min-replicas=4"));
  EXPECT_EQ(settings.problem(), "min-replicas is more than replicas");
  settings = {};
  EXPECT_TRUE(settings.set("large-value-bytes=500000"));
  EXPECT_EQ(settings.problem(), "values of 500000 bytes do not fit into segments of 64 KB");
  EXPECT_TRUE(settings.set("segment-kb=2048"));
  EXPECT_EQ(settings.problem(), "");
  EXPECT_TRUE(settings.set("servers=2"));
  EXPECT_EQ(settings.problem(), "servers has to be 3 to 8");
}

// A text names all settings: what was printed for a seed can be given as flags.
TEST(Settings, TheTextGivesTheSameSettings) {
  const Settings drawn = Settings::drawn(42, true);
  Settings again;
  std::string text = drawn.text() + " ";
  for (size_t from = 0, to = 0; (to = text.find(' ', from)) != std::string::npos; from = to + 1) {
    EXPECT_TRUE(again.set(std::string_view(text).substr(from, to - from)));
  }
  EXPECT_EQ(again, drawn);
}

}  // namespace
}  // namespace ramcore::sim
