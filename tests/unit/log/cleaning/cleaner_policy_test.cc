#include "log/cleaning/cleaner_policy.h"

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

TEST(CleanerPolicy, EmptiestComeFirstIfAsked) {
  const std::vector<SegmentSummary> segments{{0, 1000, 800, 0, 1000000}, {1, 1000, 600, 0, 100}};
  CleaningBudget budget = kBudget;
  EXPECT_EQ(chooseSegments(segments, budget).front(), 0u);
  budget.emptiest_first = true;
  EXPECT_EQ(chooseSegments(segments, budget).front(), 1u);
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
                                  .is_short_of_places = false,
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
      {"no head finds a place for its copies", kCombine, [](CleaningState& s) { s.is_short_of_places = true; }},
      {"storage for copies is still good", kCompact, [](CleaningState& s) { s.storage_percent = 75; }},
      {"storage for copies runs short", kCombine, [](CleaningState& s) { s.storage_percent = 76; }},
      {"tombstones are still few", kCompact, [](CleaningState& s) { s.tombstone_bytes = 6000; }},
      {"tombstones pile up", kCombine, [](CleaningState& s) { s.tombstone_bytes = 6001; }},
      {"as many as there may be in so full a memory", kCompact, [](CleaningState& s) { s.live_bytes = 93000; }},
      {"as many weigh more in a memory that is fuller", kCombine, [](CleaningState& s) { s.live_bytes = 94000; }},
      {"writes are about to be refused for tombstones", kCombine, [](CleaningState& s) { s.live_bytes_max = 51000; }},
      {"writes are about to be refused, and not for tombstones", kCompact,
       [](CleaningState& s) {
         s.live_bytes_max = 51000;
         s.tombstone_bytes = 100;
       }},
  };
  for (const Row& row : rows) {
    CleaningState state = kBalanced;
    row.change(state);
    EXPECT_EQ(decide(state), row.expected) << row.when;
  }
}

TEST(CleanerPolicy, ThePaceOfCopyingBesideWriters) {
  constexpr CopyingPace kPace{.appended_bytes = 3000,
                              .left_bytes = 24'000'000,
                              .free_bytes = 12'000'000,
                              .kept_bytes = 8'000'000,
                              .slice_bytes_min = 4000,
                              .slice_bytes_max = 100'000};
  struct Row {
    const char* when;
    uint32_t expected;
    void (*change)(CopyingPace& pace);
  };
  const Row rows[] = {
      {"six times what was appended, for six times as much is left", 18'000, [](CopyingPace&) {}},
      {"half of it is left, and half is used up", 18'000,
       [](CopyingPace& p) {
         p.left_bytes /= 2;
         p.free_bytes = 10'000'000;
       }},
      {"nobody writes", 4000, [](CopyingPace& p) { p.appended_bytes = 0; }},
      {"much is free", 4000, [](CopyingPace& p) { p.free_bytes = 100'000'000; }},
      {"more is due than a slice takes", 100'000, [](CopyingPace& p) { p.appended_bytes = 20'000; }},
      {"nothing is left but what is kept", 100'000, [](CopyingPace& p) { p.free_bytes = p.kept_bytes; }},
      {"nor that, and nobody can write", 100'000,
       [](CopyingPace& p) {
         p.free_bytes = 0;
         p.appended_bytes = 0;
       }},
      {"numbers of any size", 100'000,
       [](CopyingPace& p) {
         p.appended_bytes = p.left_bytes = ~uint64_t{0};
         p.free_bytes = p.kept_bytes + 1;
       }},
  };
  for (const Row& row : rows) {
    CopyingPace pace = kPace;
    row.change(pace);
    EXPECT_EQ(copyingDue(pace), row.expected) << row.when;
  }
}

TEST(CleanerPolicy, TheNumberOfCleaners) {
  struct Row {
    const char* when;
    CleaningPressure pressure;
    uint32_t cleaners_max;
    uint32_t expected;
  };
  constexpr uint64_t kBegin = 8000;
  const Row rows[] = {
      {"cleaning has just begun", {.free_bytes = 7999, .begin_below_bytes = kBegin}, 4, 1},
      {"much is free: for tombstones", {.free_bytes = 90000, .begin_below_bytes = kBegin}, 4, 1},
      {"one keeps up still", {.free_bytes = 4000, .begin_below_bytes = kBegin}, 4, 1},
      {"half is used up: one more at once", {.free_bytes = 3999, .begin_below_bytes = kBegin}, 4, 2},
      {"a third of the rest", {.free_bytes = 2667, .begin_below_bytes = kBegin}, 4, 2},
      {"more than a third of it", {.free_bytes = 2666, .begin_below_bytes = kBegin}, 4, 3},
      {"nearly all of it", {.free_bytes = 1, .begin_below_bytes = kBegin}, 4, 4},
      {"all is used up", {.free_bytes = 0, .begin_below_bytes = kBegin}, 4, 4},
      {"no head finds room, in whatever is free",
       {.has_room_for_head = false, .free_bytes = 7000, .begin_below_bytes = kBegin},
       4,
       4},
      {"storage is still good", {.free_bytes = 7000, .begin_below_bytes = kBegin, .storage_percent = 75}, 4, 1},
      {"storage begins to be short", {.free_bytes = 7000, .begin_below_bytes = kBegin, .storage_percent = 76}, 4, 2},
      {"half of what is left of it", {.free_bytes = 7000, .begin_below_bytes = kBegin, .storage_percent = 85}, 5, 3},
      {"nearly no storage", {.free_bytes = 7000, .begin_below_bytes = kBegin, .storage_percent = 95}, 4, 4},
      {"none at all", {.free_bytes = 7000, .begin_below_bytes = kBegin, .storage_percent = 100}, 4, 4},
      {"memory is shorter than storage", {.free_bytes = 0, .begin_below_bytes = kBegin, .storage_percent = 80}, 4, 4},
      {"storage is shorter than memory",
       {.free_bytes = 3999, .begin_below_bytes = kBegin, .storage_percent = 99},
       4,
       4},
      {"one more is all", {.free_bytes = 3999, .begin_below_bytes = kBegin}, 2, 2},
      {"there is only one", {.has_room_for_head = false, .begin_below_bytes = kBegin, .storage_percent = 100}, 1, 1},
      {"a log too small to have a threshold", {.free_bytes = 0, .begin_below_bytes = 0}, 4, 1},
  };
  for (const Row& row : rows) EXPECT_EQ(cleanersWanted(row.pressure, row.cleaners_max), row.expected) << row.when;
}

TEST(CleanerPolicy, CleanersNeverFallAsMemoryGetsShorter) {
  for (const uint32_t cleaners_max : {1u, 2u, 3u, 7u, 16u}) {
    uint32_t before = 1;
    for (uint64_t free = 5000; free-- > 0;) {
      const uint32_t wanted = cleanersWanted({.free_bytes = free, .begin_below_bytes = 9000}, cleaners_max);
      ASSERT_GE(wanted, before) << free;
      ASSERT_LE(wanted, std::min(before + 1, cleaners_max)) << free;
      before = wanted;
    }
    EXPECT_EQ(before, cleaners_max);
  }
}

TEST(CleanerPolicy, AWorkerIsLeftForRequests) {
  struct Row {
    uint32_t configured;
    uint32_t workers;
    uint32_t expected;
  };
  const Row rows[] = {{0, 0, 1}, {0, 1, 1}, {0, 2, 1}, {0, 3, 1}, {0, 4, 2}, {0, 32, 16},
                      {1, 8, 1}, {3, 8, 3}, {8, 8, 7}, {9, 2, 1}, {2, 1, 1}, {32, 32, 31}};
  for (const Row& row : rows) {
    EXPECT_EQ(cleanersMax(row.configured, row.workers), row.expected) << row.configured << " of " << row.workers;
  }
}

}  // namespace
}  // namespace ramcore::log
