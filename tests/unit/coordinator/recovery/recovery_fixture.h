#pragma once

#include <functional>

#include <gtest/gtest.h>

#include "coordinator/recovery/recovery_manager.h"
#include "unit/coordinator/tablets/tablet_checks.h"

namespace ramcore::coordinator {

/// Four servers that keep replicas, and a table whose tablets are all on the first one; it has been written to.
class Recoveries : public ::testing::Test {
 protected:
  static constexpr uint32_t kTablets = 6;
  static constexpr uint64_t kWritten = 5;

  void SetUp() override { build(bench); }

  static TableId build(Bench& bench, Durability durability = Durability::Buffered) {
    const ServerId first = bench.addBackup(1);
    const TableId table = bench.create("t", kTablets, 0, durability).id;
    for (uint64_t nonce = 2; nonce <= 4; ++nonce) bench.addBackup(nonce);
    EXPECT_EQ(bench.life().map.tabletsOwnedBy(first).size(), kTablets);
    for (const Tablet* tablet : bench.life().map.tabletsOf(table)) {
      for (uint64_t i = 0; i < kWritten; ++i) EXPECT_TRUE(bench.cluster().mutate(*tablet));
    }
    bench.renewAll();
    return table;
  }

  static void expectBack(Bench& bench, TableId table, ServerId dead, uint64_t written = kWritten) {
    EXPECT_TRUE(isQuiet(bench, table));
    expectWhole(bench, table);
    for (const Tablet* tablet : bench.life().map.tabletsOf(table)) {
      EXPECT_NE(tablet->owner, dead);
      EXPECT_TRUE(bench.life().membership.isAlive(tablet->owner));
      EXPECT_EQ(bench.cluster().read(*tablet), written);
      EXPECT_EQ(tablet->recovery_master, ServerId());
    }
    const Server* server = bench.life().membership.find(dead);
    EXPECT_TRUE(server != nullptr && server->recovered);
    EXPECT_TRUE(bench.life().recoveries.reports().empty());
  }
  void expectNothingIsBack() {
    for (const Tablet* tablet : bench.life().map.tabletsOf(table)) {
      EXPECT_EQ(tablet->owner, first);
      EXPECT_EQ(tablet->state, TabletState::Normal);
    }
    EXPECT_FALSE(bench.life().membership.find(first)->recovered);
  }
  bool untilStates(TabletState state, size_t count) {
    return runRenewing([&] { return bench.life().map.tabletsIn(state).size() >= count; });
  }
  bool runRenewing(const std::function<bool()>& done) {
    for (int i = 0; i < 20'000 && !done(); ++i) {
      bench.renewAll();
      bench.pass(kMilli);
    }
    return done();
  }

  /// As Bench::kill(), but stops at the very verdict.
  void killNow(ServerId server) {
    bench.cluster().machine(server).up = false;
    ASSERT_TRUE(runRenewing([&] { return !bench.life().membership.isAlive(server); }));
  }

  Bench bench;
  const TableId table{1};
  const ServerId first{1};
  const ServerId second{2};
  const ServerId third{3};
  const ServerId fourth{4};
};

}  // namespace ramcore::coordinator
