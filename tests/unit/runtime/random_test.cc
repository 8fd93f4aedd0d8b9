#include "runtime/random.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace ramcore::runtime {
namespace {

TEST(Random, SameSeedSameNumbersOnEveryMachine) {
  Random random(42);
  // Pinned: a change of these makes every recorded seed worthless.
  const std::array<uint64_t, 4> drawn = {random.next(), random.next(), random.next(), random.next()};
  EXPECT_EQ(drawn, (std::array<uint64_t, 4>{1546998764402558742U, 6990951692964543102U, 12544586762248559009U,
                                            17057574109182124193U}));
}

TEST(Random, StreamIsAFunctionOfSeedAndName) {
  Random used(7);
  for (int i = 0; i < 10; ++i) used.next();
  EXPECT_EQ(used.stream("network").next(), Random(7).stream("network").next());
  EXPECT_NE(used.stream("network").next(), used.stream("clock").next());
  EXPECT_NE(used.stream("network").next(), Random(8).stream("network").next());
  EXPECT_NE(used.stream("network").next(), Random(7).next());
}

TEST(Random, BelowIsUniformAndInside) {
  Random random(1);
  std::array<int, 7> hits{};
  for (int i = 0; i < 70'000; ++i) ++hits[random.below(7)];
  for (const int count : hits) {
    EXPECT_GT(count, 9'500);
    EXPECT_LT(count, 10'500);
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(random.below(1), 0u);
  for (int i = 0; i < 1'000; ++i) {
    const uint64_t value = random.between(10, 12);
    EXPECT_GE(value, 10u);
    EXPECT_LE(value, 12u);
  }
}

TEST(Random, ChanceFollowsItsProbability) {
  Random random(2);
  int hits = 0;
  for (int i = 0; i < 100'000; ++i) hits += random.chance(0.25) ? 1 : 0;
  EXPECT_NEAR(hits, 25'000, 700);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(random.chance(0.0));
    EXPECT_TRUE(random.chance(1.0));
  }
}

TEST(SeededEntropy, FillsEveryByteFromItsSeed) {
  SeededEntropy first(9);
  SeededEntropy second(9);
  std::vector<std::byte> a(1'001);
  std::vector<std::byte> b(1'001);
  first.fill(a);
  second.fill(b);
  EXPECT_EQ(a, b);
  second.fill(b);
  EXPECT_NE(a, b);
  size_t zeros = 0;
  for (const std::byte byte : a) zeros += byte == std::byte{0} ? 1 : 0;
  EXPECT_LT(zeros, 20u);
}

}  // namespace
}  // namespace ramcore::runtime
