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

TEST(CleanerPolicy, OfASingleSegmentOnlyItsOwnMemoryCounts) {
  const std::vector<SegmentSummary> segments{{0, 1000, 990, 900, 5}, {1, 1000, 600, 0, 5}};
  EXPECT_EQ(chooseToCompact(segments, kBudget), (std::vector<uint32_t>{1}));
  EXPECT_TRUE(chooseToCompact(std::span(segments).first(1), kBudget).empty());
}

constexpr CleaningState kBalanced{.has_room_for_head = true,
                                  .is_short_of_slots = false,
                                  .live_bytes = 50000,
                                  .live_bytes_max = 100000,
                                  .tombstone_bytes = 1000,
                                  .copies = 2,
                                  .storage_percent = 40,
                                  .combining = {.copied_bytes = 3000, .freed_bytes = 1500},
                                  .compacting = {.copied_bytes = 2000, .freed_bytes = 800}};

TEST(CleanerPolicy, TheBalanceOfTheTwoLevels) {
  struct Row {
    const char* when;
    CleaningAction expected;
    void (*change)(CleaningState& state);
  };
  constexpr auto kCombine = CleaningAction::Combine;
  constexpr auto kCompact = CleaningAction::Compact;
  const Row rows[] = {
      {"copying is cheaper than sending copies", kCompact, [](CleaningState&) {}},
      {"there are no copies, so the cheaper copying wins", kCombine, [](CleaningState& s) { s.copies = 0; }},
      {"without copies it may be compaction", kCompact,
       [](CleaningState& s) {
         s.copies = 0;
         s.compacting.freed_bytes = 1100;
       }},
      {"both cost the same", kCombine,
       [](CleaningState& s) {
         s.copies = 0;
         s.compacting = s.combining;
       }},
      {"compaction copies too much for what it frees", kCombine,
       [](CleaningState& s) { s.compacting.freed_bytes = 300; }},
      {"nothing can be compacted", kCombine, [](CleaningState& s) { s.compacting = {}; }},
      {"nothing can be combined", kCompact, [](CleaningState& s) { s.combining = {}; }},
      {"neither gains: a pass finds that out", kCombine, [](CleaningState& s) { s.combining = s.compacting = {}; }},
      {"combining costs no copying at all", kCombine, [](CleaningState& s) { s.combining.copied_bytes = 0; }},
      {"no head finds room: small heads have to come back", kCombine,
       [](CleaningState& s) { s.has_room_for_head = false; }},
      {"slots are short", kCombine, [](CleaningState& s) { s.is_short_of_slots = true; }},
      {"storage for copies is still good", kCompact, [](CleaningState& s) { s.storage_percent = 75; }},
      {"storage for copies runs short", kCombine, [](CleaningState& s) { s.storage_percent = 76; }},
      {"tombstones are still few", kCompact, [](CleaningState& s) { s.tombstone_bytes = 6000; }},
      {"tombstones pile up", kCombine, [](CleaningState& s) { s.tombstone_bytes = 6001; }},
      {"writes are about to be refused for tombstones", kCombine, [](CleaningState& s) { s.live_bytes_max = 51000; }},
      {"writes are about to be refused, and not for tombstones", kCompact,
       [](CleaningState& s) {
         s.live_bytes_max = 51000;
         s.tombstone_bytes = 500;
       }},
  };
  for (const Row& row : rows) {
    CleaningState state = kBalanced;
    row.change(state);
    EXPECT_EQ(decide(state), row.expected) << row.when;
  }
}

}  // namespace
}  // namespace ramcore::log
