/// Moves that are taken back while the contents arrive.
#include "unit/coordinator/tablets/tablet_checks.h"

namespace ramcore::coordinator {
namespace {

/// The only tablet of a table. It was handed over, and nothing of it arrives: each of its servers has one change of its
/// own.
class Returns : public testing::Test {
 protected:
  void handOver() {
    const ServerId a = bench.addBackup(1);
    const ServerId b = bench.addBackup(2);
    third = bench.addBackup(3);
    table = bench.create("t", 1).id;
    while (now().owner != a && now().owner != b) {
      ASSERT_EQ(bench.drop(table), Status::Ok);
      table = bench.create("t", 1).id;
    }
    before = now();
    target = before.owner == a ? b : a;
    ASSERT_TRUE(bench.cluster().mutate(before));
    bench.cluster().machine(target).stalls = true;
    // Until it arrives the pull has to get on.
    id = bench.move(before.id, target).id;
    bench.cluster().machine(target).stalls = false;
    ASSERT_TRUE(reaches(MigrationStep::Freezing));
    bench.cluster().machine(target).stalls = true;
    ASSERT_TRUE(reaches(MigrationStep::Arriving));
    ASSERT_TRUE(bench.runUntil([this] { return bench.cluster().mutate(now()); }));
    ASSERT_EQ(now().owner, target);
  }
  Tablet now() { return *bench.life().map.findTablet(table, 0); }
  MigrationStep step() { return bench.life().migrations.find(id)->migration.step; }
  bool reaches(MigrationStep wanted) {
    return bench.runUntil([this, wanted] { return step() == wanted; });
  }
  bool isOver() { return bench.life().migrations.find(id)->migration.isOver(); }

  Bench bench;
  ServerId third;
  TableId table;
  Tablet before;
  ServerId target;
  MigrationId id;
};

TEST_F(Returns, TheSourceOwnsTheTabletAgainAndHasWhatWasChanged) {
  ASSERT_NO_FATAL_FAILURE(handOver());
  EXPECT_EQ(bench.cancel(id), Status::Ok);
  EXPECT_TRUE(step() == MigrationStep::Returning || step() == MigrationStep::GivingUp) << textOf(step());
  EXPECT_EQ(now().owner, before.owner);
  EXPECT_EQ(bench.cancel(id), Status::Ok) << "repeated";
  ASSERT_TRUE(bench.runUntil([this] { return isOver(); }));
  EXPECT_EQ(step(), MigrationStep::Cancelled);
  EXPECT_EQ(now().state, TabletState::Normal);
  EXPECT_EQ(now().logs, before.logs);
  EXPECT_EQ(bench.cluster().read(now()), 2u);
  EXPECT_TRUE(bench.cluster().mutate(now()));
  EXPECT_TRUE(bench.cluster().machine(target).tablets.empty());
  bench.cluster().machine(target).stalls = false;
  EXPECT_EQ(bench.move(before.id, target).status, Status::Ok) << "another move";
  ASSERT_TRUE(bench.runUntil([this] { return now().owner == target && now().state == TabletState::Normal; }));
  EXPECT_EQ(bench.cluster().read(now()), 3u);
}

TEST_F(Returns, WithoutRoomAtTheSourceTheMoveGoesOn) {
  ASSERT_NO_FATAL_FAILURE(handOver());
  bench.cluster().machine(before.owner).pull_failure = Status::NoSpace;
  EXPECT_EQ(bench.cancel(id), Status::NoSpace);
  EXPECT_EQ(step(), MigrationStep::Arriving);
  EXPECT_TRUE(bench.cluster().mutate(now())) << "the destination takes mutations again";
  bench.cluster().machine(target).stalls = false;
  ASSERT_TRUE(bench.runUntil([this] { return isOver(); }));
  EXPECT_EQ(step(), MigrationStep::Done);
  EXPECT_EQ(bench.cluster().read(now()), 3u);
  EXPECT_EQ(bench.cancel(id), Status::BadRequest) << "too late";
}

TEST_F(Returns, ACoordinatorThatStartsGoesOnWithIt) {
  ASSERT_NO_FATAL_FAILURE(handOver());
  // The source gets ready, and no more.
  bench.cluster().machine(before.owner).stalls = true;
  bench.beginCancel(id);
  ASSERT_TRUE(bench.runUntil([this] { return bool{bench.life().migrations.find(id)->migration.return_epoch}; }));
  bench.restart();
  bench.cluster().machine(before.owner).stalls = false;
  ASSERT_TRUE(reaches(MigrationStep::Returning));
  bench.restart();
  bench.passRenewing(3 * kSecond);
  EXPECT_EQ(step(), MigrationStep::Cancelled);
  EXPECT_EQ(now().owner, before.owner);
  EXPECT_EQ(bench.cluster().read(now()), 2u);
}

TEST_F(Returns, IfTheDestinationDiesItsLogComes) {
  ASSERT_NO_FATAL_FAILURE(handOver());
  bench.cluster().machine(before.owner).stalls = true;
  bench.cluster().machine(before.owner).stalls = false;
  ASSERT_EQ(bench.cancel(id), Status::Ok);
  ASSERT_EQ(step(), MigrationStep::Returning);
  bench.cluster().machine(before.owner).stalls = true;
  bench.cluster().keepLog(target, {before.owner, third});
  bench.kill(target);
  bench.cluster().machine(before.owner).stalls = false;
  bench.passRenewing(10 * kSecond);
  EXPECT_EQ(step(), MigrationStep::Cancelled);
  EXPECT_EQ(now().owner, before.owner);
  EXPECT_EQ(bench.cluster().read(now()), 2u);
}

TEST_F(Returns, IfTheSourceDiesTheDestinationHasItAgain) {
  ASSERT_NO_FATAL_FAILURE(handOver());
  ASSERT_EQ(bench.cancel(id), Status::Ok);
  ASSERT_EQ(step(), MigrationStep::Returning);
  bench.cluster().machine(before.owner).stalls = true;
  bench.cluster().keepLog(before.owner, {target, third});
  bench.kill(before.owner);
  bench.cluster().machine(target).stalls = false;
  bench.passRenewing(10 * kSecond);
  EXPECT_EQ(step(), MigrationStep::Done);
  EXPECT_EQ(now().owner, target);
  EXPECT_EQ(bench.cluster().read(now()), 2u);
}

TEST_F(Returns, ADropOfTheTableEndsIt) {
  ASSERT_NO_FATAL_FAILURE(handOver());
  ASSERT_EQ(bench.cancel(id), Status::Ok);
  EXPECT_EQ(bench.drop(table), Status::Ok);
  for (auto& [server, machine] : bench.cluster().machines()) EXPECT_TRUE(machine.tablets.empty());
}

}  // namespace
}  // namespace ramcore::coordinator
