// Replicas of what is recovered find no places: which server is recovered when and by which master, and what is said to
// be missing.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "unit/coordinator/recovery/recovery_fixture.h"

namespace ramcore::coordinator {
namespace {

// Each of several recovery masters has some places for its copies, and none enough: each gives up, and then one of them
// gets all tablets.
TEST_F(Recoveries, WherePlacesAreScarceOneServerIsRecoveredByOneMasterAtATime) {
  FakeCluster& cluster = bench.cluster();
  cluster.masters_with_places = 1;
  cluster.keepLog(first, {second, third, fourth});
  bench.kill(first);
  ASSERT_TRUE(runRenewing([&] { return cluster.mastersAtWork() == 3; }));
  ASSERT_TRUE(runRenewing([&] { return cluster.given_up_count != 0; }));
  ASSERT_TRUE(runRenewing([&] { return cluster.mastersAtWork() == 0; })) << "none begins while others are at work";
  ASSERT_TRUE(runRenewing([&] { return cluster.mastersAtWork() == 1; }));
  // The attempt has all tablets that are left. Some may have found places when others had given theirs back.
  const auto left = std::ranges::count_if(bench.life().map.tabletsOf(table),
                                          [&](const Tablet* tablet) { return tablet->owner == first; });
  EXPECT_EQ(cluster.orders.back().tablets.size(), static_cast<size_t>(left));
  ASSERT_TRUE(runRenewing([&] { return bench.life().recoveries.reports().empty(); }));
  bench.passRenewing(kSecond);
  expectBack(bench, table, first);
  EXPECT_LE(cluster.given_up_count, kTablets) << "each once";
}

// The dead server with the shorter log comes first, and the other one only when that is back and its places are free.
// When none waits any more, several are recovered at a time again.
TEST_F(Recoveries, WherePlacesAreScarceTheShortestLogIsFirst) {
  FakeCluster& cluster = bench.cluster();
  const TableId other = bench.create("other", 4).id;
  cluster.masters_with_places = 0;
  cluster.keepLog(first, {third, fourth});
  for (const ServerId backup : {third, fourth}) {
    cluster.machine(backup).replicas[second] = {FakeCluster::closedReplica(1), FakeCluster::openReplica(2, 1, {1, 2})};
  }
  cluster.machine(first).up = false;
  cluster.machine(second).up = false;
  bench.addBackup(5);
  bench.addBackup(6);
  ASSERT_TRUE(
      runRenewing([&] { return !bench.life().membership.isAlive(first) && !bench.life().membership.isAlive(second); }));
  ASSERT_TRUE(runRenewing([&] { return cluster.given_up_count >= 2 && cluster.mastersAtWork() == 0; }));
  cluster.masters_with_places = 1;
  const size_t begun = cluster.orders.size();
  ASSERT_TRUE(runRenewing([&] {
    EXPECT_LE(cluster.mastersAtWork(), 1u);
    return bench.life().recoveries.reports().empty();
  }));
  ASSERT_GE(cluster.orders.size(), begun + 2);
  const auto firstOf = [&](ServerId dead) {
    size_t at = begun;
    while (at < cluster.orders.size() && cluster.orders[at].dead != dead) ++at;
    return at;
  };
  EXPECT_LT(firstOf(second), firstOf(first));
  bench.passRenewing(kSecond);
  expectBack(bench, table, first);
  for (const Tablet* tablet : bench.life().map.tabletsOf(other))
    EXPECT_TRUE(bench.life().membership.isAlive(tablet->owner));

  cluster.masters_with_places = SIZE_MAX;
  const ServerId owner = bench.life().map.tabletsOf(table).front()->owner;
  for (const ServerId backup : {third, fourth}) {
    if (backup != owner) cluster.keepLog(owner, {backup});
  }
  ASSERT_GT(bench.life().map.tabletsOwnedBy(owner).size(), 1u);
  const size_t before = cluster.orders.size();
  bench.kill(owner);
  ASSERT_TRUE(runRenewing([&] { return bench.life().recoveries.reports().empty(); }));
  EXPECT_GT(cluster.orders.size(), before + 1) << "several masters share the work again";
}

// A log that cannot be recovered for another reason does not keep the others waiting.
TEST_F(Recoveries, WherePlacesAreScarceWhoFailsLetsTheOthersTry) {
  FakeCluster& cluster = bench.cluster();
  cluster.masters_with_places = 0;
  const TableId other = bench.create("other", 4).id;
  cluster.keepLog(first, {third, fourth});
  for (const ServerId backup : {third, fourth}) {
    cluster.machine(backup).replicas[second] = {FakeCluster::closedReplica(1), FakeCluster::openReplica(2, 1, {1, 2})};
  }
  bench.addBackup(5);
  bench.addBackup(6);
  cluster.machine(first).up = false;
  cluster.machine(second).up = false;
  ASSERT_TRUE(runRenewing([&] { return cluster.given_up_count >= 2 && cluster.mastersAtWork() == 0; }));
  cluster.masters_with_places = 1;
  cluster.fails_for = second;
  ASSERT_TRUE(runRenewing([&] { return bench.life().membership.find(first)->recovered; }));
  EXPECT_FALSE(bench.life().membership.find(second)->recovered);
  cluster.fails_for = {};
  ASSERT_TRUE(runRenewing([&] { return bench.life().recoveries.reports().empty(); }));
  bench.passRenewing(kSecond);
  expectBack(bench, table, first);
  for (const Tablet* tablet : bench.life().map.tabletsOf(other))
    EXPECT_TRUE(bench.life().membership.isAlive(tablet->owner));
}

// What has to be added is said when a recovery that ran alone has found no places, until it finds them.
TEST_F(Recoveries, WhatIsMissingOfPlacesIsSaid) {
  FakeCluster& cluster = bench.cluster();
  cluster.masters_with_places = 0;
  cluster.machine(second).places_free = FakeCluster::kPlaces;
  cluster.keepLog(first, {second, third, fourth});
  bench.kill(first);
  const auto report = [&] {
    const std::vector<RecoveryReport> reports = bench.life().recoveries.reports();
    return reports.empty() ? RecoveryReport{} : reports[0];
  };
  ASSERT_TRUE(runRenewing([&] { return cluster.given_up_count >= 3; }));
  EXPECT_EQ(report().missing_places.servers, 0u) << "one alone may find enough";
  ASSERT_TRUE(runRenewing([&] { return report().missing_places.servers != 0; }));
  // Each segment has three replicas; the second server has room for one of them. Needed are three segments and one
  // more, two heads for each of five masters, and two more; an eighth is kept.
  EXPECT_EQ(report().missing_places.servers, 2u);
  EXPECT_EQ(report().missing_places.storage_bytes, ((4 + 2 * 5 + 2) * 8 / 7 + 1 + 1) * FakeCluster::kPlaceBytes);
  const auto says = [&](const char* words) { return report().text.find(words) != std::string::npos; };
  constexpr const char* kWords = "start 2 more servers, each with --storage-bytes 160MiB or more";
  EXPECT_TRUE(says(kWords) || !says("find no places")) << "numbers without words: " << report().text;
  EXPECT_TRUE(runRenewing([&] { return says(kWords); })) << report().text;
  for (uint64_t nonce = 5; nonce <= 6; ++nonce) {
    cluster.machine(bench.addBackup(nonce)).places_free = FakeCluster::kPlaces;
  }
  cluster.masters_with_places = 1;
  ASSERT_TRUE(runRenewing([&] { return bench.life().recoveries.reports().empty(); }));
  bench.passRenewing(kSecond);
  expectBack(bench, table, first);
  // A server without room recovered it, because those with room are needed for its replicas.
  const ServerId owner = bench.life().map.tabletsOf(table).front()->owner;
  EXPECT_TRUE(owner == third || owner == fourth) << owner.value;
}

// A recovery master that cannot give up keeps the turn. What has to be added is said all the same, and brought up to
// date.
TEST_F(Recoveries, WhatIsMissingOfPlacesIsSaidWhenNobodyGivesUp) {
  FakeCluster& cluster = bench.cluster();
  cluster.masters_with_places = 0;
  cluster.masters_give_up = false;
  cluster.machine(second).places_free = FakeCluster::kPlaces;
  cluster.keepLog(first, {second, third, fourth});
  bench.kill(first);
  const auto missing = [&] {
    const std::vector<RecoveryReport> reports = bench.life().recoveries.reports();
    return reports.empty() ? MissingPlaces{} : reports[0].missing_places;
  };
  bench.passRenewing(20 * kSecond);
  EXPECT_EQ(missing().servers, 0u) << "it may go on or give up soon";
  bench.passRenewing(20 * kSecond);
  EXPECT_EQ(missing().servers, 2u);
  EXPECT_EQ(cluster.given_up_count, 0u);
  cluster.machine(bench.addBackup(5)).places_free = FakeCluster::kPlaces;
  bench.passRenewing(10 * kSecond);
  EXPECT_EQ(missing().servers, 1u);
  cluster.masters_with_places = SIZE_MAX;
  bench.passRenewing(5 * kSecond);
  expectBack(bench, table, first);
  EXPECT_TRUE(bench.life().recoveries.reports().empty());
}

// First the server with the fewest free places, then the others, and in the end all of them together.
TEST_F(Recoveries, WherePlacesAreScarceMastersAreTriedOneAfterTheOther) {
  FakeCluster& cluster = bench.cluster();
  cluster.masters_with_places = 0;
  cluster.machine(second).places_free = 5;
  cluster.machine(third).places_free = 3;
  cluster.keepLog(first, {second, third, fourth});
  bench.kill(first);
  ASSERT_TRUE(runRenewing([&] { return cluster.given_up_count >= 3 && cluster.mastersAtWork() == 0; }));
  const size_t begun = cluster.orders.size();
  for (int i = 0; i < 10 && cluster.orders.size() < begun + 6; ++i) bench.passRenewing(10 * kSecond);
  ASSERT_GE(cluster.orders.size(), begun + 6);
  std::vector<ServerId> masters;
  for (size_t i = begun; i < cluster.orders.size(); ++i) masters.push_back(cluster.orders[i].tablets.front().owner);
  EXPECT_EQ(masters[0], fourth);
  EXPECT_EQ(masters[1], third);
  EXPECT_EQ(masters[2], second);
  EXPECT_GT(std::set(masters.begin() + 3, masters.end()).size(), 1u);
}

}  // namespace
}  // namespace ramcore::coordinator
