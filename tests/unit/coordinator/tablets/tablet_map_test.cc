#include "coordinator/tablets/tablet_map.h"

#include <gtest/gtest.h>

#include "coordinator/state/stored_state.h"
#include "coordinator/tablets/table_manager.h"
#include "runtime/random.h"

namespace ramcore::coordinator {
namespace {

constexpr KeyHash kLastHash = ~KeyHash{0};

Tablet tabletOf(TabletId id, TableId table, HashRange range) {
  return {.id = id,
          .table = table,
          .range = range,
          .epoch = TabletEpoch(1),
          .last_epoch = TabletEpoch(1),
          .owner = ServerId(1),
          .logs = {{ServerId(1), SegmentId(3)}}};
}

Table readyTable(uint32_t id, std::string name) {
  return {.id = TableId(id),
          .name = std::move(name),
          .state = TableState::Ready,
          .first_tablet = {},
          .owners = {},
          .epochs = {}};
}

TEST(TabletMap, EvenRangesAreAPartition) {
  for (const uint32_t count : {1U, 2U, 3U, 7U, 100U, 1024U}) {
    std::vector<HashRange> ranges;
    for (uint32_t i = count; i > 0; --i) ranges.push_back(TabletMap::evenRange(i - 1, count));
    EXPECT_TRUE(TabletMap::isPartition(ranges)) << count;
  }
}

TEST(TabletMap, GapsAndOverlapsAreNoPartition) {
  EXPECT_FALSE(TabletMap::isPartition({}));
  EXPECT_FALSE(TabletMap::isPartition({{1, kLastHash}}));
  EXPECT_FALSE(TabletMap::isPartition({{0, kLastHash - 1}}));
  EXPECT_FALSE(TabletMap::isPartition({{0, 5}, {7, kLastHash}}));
  EXPECT_FALSE(TabletMap::isPartition({{0, 6}, {6, kLastHash}}));
  EXPECT_FALSE(TabletMap::isPartition({{0, kLastHash}, {0, kLastHash}}));
  EXPECT_TRUE(TabletMap::isPartition({{7, kLastHash}, {0, 6}}));
}

// Random splits, moves and drops: every hash belongs to exactly one tablet, the one a plain model says.
TEST(TabletMap, RandomChangesKeepThePartition) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    runtime::Random random(seed);
    TabletMap map;
    uint64_t next_tablet = 1;
    for (uint32_t table = 1; table <= 3; ++table) {
      map.putTable(readyTable(table, "t" + std::to_string(table)));
      const auto count = static_cast<uint32_t>(random.between(1, 5));
      std::vector<Tablet> tablets;
      for (uint32_t i = 0; i < count; ++i) {
        tablets.push_back(tabletOf(TabletId(next_tablet++), TableId(table), TabletMap::evenRange(i, count)));
      }
      map.addTablets(TableId(table), tablets);
    }
    for (int step = 0; step < 200; ++step) {
      const TableId table(static_cast<uint32_t>(random.between(1, 3)));
      const KeyHash hash = random.next();
      const Tablet* found = map.findTablet(table, hash);
      ASSERT_NE(found, nullptr);
      ASSERT_TRUE(found->range.contains(hash));
      ASSERT_EQ(found->table, table);
      Tablet tablet = *found;
      if (random.chance(0.5) && hash > tablet.range.first) {
        Tablet lower = tablet;
        Tablet upper = tablet;
        lower.id = TabletId(next_tablet++);
        upper.id = TabletId(next_tablet++);
        lower.range.last = hash - 1;
        upper.range.first = hash;
        lower.epoch = upper.epoch = lower.last_epoch = upper.last_epoch = TabletEpoch(tablet.last_epoch.value + 1);
        map.splitTablet(tablet.id, lower, upper);
        EXPECT_EQ(map.findTablet(tablet.id), nullptr);
        EXPECT_EQ(map.findTablet(table, hash)->id, upper.id);
        EXPECT_EQ(map.findTablet(table, hash - 1)->id, lower.id);
      } else {
        tablet.owner = ServerId(random.between(1, 4));
        tablet.epoch = tablet.last_epoch = TabletEpoch(tablet.last_epoch.value + 1);
        map.updateTablet(tablet);
        EXPECT_EQ(*map.findTablet(table, hash), tablet);
      }
      ASSERT_EQ(map.inconsistency(), std::nullopt);
    }
    size_t owned = 0;
    for (uint64_t server = 1; server <= 4; ++server) owned += map.tabletsOwnedBy(ServerId(server)).size();
    EXPECT_EQ(owned, map.tabletCount());

    Table dropping = *map.findTable(TableId(2));
    dropping.state = TableState::Dropping;
    map.putTable(dropping);
    EXPECT_EQ(map.findTablet(TableId(2), 0), nullptr);
    while (!map.tabletsOf(TableId(2)).empty()) map.removeTablet(map.tabletsOf(TableId(2)).front()->id);
    map.removeTable(TableId(2));
    EXPECT_EQ(map.findTable("t2"), nullptr);
    EXPECT_EQ(map.inconsistency(), std::nullopt);
  }
}

TEST(TabletMap, StoredContradictionsAreFound) {
  TabletMap gap;
  gap.putTable(readyTable(1, "t"));
  gap.loadTablet(tabletOf(TabletId(1), TableId(1), {0, 10}));
  EXPECT_NE(gap.inconsistency(), std::nullopt);
  gap.loadTablet(tabletOf(TabletId(2), TableId(1), {11, kLastHash}));
  EXPECT_EQ(gap.inconsistency(), std::nullopt);
  gap.loadTablet(tabletOf(TabletId(3), TableId(9), {0, kLastHash}));
  EXPECT_NE(gap.inconsistency(), std::nullopt);
}

TEST(StoredState, RecordsComeBack) {
  Tablet tablet = tabletOf(TabletId(77), TableId(5), {10, 20});
  tablet.last_epoch = TabletEpoch(9);
  tablet.state = TabletState::Moving;
  Tablet again;
  ASSERT_TRUE(decode(encode(tablet), again));
  EXPECT_EQ(again, tablet);
  EXPECT_EQ(keyOf(TabletId(77)), "tablet/000000000000004d");
  EXPECT_EQ(keyOf(TableId(255)), "table/000000ff");

  Table table = readyTable(4, "name");
  table.state = TableState::Creating;
  table.first_tablet = TabletId(6);
  table.owners = {ServerId(1), ServerId(2)};
  table.epochs = {TabletEpoch(1), TabletEpoch(3)};
  Table table_again;
  ASSERT_TRUE(decode(encode(table), table_again));
  EXPECT_EQ(table_again.name, "name");
  EXPECT_EQ(table_again.owners, table.owners);
  EXPECT_EQ(table_again.epochs, table.epochs);
  EXPECT_EQ(table_again.first_tablet, table.first_tablet);
}

TEST(StoredState, NonsenseIsRefused) {
  Tablet tablet = tabletOf(TabletId(77), TableId(5), {10, 20});
  Tablet out;
  EXPECT_FALSE(decode("\xff\xff\xff", out));
  EXPECT_FALSE(decode("", out));
  tablet.range = {20, 10};
  EXPECT_FALSE(decode(encode(tablet), out));
  tablet.range = {10, 20};
  tablet.epoch = TabletEpoch(5);
  EXPECT_FALSE(decode(encode(tablet), out));
}

TEST(TableName, IsPrintableUtf8OfBoundedLength) {
  EXPECT_TRUE(TableManager::isTableName("a"));
  EXPECT_TRUE(TableManager::isTableName("a table, with: signs"));
  EXPECT_TRUE(
      TableManager::isTableName("Stra\xc3\x9f"
                                "e \xe2\x82\xac \xf0\x9f\x90\x8f"));
  EXPECT_TRUE(TableManager::isTableName(std::string(255, 'x')));
  EXPECT_FALSE(TableManager::isTableName(""));
  EXPECT_FALSE(TableManager::isTableName(std::string(256, 'x')));
  EXPECT_FALSE(TableManager::isTableName("a\nb"));
  EXPECT_FALSE(TableManager::isTableName(std::string_view("a\0b", 3)));
  EXPECT_FALSE(TableManager::isTableName("\x7f"));
  EXPECT_FALSE(TableManager::isTableName("\xc2\x80"));          // a control character
  EXPECT_FALSE(TableManager::isTableName("\xc0\xaf"));          // overlong
  EXPECT_FALSE(TableManager::isTableName("\xe0\x80\xaf"));      // overlong
  EXPECT_FALSE(TableManager::isTableName("\xed\xa0\x80"));      // a surrogate
  EXPECT_FALSE(TableManager::isTableName("\xf4\x90\x80\x80"));  // beyond Unicode
  EXPECT_FALSE(TableManager::isTableName("abc\xe2\x82"));       // cut off
}

}  // namespace
}  // namespace ramcore::coordinator
