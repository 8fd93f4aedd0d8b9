#include "log/cleaner_policy.h"

#include <gtest/gtest.h>

namespace ramcore::log {
namespace {

constexpr CleaningBudget kBudget{.copy_bytes_max = 1000, .gain_bytes_min = 50, .segment_count_max = 10};

TEST(CleanerPolicy, EmptierFirst) {
  const std::vector<SegmentSummary> segments{{0, 1000, 900, 0, 5}, {1, 1000, 100, 0, 5}, {2, 1000, 500, 0, 5}};
  EXPECT_EQ(chooseSegments(segments, kBudget), (std::vector<uint32_t>{1, 2}));
}

TEST(CleanerPolicy, OldSegmentsAreCleanedFullerThanYoungOnes) {
  const std::vector<SegmentSummary> segments{{0, 1000, 600, 0, 100}, {1, 1000, 800, 0, 1000000}};
  EXPECT_EQ(chooseSegments(segments, kBudget).front(), 1u);
}

TEST(CleanerPolicy, TombstonesElsewhereCount) {
  const std::vector<SegmentSummary> segments{{0, 1000, 500, 0, 5}, {1, 1000, 500, 400, 5}};
  EXPECT_EQ(chooseSegments(segments, kBudget).front(), 1u);
}

TEST(CleanerPolicy, StaysWithinTheBudget) {
  std::vector<SegmentSummary> segments;
  for (uint32_t i = 0; i < 20; ++i) segments.push_back({i, 1000, 300, 0, 5});
  EXPECT_EQ(chooseSegments(segments, kBudget).size(), 3u);
  CleaningBudget budget = kBudget;
  budget.segment_count_max = 2;
  EXPECT_EQ(chooseSegments(segments, budget).size(), 2u);
  budget.segment_count_max = 10;
  budget.gain_bytes_enough = 600;
  EXPECT_EQ(chooseSegments(segments, budget).size(), 1u);
}

TEST(CleanerPolicy, NothingIfNothingGains) {
  const std::vector<SegmentSummary> full{{0, 1000, 1000, 0, 5}, {1, 1000, 990, 0, 5}};
  EXPECT_TRUE(chooseSegments(full, kBudget).empty());
  EXPECT_TRUE(chooseSegments({}, kBudget).empty());
}

TEST(CleanerPolicy, EmptiestAreTriedWhenTheOldOnesDoNotGainEnough) {
  const std::vector<SegmentSummary> segments{{0, 1000, 970, 0, ~uint64_t{0} >> 20}, {1, 1000, 500, 0, 0}};
  EXPECT_EQ(chooseSegments(segments, kBudget).front(), 1u);
}

TEST(CleanerPolicy, MergesTheSmallestWhenSlotsAreShort) {
  CleaningBudget budget = kBudget;
  budget.merge_small = true;
  budget.gain_bytes_min = 100000;
  const std::vector<SegmentSummary> segments{{0, 1000, 900, 0, 5}, {1, 100, 90, 0, 5}, {2, 100, 80, 0, 5}};
  EXPECT_EQ(chooseSegments(segments, budget), (std::vector<uint32_t>{2, 1}));
}

}  // namespace
}  // namespace ramcore::log
