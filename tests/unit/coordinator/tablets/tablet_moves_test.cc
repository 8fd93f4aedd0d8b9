#include <map>
#include <optional>

#include "unit/coordinator/tablets/tablet_checks.h"

namespace ramcore::coordinator {
namespace {

constexpr KeyHash kHalf = KeyHash{1} << 63;

TEST(Tables, CreateSpreadsAndDropCleans) {
  Bench bench;
  for (uint64_t i = 1; i <= 4; ++i) bench.addServer(i);
  const TableManager::Created created = bench.create("t", 0);
  ASSERT_EQ(created.status, Status::Ok);
  EXPECT_EQ(bench.life().map.tabletsOf(created.id).size(), 4u);
  for (uint64_t i = 1; i <= 4; ++i) EXPECT_EQ(bench.life().map.tabletsOwnedBy(ServerId(i)).size(), 1u);
  for (const Tablet* tablet : bench.life().map.tabletsOf(created.id)) {
    EXPECT_TRUE(bench.cluster().mutate(*tablet));
    EXPECT_EQ(tablet->logs, (std::vector<LogRef>{{tablet->owner, SegmentId(1)}}));
  }
  const TableManager::Created again = bench.create("t", 7);
  EXPECT_EQ(again.status, Status::TableExists);
  EXPECT_EQ(again.id, created.id);
  EXPECT_EQ(bench.drop(created.id), Status::Ok);
  EXPECT_EQ(bench.drop(created.id), Status::NoSuchTable);
  for (auto& [id, machine] : bench.cluster().machines()) EXPECT_TRUE(machine.tablets.empty());
  const TableManager::Created next = bench.create("t", 1);
  EXPECT_EQ(next.status, Status::Ok);
  EXPECT_GT(next.id, created.id);
}

// Every server that gets one of the table's tablets, in whatever way, is told what its answers have to wait for.
TEST(Tables, ItsDurabilityGoesWhereItsTabletsGo) {
  Bench bench;
  for (uint64_t i = 1; i <= 2; ++i) bench.addBackup(i);
  const TableId sync = bench.create("sync", 1, 7, Durability::Sync).id;
  const TableId buffered = bench.create("buffered", 1).id;
  EXPECT_EQ(bench.create("sync", 1, 7, Durability::Buffered).status, Status::Ok) << "a repetition, whatever it says";
  EXPECT_EQ(bench.create("sync", 1, 0, Durability::Sync).status, Status::TableExists);
  const auto expectTold = [&] {
    size_t tablets = 0;
    for (const auto& [id, machine] : bench.cluster().machines()) {
      for (const auto& [tablet, held] : machine.tablets) {
        const bool is_sync = held.tablet.table == sync;
        EXPECT_EQ(held.tablet.durability, is_sync ? Durability::Sync : Durability::Buffered);
        tablets += machine.up ? 1 : 0;
      }
    }
    EXPECT_EQ(tablets, bench.life().map.tabletCount());
    EXPECT_EQ(bench.life().map.findTable(sync)->durability, Durability::Sync);
    EXPECT_EQ(bench.life().map.findTable(buffered)->durability, Durability::Buffered);
  };
  expectTold();
  ASSERT_EQ(bench.split(sync, kHalf).status, Status::Ok);
  ASSERT_EQ(bench.life().map.tabletsOf(sync).size(), 2u);
  expectTold();
  bench.restart();
  const Tablet lower = tabletAt(bench, sync, 0);
  const ServerId first = lower.owner;
  const ServerId other = first == ServerId(1) ? ServerId(2) : ServerId(1);
  ASSERT_EQ(bench.move(lower.id, other).status, Status::Ok);
  ASSERT_TRUE(bench.runUntil([&] { return isQuiet(bench, sync) && tabletAt(bench, sync, 0).owner == other; }));
  expectTold();
  bench.cluster().keepLog(other, {first});
  bench.kill(other);
  for (int i = 0; i < 100 && tabletAt(bench, sync, 0).owner == other; ++i) bench.passRenewing(500 * kMilli);
  ASSERT_TRUE(bench.runUntil([&] { return isQuiet(bench, sync) && isQuiet(bench, buffered); }));
  EXPECT_EQ(tabletAt(bench, sync, 0).owner, first);
  expectTold();
}

TEST(Tables, ManyTabletsTakeSeveralBatches) {
  Bench bench;
  for (uint64_t i = 1; i <= 3; ++i) bench.addServer(i);
  const TableManager::Created created = bench.create("large", 350);
  ASSERT_EQ(created.status, Status::Ok);
  EXPECT_EQ(bench.life().map.tabletsOf(created.id).size(), 350u);
  bench.restart();
  EXPECT_EQ(bench.life().map.tabletsOf(created.id).size(), 350u);
  EXPECT_EQ(bench.drop(created.id), Status::Ok);
  bench.restart();
  EXPECT_EQ(bench.life().map.tabletCount(), 0u);
}

TEST(Tables, BadRequestsAreRefused) {
  Bench bench;
  EXPECT_EQ(bench.create("t", 1).status, Status::RetryLater);  // no server yet
  bench.addServer(1);
  EXPECT_EQ(bench.create("", 1).status, Status::BadRequest);
  EXPECT_EQ(bench.create("t", TableManager::kTabletsPerTableMax + 1).status, Status::BadRequest);
  EXPECT_EQ(bench.drop(TableId(99)), Status::NoSuchTable);
}

TEST(Tables, ARepeatedCreateFindsItsTableAndAnotherOneDoesNot) {
  Bench bench;
  bench.addServer(1);
  const TableManager::Created created = bench.create("t", 2, 7);
  ASSERT_EQ(created.status, Status::Ok);
  bench.restart();
  const TableManager::Created repeated = bench.create("t", 2, 7);
  EXPECT_EQ(repeated.status, Status::Ok);
  EXPECT_EQ(repeated.id, created.id);
  EXPECT_EQ(bench.create("t", 2, 8).status, Status::TableExists);
  EXPECT_EQ(bench.run(Bench::createOn(bench.life(), "u", 2, 0)).status, Status::BadRequest);
}

TEST(Tables, ADropNeverHitsATableOfTheSameNameThatCameLater) {
  Bench bench;
  bench.addServer(1);
  const TableId first = bench.create("t", 2).id;
  ASSERT_EQ(bench.drop(first), Status::Ok);
  const TableId second = bench.create("t", 2).id;
  EXPECT_NE(second, first);
  EXPECT_EQ(bench.drop(first), Status::NoSuchTable);
  EXPECT_NE(bench.life().map.findTable(second), nullptr);
}

TEST(Tables, WhatIsStoredAndNotFinishedInTimeIsUnknown) {
  Bench bench;
  const ServerId server = bench.addServer(1);
  bench.cluster().machine(server).up = false;
  EXPECT_EQ(bench.run(Bench::createOn(bench.life(), "t", 1, 7, 100 * kMilli)).status, Status::OutcomeUnknown);
  // Another caller's creation waits as well, and has certainly not happened.
  EXPECT_EQ(bench.run(Bench::createOn(bench.life(), "t", 1, 8, 100 * kMilli)).status, Status::RetryLater);
  bench.cluster().machine(server).up = true;
  const TableManager::Created created = bench.create("t", 1, 7);
  ASSERT_EQ(created.status, Status::Ok);
  bench.cluster().machine(server).up = false;
  EXPECT_EQ(bench.run(Bench::dropOn(bench.life(), created.id, 100 * kMilli)), Status::OutcomeUnknown);
  bench.cluster().machine(server).up = true;
  EXPECT_EQ(bench.drop(created.id), Status::Ok);
}

TEST(Tables, AServerThatIsNotReadyYetGetsItsShareAllTheSame) {
  Bench bench;
  for (uint64_t i = 1; i <= 3; ++i) bench.addServer(i);
  bench.cluster().machine(ServerId(2)).refusals_left = 10;
  const TableManager::Created created = bench.create("t", 3);
  ASSERT_EQ(created.status, Status::Ok);
  EXPECT_EQ(bench.cluster().machine(ServerId(2)).refusals_left, 0);
  for (uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(bench.cluster().machine(ServerId(i)).tablets.size(), 1u) << i;
}

TEST(Tables, AServerThatNeverGetsReadyGetsNone) {
  Bench bench;
  for (uint64_t i = 1; i <= 3; ++i) bench.addServer(i);
  bench.cluster().machine(ServerId(2)).refusals_left = 1'000'000;
  ASSERT_EQ(bench.create("t", 3).status, Status::Ok);
  EXPECT_TRUE(bench.cluster().machine(ServerId(2)).tablets.empty());
}

TEST(Tables, CreateKeepsToTheLimitOfTabletsInTheCluster) {
  Bench bench;
  bench.addServer(1);
  TableId last;
  for (uint64_t i = 0; i < TabletMap::kTabletsMax / TableManager::kTabletsPerTableMax; ++i) {
    const TableManager::Created created = bench.create("t" + std::to_string(i), TableManager::kTabletsPerTableMax);
    ASSERT_EQ(created.status, Status::Ok);
    last = created.id;
    bench.renewAll();
  }
  EXPECT_EQ(bench.create("one more", 1).status, Status::LimitReached);
  EXPECT_EQ(bench.split(last, kHalf + 1).status, Status::LimitReached);
  ASSERT_EQ(bench.drop(last), Status::Ok);
  EXPECT_EQ(bench.create("one more", 1).status, Status::Ok);
}

TEST(Tables, CreateGoesElsewhereWhenAServerDoesNotAnswer) {
  Bench bench;
  const ServerId silent = bench.addServer(1);
  const ServerId other = bench.addServer(2);
  bench.cluster().machine(silent).up = false;
  const TableManager::Created created = bench.create("t", 2);
  ASSERT_EQ(created.status, Status::Ok);
  EXPECT_EQ(bench.life().map.tabletsOwnedBy(other).size(), 2u);
  expectWhole(bench, created.id);
}

TEST(Tables, CreateSucceedsWhenMostCallsAreLost) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Bench bench({.seed = seed, .faults = {.lose_permille = 600, .duplicate_permille = 300}});
    bench.addServer(1);
    bench.addServer(2);
    bool created = false;
    Bench::createOn(bench.life(), "t", 20, 7).detach();
    for (int i = 0; i < 400 && !created; ++i) {
      bench.passRenewing(500 * kMilli);
      const Table* table = bench.life().map.findTable("t");
      created = table != nullptr && table->state == TableState::Ready;
    }
    ASSERT_TRUE(created);
    expectWhole(bench, bench.life().map.findTable("t")->id);
  }
}

TEST(Moves, MoveKeepsTheContents) {
  Bench bench;
  const ServerId a = bench.addServer(1);
  const ServerId b = bench.addServer(2);
  const TableId table = bench.create("t", 1).id;
  const Tablet before = tabletAt(bench, table, 0);
  const ServerId target = before.owner == a ? b : a;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(bench.cluster().mutate(before));
  const MigrationManager::Begun begun = bench.move(before.id, target);
  ASSERT_EQ(begun.status, Status::Ok);
  EXPECT_EQ(bench.move(before.id, target).id, begun.id);
  ASSERT_TRUE(bench.runUntil([&] { return isQuiet(bench, table); }));
  EXPECT_EQ(bench.life().migrations.find(begun.id)->migration.step, MigrationStep::Done);
  const Tablet after = tabletAt(bench, table, 0);
  EXPECT_EQ(after.owner, target);
  EXPECT_GT(after.epoch, before.epoch);
  EXPECT_EQ(after.logs, (std::vector<LogRef>{{target, SegmentId(9)}}));
  EXPECT_EQ(bench.cluster().read(after), 5u);
  EXPECT_FALSE(bench.cluster().mutate(before));
  EXPECT_EQ(bench.move(before.id, target).id, begun.id);  // a late repetition
  expectWhole(bench, table);
}

TEST(Moves, BadMovesAreRefused) {
  Bench bench;
  const ServerId a = bench.addServer(1);
  const TableId table = bench.create("t", 1).id;
  const TabletId tablet = tabletAt(bench, table, 0).id;
  EXPECT_EQ(bench.move(TabletId(99), a).status, Status::NotFound);
  EXPECT_EQ(bench.move(tablet, ServerId(99)).status, Status::NotFound);
  EXPECT_EQ(bench.move(tablet, a).status, Status::BadRequest);
  EXPECT_EQ(bench.cancel(MigrationId(99)), Status::NotFound);
  const ServerId gone = bench.addServer(2);
  ASSERT_EQ(bench.goodbye(gone), Status::Ok);
  EXPECT_EQ(bench.move(tablet, gone).status, Status::NotFound) << "repeating it would not help";
}

TEST(Moves, FailedPullGivesTheTabletBack) {
  Bench bench;
  const ServerId a = bench.addServer(1);
  const ServerId b = bench.addServer(2);
  const TableId table = bench.create("t", 1).id;
  const Tablet before = tabletAt(bench, table, 0);
  const ServerId target = before.owner == a ? b : a;
  bench.cluster().pull_failure = Status::NoSpace;
  const MigrationManager::Begun begun = bench.move(before.id, target);
  ASSERT_TRUE(bench.runUntil([&] { return isQuiet(bench, table); }));
  const MigrationManager::Progress* progress = bench.life().migrations.find(begun.id);
  EXPECT_EQ(progress->migration.step, MigrationStep::Failed);
  EXPECT_NE(progress->migration.reason.find("has no room"), std::string::npos);
  const Tablet after = tabletAt(bench, table, 0);
  EXPECT_EQ(after.owner, before.owner);
  EXPECT_GT(after.epoch, before.epoch);
  EXPECT_TRUE(bench.cluster().mutate(after));
  EXPECT_TRUE(bench.cluster().machine(target).tablets.empty());
  bench.cluster().pull_failure = Status::Ok;
  const MigrationManager::Begun second = bench.move(before.id, target);
  ASSERT_TRUE(bench.runUntil([&] { return isQuiet(bench, table); }));
  EXPECT_EQ(bench.life().migrations.find(second.id)->migration.step, MigrationStep::Done);
  EXPECT_EQ(bench.cluster().read(tabletAt(bench, table, 0)), 1u);
}

// The destination cannot be reached for a while, but is not declared dead: it has to forget what it fetched.
void giveUpWhileTheDestinationIsSilent(bool restarts) {
  Bench bench;
  const ServerId a = bench.addServer(1);
  const ServerId b = bench.addServer(2);
  const TableId table = bench.create("t", 1).id;
  const Tablet before = tabletAt(bench, table, 0);
  const ServerId target = before.owner == a ? b : a;
  bench.cluster().pull_failure = Status::NoSpace;
  const MigrationManager::Begun begun = bench.move(before.id, target);
  const auto step = [&] { return bench.life().migrations.find(begun.id)->migration.step; };
  ASSERT_TRUE(bench.runUntil([&] { return step() == MigrationStep::GivingUp; }));
  bench.cluster().machine(target).up = false;
  for (int i = 0; i < 20; ++i) {
    bench.renewAll();
    (void)bench.life().membership.renew(target);
    bench.pass(500 * kMilli);
    EXPECT_EQ(step(), MigrationStep::GivingUp);
  }
  EXPECT_TRUE(bench.cluster().mutate(tabletAt(bench, table, 0))) << "the source does not wait for that";
  EXPECT_EQ(bench.cluster().machine(target).tablets.size(), 1u);
  if (restarts) bench.restart();
  bench.cluster().machine(target).up = true;
  bench.passRenewing(2 * kSecond);
  EXPECT_EQ(step(), MigrationStep::Failed);
  EXPECT_TRUE(bench.cluster().machine(target).tablets.empty());
  expectWhole(bench, table);
}

TEST(Moves, AMoveThatIsGivenUpLeavesNothingAtASilentDestination) { giveUpWhileTheDestinationIsSilent(false); }
TEST(Restart, AMoveThatIsGivenUpLeavesNothingAtASilentDestination) { giveUpWhileTheDestinationIsSilent(true); }

TEST(Moves, AMoveThatIsGivenUpEndsWithADeadDestination) {
  Bench bench;
  const ServerId a = bench.addServer(1);
  const ServerId b = bench.addServer(2);
  const TableId table = bench.create("t", 1).id;
  const Tablet before = tabletAt(bench, table, 0);
  const ServerId target = before.owner == a ? b : a;
  bench.cluster().pull_failure = Status::NoSpace;
  const MigrationManager::Begun begun = bench.move(before.id, target);
  ASSERT_TRUE(bench.runUntil(
      [&] { return bench.life().migrations.find(begun.id)->migration.step == MigrationStep::GivingUp; }));
  bench.cluster().machine(target).up = false;
  bench.passRenewing(8 * kSecond);
  EXPECT_FALSE(bench.life().membership.isAlive(target));
  EXPECT_EQ(bench.life().migrations.find(begun.id)->migration.step, MigrationStep::Failed);
  expectWhole(bench, table);
}

TEST(Moves, CancelledMoveGivesTheTabletBack) {
  Bench bench;
  const ServerId a = bench.addServer(1);
  const ServerId b = bench.addServer(2);
  const TableId table = bench.create("t", 1).id;
  const Tablet before = tabletAt(bench, table, 0);
  bench.cluster().machine(before.owner).up = false;  // the source does not answer: the move waits
  const MigrationManager::Begun begun = bench.move(before.id, before.owner == a ? b : a);
  ASSERT_EQ(begun.status, Status::Ok);
  bench.pass(100 * kMilli);
  EXPECT_EQ(bench.cancel(begun.id), Status::Ok);
  bench.cluster().machine(before.owner).up = true;
  ASSERT_TRUE(bench.runUntil([&] { return isQuiet(bench, table); }));
  EXPECT_EQ(bench.life().migrations.find(begun.id)->migration.step, MigrationStep::Cancelled);
  EXPECT_TRUE(bench.cluster().mutate(tabletAt(bench, table, 0)));
  expectWhole(bench, table);
}

TEST(Moves, DestinationAnswersOnlyWhenTheSourceCannot) {
  Bench bench;
  const ServerId a = bench.addBackup(1);
  const ServerId b = bench.addBackup(2);
  const TableId table = bench.create("t", 1).id;
  const Tablet before = tabletAt(bench, table, 0);
  const ServerId third = bench.addBackup(3);
  const ServerId target = before.owner == a ? b : a;
  const MigrationManager::Begun begun = bench.move(before.id, target);
  ASSERT_TRUE(bench.runUntil(
      [&] { return bench.life().migrations.find(begun.id)->migration.step == MigrationStep::Arriving; }));
  // The source stops to answer at the worst moment: it still holds the tablet and, by its lease, may answer reads.
  bench.cluster().machine(before.owner).up = false;
  bench.passRenewing(3 * kSecond);
  EXPECT_TRUE(bench.life().membership.isAlive(before.owner));
  EXPECT_FALSE(bench.cluster().read(tabletAt(bench, table, 0)).has_value());
  // Its contents come from its log.
  bench.cluster().keepLog(before.owner, {target, third});
  bench.passRenewing(6 * kSecond);
  EXPECT_FALSE(bench.life().membership.isAlive(before.owner));
  EXPECT_EQ(bench.life().migrations.find(begun.id)->migration.step, MigrationStep::Done);
  EXPECT_TRUE(bench.cluster().read(tabletAt(bench, table, 0)).has_value());
  EXPECT_EQ(tabletAt(bench, table, 0).owner, target);
}

/// The only tablet of a table that is being moved from one of two servers to the other one.
struct BegunMove {
  BegunMove(Bench& of, ServerId a, ServerId b) : bench(of), table(bench.create("t", 1).id) {
    before = tabletAt(bench, table, 0);
    target = before.owner == a ? b : a;
    id = bench.move(before.id, target).id;
  }
  MigrationStep step() { return bench.life().migrations.find(id)->migration.step; }
  bool reaches(MigrationStep wanted) {
    return bench.runUntil([this, wanted] { return step() == wanted; });
  }

  Bench& bench;
  TableId table;
  Tablet before;
  ServerId target;
  MigrationId id;
};

/// The status of a pull that has failed may be one that a repetition could help against, if it were the call's own.
TEST(Moves, APullThatFailsWhileTheSourceIsFrozenEndsTheMove) {
  for (const Status failure : {Status::DeadlineExceeded, Status::Unreachable, Status::RetryLater, Status::NoSpace}) {
    SCOPED_TRACE(name(failure));
    Bench bench;
    const ServerId a = bench.addServer(1);
    BegunMove move(bench, a, bench.addServer(2));
    ASSERT_TRUE(move.reaches(MigrationStep::Freezing));
    bench.cluster().machine(move.target).pull_failure = failure;
    bench.passRenewing(2 * kSecond);
    EXPECT_EQ(move.step(), MigrationStep::Failed);
    EXPECT_TRUE(bench.cluster().mutate(tabletAt(bench, move.table, 0))) << "the source goes on";
    expectWhole(bench, move.table);
  }
}

TEST(Moves, DropOfTheTableEndsItsMoves) {
  Bench bench;
  const ServerId a = bench.addServer(1);
  const ServerId b = bench.addServer(2);
  const TableId table = bench.create("t", 1).id;
  const Tablet before = tabletAt(bench, table, 0);
  ASSERT_EQ(bench.move(before.id, before.owner == a ? b : a).status, Status::Ok);
  EXPECT_EQ(bench.drop(table), Status::Ok);
  for (auto& [id, machine] : bench.cluster().machines()) EXPECT_TRUE(machine.tablets.empty());
}

TEST(Splits, SplitKeepsOwnerAndContents) {
  Bench bench;
  bench.addServer(1);
  const TableId table = bench.create("t", 1).id;
  const Tablet before = tabletAt(bench, table, 0);
  EXPECT_TRUE(bench.cluster().mutate(before));
  const SplitManager::Halves halves = bench.split(table, kHalf);
  ASSERT_EQ(halves.status, Status::Ok);
  EXPECT_EQ(tabletAt(bench, table, kHalf - 1).id, halves.lower);
  EXPECT_EQ(tabletAt(bench, table, kHalf).id, halves.upper);
  EXPECT_EQ(tabletAt(bench, table, kHalf).logs, before.logs);
  EXPECT_EQ(bench.cluster().read(tabletAt(bench, table, kHalf)), 1u);
  EXPECT_EQ(bench.split(table, kHalf).upper, halves.upper);
  EXPECT_EQ(bench.split(table, 0).status, Status::BadRequest);
  EXPECT_EQ(bench.split(TableId(99), kHalf).status, Status::NoSuchTable);
  expectWhole(bench, table);
  bench.restart();
  EXPECT_EQ(tabletAt(bench, table, kHalf).id, halves.upper);
  expectWhole(bench, table);
}

/// A recovery may end the arrival of a tablet before the move that looks for it has seen that.
TEST(Splits, ATabletIsNotCutBeforeItsMoveIsOver) {
  Bench bench;
  const ServerId a = bench.addBackup(1);
  const ServerId b = bench.addBackup(2);
  const ServerId third = bench.addBackup(3);
  BegunMove move(bench, a, b);
  ASSERT_TRUE(move.reaches(MigrationStep::Arriving));
  bench.cluster().machine(move.before.owner).up = false;
  bench.cluster().keepLog(move.before.owner, {move.target, third});
  // The move looks less and less often.
  bench.passRenewing(1 * kSecond);
  ASSERT_EQ(bench.goodbye(move.before.owner), Status::Ok);
  const auto isNormal = [&] {
    bench.renewAll();
    return tabletAt(bench, move.table, 0).state == TabletState::Normal;
  };
  ASSERT_TRUE(bench.runUntil(isNormal));
  ASSERT_EQ(move.step(), MigrationStep::Arriving) << "the move has seen the end before anybody could ask";
  EXPECT_EQ(bench.split(move.table, kHalf).status, Status::RetryLater);
  bench.passRenewing(3 * kSecond);
  EXPECT_EQ(move.step(), MigrationStep::Done);
  EXPECT_EQ(bench.split(move.table, kHalf).status, Status::Ok);
  expectWhole(bench, move.table);
}

TEST(Restart, CreateIsFinished) {
  crashEverywhere(
      [](Bench& bench) {
        for (uint64_t i = 1; i <= 3; ++i) bench.addServer(i);
        Bench::createOn(bench.life(), "t", 130, 7).detach();
        return Operation{.done = [](Bench& b) {
          const Table* table = b.life().map.findTable("t");
          return table != nullptr && table->state == TableState::Ready;
        }};
      },
      [](Bench& bench, const Operation&) {
        const Table* table = bench.life().map.findTable("t");
        if (table == nullptr) return;  // the intent was not stored yet
        EXPECT_EQ(table->state, TableState::Ready);
        EXPECT_EQ(bench.life().map.tabletsOf(table->id).size(), 130u);
        expectWhole(bench, table->id);
      });
}

TEST(Restart, DropIsFinished) {
  crashEverywhere(
      [](Bench& bench) {
        for (uint64_t i = 1; i <= 3; ++i) bench.addServer(i);
        const TableId table = bench.create("t", 130).id;
        Bench::dropOn(bench.life(), table).detach();
        return Operation{.done = [](Bench& b) { return b.life().map.findTable("t") == nullptr; }};
      },
      [](Bench& bench, const Operation&) {
        const Table* table = bench.life().map.findTable("t");
        if (table != nullptr) {
          EXPECT_EQ(table->state, TableState::Ready);
          expectWhole(bench, table->id);
        } else {
          for (auto& [id, machine] : bench.cluster().machines()) EXPECT_TRUE(machine.tablets.empty());
        }
      });
}

TEST(Restart, MoveIsFinished) {
  crashEverywhere(
      [](Bench& bench) {
        const ServerId a = bench.addServer(1);
        const ServerId b = bench.addServer(2);
        Operation operation{.table = bench.create("t", 1).id};
        operation.before = tabletAt(bench, operation.table, 0);
        EXPECT_TRUE(bench.cluster().mutate(operation.before));
        operation.target = operation.before.owner == a ? b : a;
        Bench::moveOn(bench.life(), operation.before.id, operation.target).detach();
        operation.done = [id = operation.before.id, target = operation.target](Bench& b) {
          const Tablet* tablet = b.life().map.findTablet(id);
          return tablet->owner == target && tablet->state == TabletState::Normal;
        };
        return operation;
      },
      [](Bench& bench, const Operation& operation) {
        const Tablet after = tabletAt(bench, operation.table, 0);
        EXPECT_EQ(after.state, TabletState::Normal);
        const MigrationManager::Progress* progress = bench.life().migrations.find(MigrationId(1));
        if (progress != nullptr) {
          EXPECT_EQ(progress->migration.step, MigrationStep::Done);
        }
        EXPECT_EQ(after.owner, progress != nullptr ? operation.target : operation.before.owner);
        EXPECT_EQ(bench.cluster().read(after), 1u);
        EXPECT_TRUE(bench.cluster().mutate(after));
        expectWhole(bench, operation.table);
      });
}

TEST(Restart, GivingUpIsFinished) {
  crashEverywhere(
      [](Bench& bench) {
        const ServerId a = bench.addServer(1);
        const ServerId b = bench.addServer(2);
        Operation operation{.table = bench.create("t", 1).id};
        operation.before = tabletAt(bench, operation.table, 0);
        bench.cluster().pull_failure = Status::NoSpace;
        operation.target = operation.before.owner == a ? b : a;
        Bench::moveOn(bench.life(), operation.before.id, operation.target).detach();
        operation.done = [](Bench& b) {
          const MigrationManager::Progress* progress = b.life().migrations.find(MigrationId(1));
          return progress != nullptr && progress->migration.isOver();
        };
        return operation;
      },
      [](Bench& bench, const Operation& operation) {
        const Tablet after = tabletAt(bench, operation.table, 0);
        EXPECT_EQ(after.state, TabletState::Normal);
        EXPECT_EQ(after.owner, operation.before.owner);
        EXPECT_TRUE(bench.cluster().mutate(after));
        EXPECT_TRUE(bench.cluster().machine(operation.target).tablets.empty());
        expectWhole(bench, operation.table);
      });
}

TEST(Restart, SplitIsFinished) {
  crashEverywhere(
      [](Bench& bench) {
        bench.addServer(1);
        Operation operation{.table = bench.create("t", 1).id};
        Bench::splitOn(bench.life(), operation.table, kHalf).detach();
        operation.done = [table = operation.table](Bench& b) { return b.life().map.tabletsOf(table).size() == 2; };
        return operation;
      },
      [](Bench& bench, const Operation& operation) {
        EXPECT_TRUE(isQuiet(bench, operation.table));
        expectWhole(bench, operation.table);
      });
}

// Moves and cancels at random while the coordinator crashes, calls get lost and copies of them arrive late.
// Clients that go by the map add to tablets; what they were told is done is never lost and never counted twice.
TEST(Moves, RandomFaultsLoseNothing) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Bench bench({.seed = seed, .faults = {.lose_permille = 150, .duplicate_permille = 150}});
    runtime::Random random(seed);
    std::vector<ServerId> servers;
    for (uint64_t i = 1; i <= 3; ++i) servers.push_back(bench.addServer(i));
    const TableManager::Created created = bench.create("t", 2);
    ASSERT_TRUE(created.status == Status::Ok);
    const TableId table = created.id;
    std::map<KeyHash, uint64_t> added;
    const auto add = [&] {
      for (int i = 0; i < 3; ++i) {
        const KeyHash hash = random.below(2) == 0 ? 0 : kHalf;
        const Tablet* tablet = bench.life().map.findTablet(table, hash);
        if (tablet != nullptr && bench.cluster().mutate(*tablet)) ++added[hash];
      }
    };
    for (int step = 0; step < 25; ++step) {
      const Tablet tablet = tabletAt(bench, table, random.below(2) == 0 ? 0 : kHalf);
      const ServerId target = servers[random.below(servers.size())];
      const MigrationManager::Begun begun = bench.move(tablet.id, target);
      for (int i = 0; i < 10; ++i) {
        bench.renewAll();
        bench.pass(static_cast<int64_t>(random.below(20)) * kMilli);
        add();
      }
      if (begun.status == Status::Ok && random.chance(0.2)) (void)bench.cancel(begun.id);
      if (random.chance(0.3)) bench.restart();
      add();
    }
    bench.passRenewing(3 * kSecond);
    ASSERT_TRUE(isQuiet(bench, table));
    expectWhole(bench, table);
    EXPECT_EQ(bench.cluster().read(tabletAt(bench, table, 0)), added[0]);
    EXPECT_EQ(bench.cluster().read(tabletAt(bench, table, kHalf)), added[kHalf]);
    for (const ServerId server : servers) EXPECT_TRUE(bench.life().membership.isAlive(server));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace ramcore::coordinator
