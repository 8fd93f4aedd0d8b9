#include "runtime/growing_pause.h"

#include <gtest/gtest.h>

#include <set>

namespace ramcore::runtime {
namespace {

TEST(DoublingPause, DoublesUpToTheLongest) {
  DoublingPause pause(10, 35);
  EXPECT_EQ(pause.nextNs(), 10);
  EXPECT_EQ(pause.nextNs(), 20);
  EXPECT_EQ(pause.nextNs(), 35);
  EXPECT_EQ(pause.nextNs(), 35);
  pause.restart();
  EXPECT_EQ(pause.nextNs(), 10);
}

TEST(DrawnPause, GrowsWithinItsBounds) {
  Random random(1);
  DoublingPause pause(1'000, 64'000);
  int64_t bound_ns = 1'000;
  for (int i = 0; i < 20; ++i) {
    const int64_t drawn_ns = pause.nextNs(random);
    EXPECT_GE(drawn_ns, bound_ns / 2);
    EXPECT_LE(drawn_ns, bound_ns);
    bound_ns = std::min<int64_t>(2 * bound_ns, 64'000);
  }
  pause.restart();
  EXPECT_LE(pause.nextNs(random), 1'000);
}

TEST(DrawnPause, ThoseWhoBeganTogetherComeBackApart) {
  std::set<int64_t> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    DoublingPause pause(1'000'000, 800'000'000);
    int64_t at_ns = 0;
    for (int i = 0; i < 8; ++i) at_ns += pause.nextNs(random);
    seen.insert(at_ns / 1'000'000);
  }
  EXPECT_GT(seen.size(), 50u) << "of 100, hardly two are in the same millisecond";
}

}  // namespace
}  // namespace ramcore::runtime
