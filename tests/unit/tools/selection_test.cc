// Tests which part of a table is moved.
#include "tools/rcmigrate/selection.h"

#include <gtest/gtest.h>

namespace ramcore::rcmigrate {
namespace {

constexpr ServerId kA{1};
constexpr ServerId kB{2};
constexpr ServerId kC{3};
constexpr KeyHash kQuarter = KeyHash{1} << 62;
constexpr KeyHash kLast = ~KeyHash{0};

/// Four tablets, each a quarter: at A, A, B, C.
client::TableMap table() {
  client::TableMap map{.table = TableId(7), .name = "t", .tablets = {}, .owners = {}};
  const ServerId owners[] = {kA, kA, kB, kC};
  for (uint64_t i = 0; i < 4; ++i) {
    map.tablets.push_back({.id = TabletId(10 + i),
                           .table = map.table,
                           .range = {i * kQuarter, i * kQuarter + (kQuarter - 1)},
                           .epoch = TabletEpoch(1),
                           .owner = owners[i]});
  }
  return map;
}

TEST(Selection, TheWholeTableIsWhatIsElsewhere) {
  const std::vector<PlanStep> steps = stepsFor(table(), {}, kC);
  ASSERT_EQ(steps.size(), 3U);
  for (const PlanStep& step : steps) {
    EXPECT_EQ(step.kind, PlanStep::Kind::Move);
    EXPECT_EQ(step.to, kC);
  }
  EXPECT_EQ(steps[2].from, kB);
  EXPECT_EQ(steps[2].range, table().tablets[2].range);
  EXPECT_EQ(stepsFor(table(), {.range = {}, .from = kA}, kC).size(), 2U);
  EXPECT_TRUE(stepsFor(table(), {.range = {}, .from = kC}, kC).empty());
}

TEST(Selection, ARangeCutsWhereItBeginsAndEnds) {
  const HashRange wanted{kQuarter / 2, 2 * kQuarter + 9};
  const std::vector<PlanStep> steps = stepsFor(table(), {.range = wanted}, kC);
  ASSERT_EQ(steps.size(), 5U);
  EXPECT_EQ(steps[0].kind, PlanStep::Kind::Split);
  EXPECT_EQ(steps[0].at, wanted.first);
  EXPECT_EQ(steps[1].range, (HashRange{wanted.first, kQuarter - 1}));
  EXPECT_EQ(steps[2].range, (HashRange{kQuarter, 2 * kQuarter - 1}));
  EXPECT_EQ(steps[3].kind, PlanStep::Kind::Split);
  EXPECT_EQ(steps[3].at, wanted.last + 1);
  EXPECT_EQ(steps[4].range, (HashRange{2 * kQuarter, wanted.last}));
}

TEST(Selection, ARangeInsideOfATabletIsCutTwice) {
  const HashRange wanted{100, 200};
  const std::vector<PlanStep> steps = stepsFor(table(), {.range = wanted}, kC);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].at, 100U);
  EXPECT_EQ(steps[1].at, 201U);
  EXPECT_EQ(steps[1].range, (HashRange{100, kQuarter - 1})) << "the upper half of the first cut";
  EXPECT_EQ(steps[2].range, wanted);
}

TEST(Selection, AFractionTakesWholeTabletsAndAPartOfTheNext) {
  // A quarter is there already. What is lacking are one tablet and a half.
  const std::vector<PlanStep> steps = stepsFor(table(), {.range = {}, .from = {}, .fraction = 0.625}, kC);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].range, table().tablets[0].range);
  EXPECT_EQ(steps[1].kind, PlanStep::Kind::Split);
  EXPECT_EQ(steps[1].at, kQuarter + kQuarter / 2);
  EXPECT_EQ(steps[2].range, (HashRange{kQuarter, kQuarter + kQuarter / 2 - 1}));
  const std::vector<PlanStep> of_a = stepsFor(table(), {.range = {}, .from = kA, .fraction = 0.5}, kC);
  ASSERT_EQ(of_a.size(), 1U);
  EXPECT_EQ(of_a[0].range, table().tablets[0].range);
  EXPECT_TRUE(stepsFor(table(), {.range = {}, .from = {}, .fraction = 1e-30}, kC).empty());
}

TEST(Selection, AFractionThatIsThereIsNotMovedAgain) {
  EXPECT_TRUE(stepsFor(table(), {.range = {}, .from = {}, .fraction = 0.25}, kC).empty());
  EXPECT_TRUE(stepsFor(table(), {.range = {}, .from = {}, .fraction = 0.2}, kC).empty());
  EXPECT_EQ(stepsFor(table(), {.range = {}, .from = {}, .fraction = 0.5}, kC).size(), 1U);
}

// Widths are added up as numbers of 53 bits.
TEST(Selection, AFractionThatEndsWithATabletCutsNone) {
  for (const uint64_t count : {3, 7, 10, 12, 20, 1000}) {
    client::TableMap even{.table = TableId(7), .name = "t", .tablets = {}, .owners = {}};
    const KeyHash width = kLast / count;
    for (uint64_t i = 0; i < count; ++i) {
      even.tablets.push_back({.id = TabletId(1 + i),
                              .table = even.table,
                              .range = {i * width, i + 1 == count ? kLast : (i + 1) * width - 1},
                              .epoch = TabletEpoch(1),
                              .owner = kA});
    }
    for (uint64_t part = 1; part < count; ++part) {
      const double fraction = static_cast<double>(part) / static_cast<double>(count);
      for (const ServerId from : {ServerId(), kA}) {
        const std::vector<PlanStep> steps = stepsFor(even, {.range = {}, .from = from, .fraction = fraction}, kC);
        ASSERT_EQ(steps.size(), part) << part << " of " << count;
      }
    }
  }
}

TEST(Selection, HashesAreRead) {
  EXPECT_EQ(parseHash("0x8000000000000000"), KeyHash{1} << 63);
  EXPECT_EQ(parseHash("010"), 10U);
  for (const char* text : {"", "0x", "+5", " 5", "5 ", "-1", "0x-1", "0x10000000000000000"}) {
    EXPECT_FALSE(parseHash(text)) << text;
  }
}

TEST(Selection, RangesAreRead) {
  EXPECT_EQ(*parseRange("0x10-0x20"), (HashRange{16, 32}));
  EXPECT_EQ(*parseRange("0-0xffffffffffffffff"), (HashRange{0, kLast}));
  for (const char* text : {"", "-", "5", "5-", "-5", "0x20-0x10", "a-b", "1-2-3", "0-0x10000000000000000"}) {
    const Outcome<HashRange> range = parseRange(text);
    ASSERT_FALSE(range) << text;
    EXPECT_NE(range.error().message.find("is no range of key hashes; write it as 0x0"), std::string::npos);
  }
}

}  // namespace
}  // namespace ramcore::rcmigrate
