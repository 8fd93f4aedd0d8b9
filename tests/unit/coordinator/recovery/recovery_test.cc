// Tablets of dead servers come back whole or not at all, with one owner at a time, whichever servers die meanwhile.
#include "coordinator/recovery/recovery_manager.h"

#include <algorithm>

#include "unit/coordinator/recovery/recovery_fixture.h"

namespace ramcore::coordinator {
namespace {

TEST_F(Recoveries, TabletsOfADeadServerAreSpreadOverThoseThatLive) {
  bench.cluster().keepLog(first, {second, third});
  const uint64_t version = bench.life().membership.version();
  bench.kill(first);
  EXPECT_NE(bench.life().membership.version(), version);
  bench.passRenewing(2 * kSecond);
  expectBack(bench, table, first);
  for (const ServerId server : {second, third, fourth}) {
    EXPECT_EQ(bench.life().map.tabletsOwnedBy(server).size(), kTablets / 3);
    EXPECT_EQ(bench.cluster().machine(server).recovery_count, 1u);
    EXPECT_TRUE(bench.cluster().machine(server).fenced.contains(first));
  }
  for (const Tablet* tablet : bench.life().map.tabletsOf(table)) {
    EXPECT_EQ(tablet->logs, (std::vector<LogRef>{{tablet->owner, SegmentId(9)}}));
    EXPECT_EQ(tablet->epoch, TabletEpoch(2));
  }
}

TEST_F(Recoveries, ASecondDeathIsRecoveredFromTheNewOwnersLog) {
  bench.cluster().keepLog(first, {second, third});
  bench.kill(first);
  bench.passRenewing(2 * kSecond);
  bench.cluster().keepLog(second, {third, fourth});
  for (const Tablet* tablet : bench.life().map.tabletsOf(table)) EXPECT_TRUE(bench.cluster().mutate(*tablet));
  bench.kill(second);
  bench.passRenewing(2 * kSecond);
  expectBack(bench, table, second, kWritten + 1);
}

TEST_F(Recoveries, WhatIsMissingIsWaitedForAndNamed) {
  bench.cluster().keepLog(first, {fourth});
  bench.cluster().machine(third).replicas[first] = {FakeCluster::closedReplica(1),
                                                    FakeCluster::openReplica(3, 1, {1, 2, 3})};
  bench.kill(fourth);
  bench.passRenewing(kSecond);
  EXPECT_TRUE(bench.life().membership.find(fourth)->recovered) << "it had no tablets";
  bench.kill(first);
  bench.passRenewing(10 * kSecond);
  expectNothingIsBack();
  const std::vector<RecoveryReport> reports = bench.life().recoveries.reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].server, first);
  EXPECT_EQ(reports[0].tablets_left, kTablets);
  EXPECT_EQ(reports[0].missing, std::vector<SegmentId>{SegmentId(2)});
  EXPECT_TRUE(std::find(reports[0].away.begin(), reports[0].away.end(), fourth) != reports[0].away.end());
  EXPECT_NE(reports[0].text.find("missing: 2"), std::string::npos) << reports[0].text;
  EXPECT_NE(reports[0].text.find("4 (s4)"), std::string::npos) << reports[0].text;
  EXPECT_LE(bench.cluster().machine(second).fence_count, 1u) << "who answered is not asked again";

  // The fourth comes back with its storage, under another id.
  const ServerId back = bench.addBackup(5, fourth);
  bench.cluster().keepLog(first, {back});
  bench.passRenewing(2 * kSecond);
  expectBack(bench, table, first);
}

class ShortEnds : public Recoveries, public ::testing::WithParamInterface<Durability> {
  void SetUp() override { build(bench, GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Of, ShortEnds, ::testing::Values(Durability::Buffered, Durability::Sync));

// Third lost its power, fourth, which has the rest, is away. What was acknowledged of sync tables was flushed, and is
// in the short replica unless its newest bytes have rotted: that looks the same, so nobody goes on without fourth.
TEST_P(ShortEnds, WaitForWhoMayHaveMoreOfThem) {
  FakeCluster& cluster = bench.cluster();
  cluster.keepLog(first, {third});
  cluster.machine(third).replicas[first].back().maybe_short = true;
  cluster.machine(third).replicas[first].back().length_bytes = 100;
  bench.kill(fourth);
  bench.passRenewing(kSecond);
  bench.kill(first);
  bench.passRenewing(10 * kSecond);
  expectNothingIsBack();
  const RecoveryReport report = bench.life().recoveries.reports().at(0);
  EXPECT_NE(report.text.find("segment 3, on 3 (s3)"), std::string::npos) << report.text;
  EXPECT_NE(report.text.find("may be short"), std::string::npos) << report.text;
  EXPECT_NE(report.text.find("servers away: 4 (s4)"), std::string::npos) << report.text;
  EXPECT_EQ(report.away, std::vector<ServerId>{fourth}) << "the dead one itself had none of its replicas";
  EXPECT_EQ(report.missing, std::vector<SegmentId>{SegmentId(3)}) << "a part of it may be";

  const ServerId back = bench.addBackup(5, fourth);
  cluster.keepLog(first, {back});
  bench.passRenewing(2 * kSecond);
  expectBack(bench, table, first);
}

TEST_F(Recoveries, WhoDiedBeforeItUsedItsStorageIsNotWaitedFor) {
  FakeCluster& cluster = bench.cluster();
  cluster.keepLog(first, {third});
  cluster.machine(third).replicas[first].back().maybe_short = true;
  bench.kill(fourth);
  const ServerId never_began = bench.addBackup(5, fourth);
  bench.kill(never_began);
  bench.kill(first);
  bench.passRenewing(2 * kSecond);
  expectNothingIsBack();
  EXPECT_EQ(bench.life().recoveries.reports().at(0).away, std::vector<ServerId>{never_began});
  // The server that never began left the storage as it was.
  bench.addBackup(6, fourth);
  bench.passRenewing(2 * kSecond);
  expectBack(bench, table, first);
}

// The next server finds a new storage without a name in it, as the dead one did.
TEST_F(Recoveries, WhoDiedBeforeItUsedANewStorageIsNotWaitedFor) {
  FakeCluster& cluster = bench.cluster();
  cluster.keepLog(first, {third});
  cluster.machine(third).replicas[first].back().maybe_short = true;
  bench.kill(fourth);
  bench.addBackup(5, fourth);
  const ServerId never_began = bench.addBackup(6, {}, 77);
  bench.kill(never_began);
  bench.addBackup(7, {}, 78);
  bench.kill(first);
  bench.passRenewing(2 * kSecond);
  expectNothingIsBack();
  EXPECT_EQ(bench.life().recoveries.reports().at(0).away, std::vector<ServerId>{never_began});
  bench.addBackup(8, {}, 77);
  bench.passRenewing(2 * kSecond);
  expectBack(bench, table, first);
}

TEST_F(Recoveries, WhoDiedAfterItUsedItsStorageIsWaitedFor) {
  FakeCluster& cluster = bench.cluster();
  cluster.keepLog(first, {third});
  cluster.machine(third).replicas[first].back().maybe_short = true;
  bench.kill(fourth);
  const ServerId second_life = bench.addBackup(5, fourth);
  const ServerId third_life = bench.addBackup(6, second_life);
  bench.kill(third_life);
  bench.kill(first);
  bench.passRenewing(2 * kSecond);
  expectNothingIsBack();
  EXPECT_EQ(bench.life().recoveries.reports().at(0).away, std::vector<ServerId>{third_life});
}

// A disk that lies about flushes loses the names of all servers that used it meanwhile.
TEST_F(Recoveries, WhoseNameTheDiskLostIsNotWaitedFor) {
  FakeCluster& cluster = bench.cluster();
  cluster.keepLog(first, {third});
  cluster.machine(third).replicas[first].back().maybe_short = true;
  bench.kill(fourth);
  const ServerId second_life = bench.addBackup(5, fourth);
  const ServerId third_life = bench.addBackup(6, second_life);
  bench.kill(third_life);
  bench.kill(first);
  bench.passRenewing(2 * kSecond);
  expectNothingIsBack();
  bench.addBackup(7, fourth);
  bench.passRenewing(2 * kSecond);
  expectBack(bench, table, first);
}

TEST_F(Recoveries, WhenNobodyIsAwayTheLongestShortEndIsIt) {
  FakeCluster& cluster = bench.cluster();
  cluster.keepLog(first, {second, third});
  for (const ServerId server : {second, third}) {
    cluster.machine(server).replicas[first].back().maybe_short = true;
    cluster.machine(server).replicas[first].back().length_bytes = server == third ? 200 : 100;
  }
  bench.kill(first);
  bench.passRenewing(2 * kSecond);
  expectBack(bench, table, first);
}

TEST_F(Recoveries, WhatADeadServerOffersCountsNoMore) {
  bench.cluster().keepLog(first, {fourth});
  for (const ServerId server : {second, third, fourth}) bench.cluster().machine(server).stalls = true;
  bench.kill(first);
  ASSERT_TRUE(untilStates(TabletState::Recovering, kTablets));
  // The only server that has the log dies, and with it the attempt. Its answer must not count any more.
  bench.cluster().pull_failure = Status::Unreachable;
  bench.kill(fourth);
  bench.passRenewing(10 * kSecond);
  EXPECT_FALSE(bench.life().membership.find(first)->recovered);
  ASSERT_EQ(bench.life().recoveries.reports().size(), 1u);
  EXPECT_EQ(bench.life().recoveries.reports()[0].tablets_left, kTablets);
  bench.cluster().pull_failure = Status::Ok;
  for (const ServerId server : {second, third}) bench.cluster().machine(server).stalls = false;
  const ServerId back = bench.addBackup(5, fourth);
  bench.cluster().keepLog(first, {back});
  bench.passRenewing(12 * kSecond);
  expectBack(bench, table, first);
}

TEST_F(Recoveries, AStaleHeadBelowTheFloorIsIgnored) {
  bench.cluster().keepLog(first, {second, third}, 1);
  EXPECT_EQ(bench.raiseFloor(first, {SegmentId(3), 2}), Status::Ok);
  bench.kill(first);
  bench.passRenewing(5 * kSecond);
  expectNothingIsBack();
  EXPECT_NE(bench.life().recoveries.reports()[0].text.find("segment 3 at replica epoch 2"), std::string::npos);
  bench.restart();
  bench.passRenewing(5 * kSecond);
  expectNothingIsBack();
  const ServerId back = bench.addBackup(5);
  bench.cluster().keepLog(first, {back}, 2);
  bench.passRenewing(3 * kSecond);
  expectBack(bench, table, first);
}

TEST_F(Recoveries, ABackupThatDoesNotAnswerIsAskedAgain) {
  bench.cluster().keepLog(first, {fourth});
  killNow(first);
  bench.cluster().machine(fourth).up = false;
  for (int i = 0; i < 10; ++i) {
    bench.renewAll();
    (void)bench.life().membership.renew(fourth);
    bench.pass(200 * kMilli);
  }
  EXPECT_FALSE(bench.life().membership.find(first)->recovered);
  bench.cluster().machine(fourth).up = true;
  bench.passRenewing(4 * kSecond);
  expectBack(bench, table, first);
}

TEST_F(Recoveries, AMasterThatDiesBeforeTheGrantIsReplaced) {
  bench.cluster().keepLog(first, {second, third});
  bench.cluster().machine(fourth).stalls = true;
  bench.kill(first);
  ASSERT_TRUE(runRenewing([&] { return bench.cluster().machine(fourth).recovery_count == 1; }));
  bench.kill(fourth);
  bench.passRenewing(3 * kSecond);
  expectBack(bench, table, first);
  EXPECT_TRUE(bench.life().membership.find(fourth)->recovered) << "it never owned anything";
}

TEST_F(Recoveries, AMasterThatDiesAfterTheGrantIsRecoveredItself) {
  bench.cluster().keepLog(first, {second, third});
  killNow(first);
  ASSERT_TRUE(runRenewing([&] {
    const auto owned = bench.life().map.tabletsOwnedBy(fourth);
    return !owned.empty() && owned[0]->state == TabletState::Taking;
  }));
  bench.cluster().keepLog(fourth, {second, third});
  bench.kill(fourth);
  bench.passRenewing(3 * kSecond);
  expectBack(bench, table, fourth);
  EXPECT_TRUE(bench.life().membership.find(first)->recovered);
}

TEST_F(Recoveries, AFailedAttemptIsFollowedByOneAtAnotherServer) {
  bench.cluster().keepLog(first, {second, third});
  bench.cluster().pull_failure = Status::NoSpace;
  bench.kill(first);
  bench.passRenewing(5 * kSecond);
  EXPECT_FALSE(bench.life().membership.find(first)->recovered);
  // Attempts follow each other in growing pauses, and leave nothing behind.
  const Tablet tried = tabletAt(bench, table, 0);
  EXPECT_GT(tried.last_epoch, TabletEpoch(3));
  EXPECT_LT(tried.last_epoch, TabletEpoch(15));
  bench.cluster().pull_failure = Status::Ok;
  bench.passRenewing(10 * kSecond);
  expectBack(bench, table, first);
  for (auto& [id, machine] : bench.cluster().machines()) {
    if (machine.up) {
      EXPECT_EQ(machine.tablets.size(), bench.life().map.tabletsOwnedBy(id).size());
    }
  }
}

// The coordinator gives attempts up and is gone before their server has heard of that. The next one does not know of
// them.
TEST_F(Recoveries, WhatAnEarlierCoordinatorHasGivenUpIsForgotten) {
  bench.cluster().keepLog(first, {second, third});
  bench.cluster().machine(fourth).stalls = true;
  bench.kill(first);
  ASSERT_TRUE(runRenewing([&] { return bench.cluster().machine(fourth).recovery_count == 1; }));
  bench.cluster().machine(fourth).drop_failure = Status::RetryLater;
  bench.cluster().machine(fourth).pull_failure = Status::NoSpace;
  ASSERT_TRUE(runRenewing([&] {
    return bench.life().map.tabletsIn(TabletState::Recovering).empty() && bench.life().recoveries.reports().empty();
  }));
  const size_t left = bench.cluster().machine(fourth).tablets.size();
  ASSERT_GT(left, bench.life().map.tabletsOwnedBy(fourth).size()) << "the attempt has left nothing";
  bench.restart();
  bench.cluster().machine(fourth).drop_failure = Status::Ok;
  bench.passRenewing(10 * kSecond);
  expectBack(bench, table, first);
  EXPECT_EQ(bench.cluster().machine(fourth).tablets.size(), bench.life().map.tabletsOwnedBy(fourth).size());
}

// A server may say anything. It hears commands about nothing but what is over, and few at a time.
TEST_F(Recoveries, WhatAServerSaysItFetchesIsForgottenOnlyIfItIsOver) {
  bench.cluster().keepLog(first, {second, third});
  bench.cluster().machine(fourth).stalls = true;
  bench.kill(first);
  ASSERT_TRUE(runRenewing([&] { return bench.cluster().machine(fourth).recovery_count == 1; }));
  std::vector<RecoveryAttempts::Intake> all;
  std::vector<RecoveryAttempts::Intake> old;
  for (const auto& [id, held] : bench.cluster().machine(fourth).tablets) all.push_back({id, held.tablet.epoch});
  ASSERT_FALSE(all.empty());
  for (uint64_t id = 1'000; id < 1'100; ++id) old.push_back({TabletId(id), TabletEpoch(1)});
  const uint64_t calls = bench.life().masters.callCount();
  bench.review(fourth, all);
  EXPECT_EQ(bench.life().masters.callCount(), calls) << "a recovery that goes on";
  bench.review(fourth, old);
  bench.review(fourth, old);
  EXPECT_EQ(bench.life().masters.callCount(), calls + 16);
  bench.passRenewing(kSecond);
  EXPECT_EQ(bench.cluster().machine(fourth).tablets.size(), all.size());
  for (const RecoveryAttempts::Intake& intake : all) {
    EXPECT_FALSE(bench.cluster().machine(fourth).dropped.contains(intake.tablet) &&
                 bench.cluster().machine(fourth).dropped[intake.tablet] >= intake.epoch);
  }
}

TEST_F(Recoveries, WhoHasRoomGetsItsTurnWhateverItsNumber) {
  bench.cluster().keepLog(first, {second, third});
  bench.cluster().machine(second).pull_failure = Status::NoSpace;
  bench.cluster().machine(third).pull_failure = Status::NoSpace;
  bench.kill(first);
  bench.passRenewing(10 * kSecond);
  expectBack(bench, table, first);
  EXPECT_EQ(bench.life().map.tabletsOwnedBy(fourth).size(), kTablets);
}

TEST_F(Recoveries, AServerThatRefusesIsPassedOver) {
  bench.cluster().keepLog(first, {second, third});
  bench.cluster().machine(fourth).drop_failure = Status::BadRequest;
  bench.kill(first);
  bench.passRenewing(2 * kSecond);
  expectBack(bench, table, first);
  EXPECT_TRUE(bench.life().map.tabletsOwnedBy(fourth).empty());
}

TEST_F(Recoveries, GoodbyeStartsTheRecoveryAtOnce) {
  bench.cluster().keepLog(first, {second, third});
  EXPECT_EQ(bench.goodbye(first), Status::Ok);
  bench.cluster().machine(first).up = false;
  bench.passRenewing(900 * kMilli);
  expectBack(bench, table, first);
}

TEST_F(Recoveries, AReturningServerStartsTheRecoveryOfItsFormerSelf) {
  bench.cluster().keepLog(first, {second, third});
  bench.cluster().machine(first).up = false;
  bench.addBackup(5, first);
  bench.passRenewing(900 * kMilli);
  expectBack(bench, table, first);
  EXPECT_TRUE(bench.life().membership.find(first)->returned);
}

// Which leases an earlier coordinator granted is not known. So the contents are fetched, but no server answers for them
// before such a lease is over.
TEST_F(Recoveries, ContentsAreFetchedBeforeTheLeaseIsOverAndAnsweredAfterIt) {
  bench.cluster().keepLog(first, {second, third});
  killNow(first);
  bench.restart();
  ASSERT_FALSE(bench.life().membership.isAlive(first));
  EXPECT_FALSE(bench.life().membership.leaseIsOver(first));
  bench.passRenewing(kSecond);
  EXPECT_FALSE(bench.life().membership.leaseIsOver(first));
  EXPECT_EQ(bench.life().map.tabletsIn(TabletState::Recovering).size(), kTablets);
  for (const ServerId server : {second, third, fourth}) {
    for (const auto& [id, held] : bench.cluster().machine(server).tablets) {
      EXPECT_TRUE(held.pulling);
      EXPECT_TRUE(held.pulled);
    }
  }
  bench.passRenewing(2 * kSecond);
  expectBack(bench, table, first);
}

TEST_F(Recoveries, MovesAndSplitsWaitForIt) {
  bench.cluster().keepLog(first, {second, third});
  for (const ServerId server : {second, third, fourth}) bench.cluster().machine(server).stalls = true;
  bench.kill(first);
  ASSERT_TRUE(untilStates(TabletState::Recovering, kTablets));
  EXPECT_EQ(bench.move(tabletAt(bench, table, 0).id, second).status, Status::RetryLater);
  EXPECT_EQ(bench.split(table, 1234).status, Status::RetryLater);
}

TEST_F(Recoveries, ADropEndsIt) {
  bench.cluster().keepLog(first, {second, third});
  for (const ServerId server : {second, third, fourth}) bench.cluster().machine(server).stalls = true;
  bench.kill(first);
  ASSERT_TRUE(untilStates(TabletState::Recovering, kTablets));
  bench.passRenewing(100 * kMilli);
  EXPECT_EQ(bench.drop(table), Status::Ok);
  for (const ServerId server : {second, third, fourth}) EXPECT_TRUE(bench.cluster().machine(server).tablets.empty());
  bench.passRenewing(kSecond);
  EXPECT_TRUE(bench.life().membership.find(first)->recovered);
}

TEST_F(Recoveries, DroppedTablesNeedNone) {
  bench.kill(first);
  bench.passRenewing(kSecond);
  expectNothingIsBack();
  EXPECT_EQ(bench.drop(table), Status::Ok);
  bench.passRenewing(kSecond);
  EXPECT_TRUE(bench.life().membership.find(first)->recovered);
}

TEST_F(Recoveries, AMoveWithADeadEndIsOverFirst) {
  bench.cluster().keepLog(first, {second, third});
  const Tablet before = tabletAt(bench, table, 0);
  bench.cluster().machine(second).stalls = true;
  ASSERT_EQ(bench.move(before.id, second).status, Status::Ok);
  bench.passRenewing(200 * kMilli);
  bench.cluster().machine(second).stalls = false;
  bench.kill(first);
  bench.passRenewing(3 * kSecond);
  expectBack(bench, table, first);
}

TEST_F(Recoveries, CreationsOfADeadServerGoElsewhere) {
  bench.cluster().machine(second).up = false;
  Bench::createOn(bench.life(), "u", 8, 77).detach();
  bench.kill(second);
  bench.passRenewing(2 * kSecond);
  const Table* created = bench.life().map.findTable("u");
  ASSERT_NE(created, nullptr);
  EXPECT_EQ(created->state, TableState::Ready);
  EXPECT_TRUE(bench.life().map.tabletsOwnedBy(second).empty());
  EXPECT_TRUE(bench.life().membership.find(second)->recovered);
}

TEST(Recovery, ManyTabletsTakeSeveralBatchesAndOrders) {
  Bench bench;
  const ServerId first = bench.addBackup(1);
  std::vector<TableId> tables;
  for (int i = 0; i < 3; ++i) tables.push_back(bench.create("t" + std::to_string(i), 1'000).id);
  const ServerId second = bench.addBackup(2);
  bench.cluster().keepLog(first, {second});
  bench.renewAll();
  bench.kill(first);
  bench.passRenewing(20 * kSecond);
  for (const TableId table : tables) {
    EXPECT_TRUE(isQuiet(bench, table));
    expectWhole(bench, table);
  }
  EXPECT_EQ(bench.life().map.tabletsOwnedBy(second).size(), 3'000u);
  EXPECT_EQ(bench.cluster().machine(second).recovery_count, 3u);
  EXPECT_TRUE(bench.life().membership.find(first)->recovered);
}

TEST(Recovery, ClusterWithoutReplicasWaitsQuietly) {
  Bench bench;
  const ServerId first = bench.addServer(1);
  const TableId table = bench.create("t", 2).id;
  bench.addServer(2);
  bench.kill(first);
  bench.passRenewing(kSecond);
  const uint64_t calls = bench.life().masters.callCount();
  const uint64_t commits = bench.disk().commitCount();
  bench.passRenewing(30 * kSecond);
  EXPECT_EQ(bench.life().masters.callCount(), calls);
  EXPECT_EQ(bench.disk().commitCount(), commits);
  ASSERT_EQ(bench.life().recoveries.reports().size(), 1u);
  EXPECT_NE(bench.life().recoveries.reports()[0].text.find("no server keeps replicas"), std::string::npos);
  EXPECT_EQ(tabletAt(bench, table, 0).owner, first);
}

TEST(Recovery, FourServersStartColdOneAfterTheOther) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Bench bench({.seed = seed});
    std::vector<ServerId> former;
    for (uint64_t nonce = 1; nonce <= 4; ++nonce) former.push_back(bench.addBackup(nonce));
    const TableId table = bench.create("t", 16).id;
    for (const Tablet* tablet : bench.life().map.tabletsOf(table)) EXPECT_TRUE(bench.cluster().mutate(*tablet));
    // The power fails.
    for (const ServerId server : former) bench.cluster().machine(server).up = false;
    bench.restart();
    bench.pass(static_cast<int64_t>(seed) * 400 * kMilli);
    for (uint64_t i = 0; i < 4; ++i) {
      const ServerId back = bench.addBackup(11 + i, former[i]);
      // Its storage has the logs of the next two servers.
      bench.cluster().keepLog(former[(i + 1) % 4], {back});
      bench.cluster().keepLog(former[(i + 2) % 4], {back});
      bench.passRenewing(static_cast<int64_t>(seed % 5) * 700 * kMilli);
    }
    bench.passRenewing(8 * kSecond);
    EXPECT_TRUE(isQuiet(bench, table));
    expectWhole(bench, table);
    for (const Tablet* tablet : bench.life().map.tabletsOf(table)) EXPECT_EQ(bench.cluster().read(*tablet), 1u);
    for (const ServerId server : former) EXPECT_TRUE(bench.life().membership.find(server)->recovered);
    if (HasFailure()) return;
  }
}

TEST_F(Recoveries, IsFinishedByTheNextCoordinator) {
  crashEverywhere(
      [](Bench& fresh) {
        Operation operation{.table = build(fresh)};
        fresh.cluster().keepLog(ServerId(1), {ServerId(2), ServerId(3)});
        fresh.cluster().machine(ServerId(1)).up = false;
        EXPECT_EQ(fresh.goodbye(ServerId(1)), Status::Ok);
        operation.done = [](Bench& at) {
          const Server* server = at.life().membership.find(ServerId(1));
          return server->recovered;
        };
        return operation;
      },
      [](Bench& fresh, const Operation& operation) {
        fresh.passRenewing(3 * kSecond);
        expectBack(fresh, operation.table, ServerId(1));
        for (auto& [id, machine] : fresh.cluster().machines()) {
          if (machine.up) {
            EXPECT_EQ(machine.tablets.size(), fresh.life().map.tabletsOwnedBy(id).size());
          }
        }
      });
}

// Servers die and come back under other ids while the coordinator crashes and calls get lost. The log of each is kept
// by two of the others at any time.
TEST(Recovery, RandomDeathsLoseNothing) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Bench bench({.seed = seed, .faults = {.lose_permille = 100, .duplicate_permille = 100}});
    runtime::Random random(seed);
    uint64_t nonce = 0;
    std::vector<ServerId> servers;
    const auto keepAll = [&] {
      for (const ServerId master : servers) {
        std::vector<ServerId> others = servers;
        std::erase(others, master);
        bench.cluster().keepLog(master, others);
      }
    };
    for (int i = 0; i < 4; ++i) servers.push_back(bench.addBackup(++nonce));
    const TableManager::Created created = bench.create("t", 8);
    ASSERT_EQ(created.status, Status::Ok);
    std::map<KeyHash, uint64_t> added;
    const auto add = [&] {
      for (const Tablet* tablet : bench.life().map.tabletsOf(created.id)) {
        if (bench.cluster().mutate(*tablet)) ++added[tablet->range.first];
      }
    };
    for (int death = 0; death < 4; ++death) {
      keepAll();
      add();
      const size_t victim = random.below(servers.size());
      const ServerId dead = servers[victim];
      bench.cluster().machine(dead).up = false;
      for (int i = 0; i < 30; ++i) {
        bench.renewAll();
        bench.pass(static_cast<int64_t>(random.below(400)) * kMilli);
        add();
        if (random.chance(0.1)) bench.restart();
        if (HasFailure()) return;
      }
      servers.erase(servers.begin() + static_cast<std::ptrdiff_t>(victim));
      servers.push_back(bench.addBackup(++nonce, dead));
      // The replicas that the dead server kept are there again, also those of servers whose recoveries go on.
      bench.cluster().machine(servers.back()).replicas = bench.cluster().machine(dead).replicas;
      bench.passRenewing(random.below(2) == 0 ? 0 : 10 * kSecond);
    }
    bench.passRenewing(40 * kSecond);
    ASSERT_TRUE(isQuiet(bench, created.id));
    expectWhole(bench, created.id);
    for (const Tablet* tablet : bench.life().map.tabletsOf(created.id)) {
      EXPECT_EQ(bench.cluster().read(*tablet), added[tablet->range.first]);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace ramcore::coordinator
