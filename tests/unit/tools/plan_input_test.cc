// Tests what a plan is told of a cluster.
#include "tools/rcmigrate/plan_input.h"

#include <gtest/gtest.h>

#include <utility>

namespace ramcore::rcmigrate {
namespace {

using client::MigrationRecord;
using client::MigrationStatus;
using client::TabletLoad;

constexpr ServerId kOne{1};
constexpr ServerId kTwo{2};
constexpr ServerId kSilent{3};
constexpr ServerId kDead{4};
constexpr KeyHash kHalf = KeyHash{1} << 63;
constexpr int64_t kSecond = 1'000'000'000;

client::ServerStatus server(ServerId id) {
  client::ServerStatus status;
  status.id = id;
  status.is_alive = id != kDead;
  status.has_answered = id == kOne || id == kTwo;
  status.live_bytes = 100 * id.value;
  status.live_bytes_max = 1000;
  return status;
}

client::TabletInfo tablet(uint64_t id, ServerId owner) {
  const KeyHash first = id == 10 ? 0 : kHalf;
  return {.id = TabletId(id),
          .table = TableId(7),
          .range = {first, first + (kHalf - 1)},
          .epoch = TabletEpoch(1),
          .owner = owner};
}

/// A table with tablet 10 at A and 11 at `second`.
client::ClusterStatus cluster(ServerId second = kTwo) {
  client::ClusterStatus status;
  for (const ServerId id : {kOne, kTwo, kSilent, kDead}) status.servers.push_back(server(id));
  client::TableMap table{.table = TableId(7), .name = "t", .tablets = {}, .owners = {}};
  table.tablets = {tablet(10, kOne), tablet(11, second)};
  status.tables.push_back(table);
  return status;
}

TabletLoad load(ServerId server, uint64_t tablet, uint64_t calls) {
  return {.server = server,
          .tablet = TabletId(tablet),
          .objects = 5,
          .bytes = 500,
          .calls = calls,
          .called = {1, 2, 3},
          .hot_key = {}};
}

/// What both servers say.
client::ClusterLoads loadsOf(std::vector<TabletLoad> tablets) {
  client::ClusterLoads loads{.tablets = std::move(tablets), .calls = {}};
  for (const ServerId id : {kOne, kTwo}) loads.calls.push_back({.server = id, .counts = {}});
  return loads;
}

TEST(PlanInput, HasTheServersThatAnswerAndTheirTablets) {
  const PlanInput input =
      makeInput(cluster(), {load(kOne, 10, 100)}, loadsOf({load(kOne, 10, 700), load(kTwo, 11, 9)}), 2, {});
  ASSERT_EQ(input.servers.size(), 2U);
  EXPECT_EQ(input.servers[1].id, kTwo);
  EXPECT_EQ(input.servers[1].bytes, 200U);
  EXPECT_EQ(input.servers[1].bytes_max, 1000U);
  EXPECT_EQ(input.silent, std::vector{kSilent}) << "and the dead one is none";
  ASSERT_EQ(input.tablets.size(), 2U);
  EXPECT_EQ(input.tablets[0].bytes, 500U);
  EXPECT_EQ(input.tablets[0].objects, 5U);
  EXPECT_EQ(input.tablets[0].sample, (std::vector<KeyHash>{1, 2, 3}));
  EXPECT_DOUBLE_EQ(input.tablets[0].load, 300) << "calls per second";
  EXPECT_DOUBLE_EQ(input.tablets[1].load, 0) << "it was not there before";
  EXPECT_TRUE(input.tablets[0].may_move);
  EXPECT_FALSE(input.tablets[1].may_move) << "nobody knows its load";
  EXPECT_DOUBLE_EQ(input.seconds, 2);
}

TEST(PlanInput, AServerThatSaysNothingOfItsTabletsIsSilent) {
  client::ClusterLoads loads = loadsOf({load(kOne, 10, 1)});
  loads.calls.pop_back();
  const PlanInput input = makeInput(cluster(), {}, loads, 0, {});
  EXPECT_EQ(input.servers.size(), 1U) << "it is not taken for an empty one";
  EXPECT_EQ(input.silent, (std::vector{kTwo, kSilent}));
}

TEST(PlanInput, TellsWhatItDoesNotCount) {
  client::ClusterStatus away = cluster(kDead);
  away.tables[0].tablets[1].is_available = false;
  MigrationRecord running;
  running.tablet = TabletId(10);
  running.state = MigrationStatus::State::Running;
  const PlanInput input = makeInput(away, {}, loadsOf({load(kOne, 10, 1)}), 0, {running});
  EXPECT_EQ(input.moves_under_way, 1U);
  EXPECT_EQ(input.tablets_away, 1U);
}

TEST(PlanInput, WhoHasBeenEmptiedMayGetItBack) {
  MigrationRecord move;
  move.tablet = TabletId(11);
  move.source = kOne;
  move.destination = kTwo;
  move.state = MigrationStatus::State::Done;
  move.over_for_ns = 20 * kSecond;
  client::ClusterStatus all_at_two = cluster();
  all_at_two.tables[0].tablets[0].owner = kTwo;
  const PlanInput input = makeInput(all_at_two, {}, loadsOf({load(kTwo, 10, 1), load(kTwo, 11, 1)}), 0, {move});
  ASSERT_EQ(input.tablets.size(), 2U);
  EXPECT_EQ(input.tablets[1].came_from, ServerId());
}

TEST(PlanInput, LeavesOutATabletOfWhichItsServerSaysNothing) {
  EXPECT_EQ(makeInput(cluster(), {}, loadsOf({load(kOne, 10, 1)}), 0, {}).tablets.size(), 1U);
  EXPECT_EQ(makeInput(cluster(), {}, loadsOf({load(kOne, 10, 1), load(kOne, 11, 1)}), 0, {}).tablets.size(), 1U)
      << "another server's word does not count";
  EXPECT_EQ(makeInput(cluster(kSilent), {}, loadsOf({load(kOne, 10, 1), load(kSilent, 11, 1)}), 0, {}).tablets.size(),
            1U)
      << "a server of which it is not known how full it is";
}

TEST(PlanInput, ATabletThatMovesOrIsUnavailableStays) {
  client::ClusterStatus busy = cluster();
  busy.tables[0].tablets[0].is_moving = true;
  busy.tables[0].tablets[1].is_available = false;
  const PlanInput input = makeInput(busy, {}, loadsOf({load(kOne, 10, 1), load(kTwo, 11, 1)}), 0, {});
  EXPECT_FALSE(input.tablets[0].may_move);
  EXPECT_FALSE(input.tablets[1].may_move);
}

TEST(PlanInput, CountersThatBeganAgainAreNoLoad) {
  const PlanInput input = makeInput(cluster(), {load(kOne, 10, 100)}, loadsOf({load(kOne, 10, 50)}), 1, {});
  EXPECT_DOUBLE_EQ(input.tablets[0].load, 0);
  EXPECT_FALSE(input.tablets[0].may_move);
}

TEST(PlanInput, AHotKeyIsNamed) {
  TabletLoad hot = load(kTwo, 11, 1);
  hot.hot_key = "celebrity";
  EXPECT_EQ(makeInput(cluster(), {}, loadsOf({hot}), 0, {}).hot_keys.at(TabletId(11)), "celebrity");
}

TEST(PlanInput, KnowsFromWhereATabletHasComeLately) {
  MigrationRecord move;
  move.tablet = TabletId(11);
  move.source = kOne;
  move.destination = kTwo;
  move.state = MigrationStatus::State::Done;
  move.over_for_ns = 20 * kSecond;
  const client::ClusterLoads loads = loadsOf({load(kOne, 10, 1), load(kTwo, 11, 1)});
  const auto cameFrom = [&] { return makeInput(cluster(), {}, loads, 0, {move}).tablets.at(1).came_from; };
  EXPECT_EQ(cameFrom(), kOne);
  move.over_for_ns = 1'000 * kSecond;
  EXPECT_EQ(cameFrom(), ServerId()) << "long ago";
  move.over_for_ns = -1;
  EXPECT_EQ(cameFrom(), ServerId()) << "nobody knows when";
  move.over_for_ns = 20 * kSecond;
  move.state = MigrationStatus::State::Cancelled;
  EXPECT_EQ(cameFrom(), ServerId()) << "it has not moved";
  move.state = MigrationStatus::State::Done;
  move.destination = kSilent;
  EXPECT_EQ(cameFrom(), ServerId()) << "it has moved on since";
}

}  // namespace
}  // namespace ramcore::rcmigrate
