/// Which moves begin, and which wait for others.
#include "coordinator/tablets/move_turns.h"

#include "unit/coordinator/tablets/tablet_checks.h"

namespace ramcore::coordinator {
namespace {

constexpr ServerId kA{1};
constexpr ServerId kB{2};
constexpr ServerId kC{3};

TEST(MoveTurns, OfEachServerFewLeaveAndFewArrive) {
  MoveTurns turns;
  for (uint64_t id = 1; id <= 5; ++id) turns.enter(MigrationId(id), kA, kB, false);
  turns.enter(MigrationId(6), kC, kB, false);
  turns.enter(MigrationId(7), kB, kC, false);
  for (uint64_t id = 1; id <= 4; ++id) EXPECT_TRUE(turns.take(MigrationId(id))) << id;
  EXPECT_FALSE(turns.take(MigrationId(5)));
  EXPECT_FALSE(turns.take(MigrationId(6))) << "it would be the fifth to arrive there";
  EXPECT_TRUE(turns.take(MigrationId(7))) << "what leaves a server does not stand in the way of what arrives";
  EXPECT_TRUE(turns.take(MigrationId(1))) << "again";
  EXPECT_EQ(turns.whatFor(MigrationId(5)), "its turn: 4 other tablets go to server 2 before it, 4 at a time");
}

TEST(MoveTurns, TheyBeginInTheOrderInWhichTheyWereAskedFor) {
  MoveTurns turns;
  for (uint64_t id = 1; id <= 4; ++id) turns.enter(MigrationId(id), kA, kB, false);
  for (uint64_t id = 1; id <= 4; ++id) EXPECT_TRUE(turns.take(MigrationId(id)));
  turns.enter(MigrationId(5), kA, kB, false);
  turns.enter(MigrationId(6), kA, kC, false);
  EXPECT_FALSE(turns.take(MigrationId(6))) << "four are leaving";
  turns.leave(MigrationId(2));
  EXPECT_FALSE(turns.take(MigrationId(6))) << "the place is that of the fifth";
  EXPECT_EQ(turns.whatFor(MigrationId(6)), "its turn: 4 other tablets leave server 1 before it, 4 at a time");
  EXPECT_TRUE(turns.take(MigrationId(5)));
  EXPECT_FALSE(turns.take(MigrationId(6)));
  turns.leave(MigrationId(5));
  EXPECT_TRUE(turns.take(MigrationId(6)));
}

TEST(MoveTurns, WhatHadBegunBeforeARestartGoesOn) {
  MoveTurns turns;
  for (uint64_t id = 1; id <= 4; ++id) turns.enter(MigrationId(id), kA, kB, false);
  for (uint64_t id = 5; id <= 8; ++id) turns.enter(MigrationId(id), kA, kB, true);
  for (uint64_t id = 5; id <= 8; ++id) EXPECT_TRUE(turns.take(MigrationId(id)));
  EXPECT_FALSE(turns.take(MigrationId(1)));
  turns.leave(MigrationId(7));
  EXPECT_FALSE(turns.take(MigrationId(2)));
  EXPECT_TRUE(turns.take(MigrationId(1)));
}

/// Six tablets go to one server, which does not get on.
class WaitingMoves : public testing::Test {
 protected:
  void begin() {
    target = bench.addBackup(1);
    bench.addBackup(2);
    bench.addBackup(3);
    table = bench.create("t", 12).id;
    bench.cluster().machine(target).stalls = true;
    for (const Tablet* tablet : bench.life().map.tabletsOf(table)) {
      if (tablet->owner == target || moves.size() == 6) continue;
      const MigrationManager::Begun begun = bench.move(tablet->id, target);
      ASSERT_EQ(begun.status, Status::Ok);
      moves.push_back(begun.id);
    }
    ASSERT_EQ(moves.size(), 6U);
    bench.passRenewing(kSecond);
  }
  const MigrationManager::Progress& at(size_t index) { return *bench.life().migrations.find(moves[index]); }
  bool waits(size_t index) { return at(index).waits_for.starts_with("its turn: "); }
  bool areOver() {
    return std::ranges::all_of(moves,
                               [this](MigrationId id) { return bench.life().migrations.find(id)->migration.isOver(); });
  }

  Bench bench;
  ServerId target;
  TableId table;
  std::vector<MigrationId> moves;
};

TEST_F(WaitingMoves, TheyBeginAsOthersEnd) {
  ASSERT_NO_FATAL_FAILURE(begin());
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(waits(i), i >= 4) << i << ": " << at(i).waits_for;
  bench.restart();
  bench.passRenewing(kSecond);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(waits(i), i >= 4) << i << " after a restart: " << at(i).waits_for;
  bench.cluster().machine(target).stalls = false;
  ASSERT_TRUE(bench.runUntil([this] { return areOver(); }));
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(at(i).migration.step, MigrationStep::Done);
}

TEST_F(WaitingMoves, OneThatWaitsIsGivenUpAtOnce) {
  ASSERT_NO_FATAL_FAILURE(begin());
  EXPECT_EQ(bench.cancel(moves[5]), Status::Ok);
  ASSERT_TRUE(bench.runUntil([this] { return at(5).migration.isOver(); }));
  EXPECT_EQ(at(5).migration.step, MigrationStep::Cancelled);
  EXPECT_TRUE(waits(4));
  bench.cluster().machine(target).stalls = false;
  ASSERT_TRUE(bench.runUntil([this] { return areOver(); }));
}

}  // namespace
}  // namespace ramcore::coordinator
