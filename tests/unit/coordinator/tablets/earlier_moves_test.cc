/// Moves that an earlier version of the coordinator has begun: until its end the destination copied the tablet, which
/// the source had frozen; then the tablet was handed over, and the source dropped it.
#include "coordinator/state/stored_state.h"
#include "unit/coordinator/tablets/tablet_checks.h"

namespace ramcore::coordinator {
namespace {

/// One tablet with contents, and two servers, in a store that an earlier version has left in the middle of a move.
class EarlierMove {
 public:
  static constexpr uint64_t kWritten = 5;

  /// The source has frozen the tablet, and the destination has begun to copy it.
  static Operation beginCopying(Bench& bench) {
    const Operation move = setUp(bench);
    store(bench, move, MigrationStep::Copying);
    return move;
  }
  /// The destination has copied all and owns the tablet; the source does not know that yet.
  /// @param drops  what the source answers when it is told to drop the tablet
  static Operation beginHandedOver(Bench& bench, Status drops = Status::Ok) {
    Operation move = setUp(bench);
    bench.cluster().machine(move.before.owner).drop_failure = drops;
    FakeCluster::Held& copied = bench.cluster().machine(move.target).tablets.at(move.before.id);
    copied.pulled = true;
    copied.content = kWritten;
    store(bench, move, MigrationStep::HandedOver);
    return move;
  }
  static const Migration& moveOf(Bench& bench) { return bench.life().migrations.find(kId)->migration; }

  static constexpr MigrationId kId{1};

 private:
  static Operation setUp(Bench& bench) {
    const ServerId a = bench.addServer(1);
    const ServerId b = bench.addServer(2);
    Operation move{.table = bench.create("t", 1).id};
    move.before = tabletAt(bench, move.table, 0);
    move.target = move.before.owner == a ? b : a;
    for (uint64_t i = 0; i < kWritten; ++i) EXPECT_TRUE(bench.cluster().mutate(move.before));
    bench.cluster().machine(move.before.owner).tablets.at(move.before.id).frozen = true;
    bench.cluster().machine(move.target).tablets[move.before.id] = {.tablet = destinationOf(move), .pulling = true};
    return move;
  }
  static Tablet destinationOf(const Operation& move) {
    Tablet tablet = move.before;
    tablet.last_epoch.value += 1;
    tablet.epoch = tablet.last_epoch;
    tablet.owner = move.target;
    tablet.logs = {{move.target, SegmentId(9)}};
    tablet.state = TabletState::Moving;
    return tablet;
  }
  static void store(Bench& bench, const Operation& move, MigrationStep step) {
    const Tablet after = destinationOf(move);
    Tablet tablet = step == MigrationStep::HandedOver ? after : move.before;
    tablet.state = TabletState::Moving;
    tablet.last_epoch = after.last_epoch;
    const Migration migration{.id = kId,
                              .tablet = tablet.id,
                              .table = move.table,
                              .source = move.before.owner,
                              .destination = move.target,
                              .source_epoch = move.before.epoch,
                              .destination_epoch = after.epoch,
                              .step = step,
                              .reason = {}};
    bench.crash();
    bench.disk().put("id/migration", encodeAllocator(100));
    bench.disk().put(keyOf(tablet.id), encode(tablet));
    bench.disk().put(keyOf(kId), encode(migration));
    bench.start();
    bench.renewAll();
  }
};

void expectGivenUp(Bench& bench, const Operation& move) {
  const Tablet after = tabletAt(bench, move.table, 0);
  EXPECT_EQ(EarlierMove::moveOf(bench).step, MigrationStep::Failed);
  EXPECT_NE(EarlierMove::moveOf(bench).reason.find("an earlier version"), std::string::npos);
  EXPECT_EQ(after.owner, move.before.owner);
  EXPECT_GT(after.epoch.value, move.before.epoch.value + 1) << "above what the destination was told";
  EXPECT_EQ(after.logs, move.before.logs);
  EXPECT_TRUE(bench.cluster().machine(move.target).tablets.empty()) << "what was copied";
  EXPECT_EQ(bench.cluster().read(after), EarlierMove::kWritten);
  EXPECT_TRUE(bench.cluster().mutate(after));
  expectWhole(bench, move.table);
}

void expectFinished(Bench& bench, const Operation& move) {
  const Tablet after = tabletAt(bench, move.table, 0);
  EXPECT_EQ(EarlierMove::moveOf(bench).step, MigrationStep::Done);
  EXPECT_EQ(after.owner, move.target);
  EXPECT_EQ(after.logs, (std::vector<LogRef>{{move.target, SegmentId(9)}}));
  EXPECT_TRUE(bench.cluster().machine(move.before.owner).tablets.empty());
  EXPECT_EQ(bench.cluster().read(after), EarlierMove::kWritten);
  EXPECT_TRUE(bench.cluster().mutate(after));
  expectWhole(bench, move.table);
}

TEST(EarlierMoves, OneThatWasCopyingIsGivenUp) {
  Bench bench;
  const Operation move = EarlierMove::beginCopying(bench);
  bench.passRenewing(3 * kSecond);
  expectGivenUp(bench, move);
}

TEST(EarlierMoves, OneThatWasHandedOverIsFinished) {
  Bench bench;
  const Operation move = EarlierMove::beginHandedOver(bench);
  bench.passRenewing(3 * kSecond);
  expectFinished(bench, move);
}

// The source was never told to lend the tablet: it may answer reads until it has dropped it.
TEST(EarlierMoves, TheDestinationDoesNotAnswerBeforeTheSourceHasDroppedTheTablet) {
  Bench bench;
  const Operation move = EarlierMove::beginHandedOver(bench, Status::RetryLater);
  const auto& held = bench.cluster().machine(move.target).tablets.at(move.before.id);
  for (int i = 0; i < 100; ++i) {
    bench.renewAll();
    bench.pass(10 * kMilli);
    EXPECT_TRUE(held.pulling) << "both answer";
  }
  EXPECT_EQ(EarlierMove::moveOf(bench).step, MigrationStep::HandedOver);
  bench.cluster().machine(move.before.owner).drop_failure = Status::Ok;
  bench.passRenewing(3 * kSecond);
  expectFinished(bench, move);
}

// A next coordinator that ends in the middle leaves the same work to the one after it.
TEST(Restart, AMoveOfAnEarlierVersionIsGivenUp) {
  crashEverywhere(
      [](Bench& bench) {
        Operation move = EarlierMove::beginCopying(bench);
        move.done = [](Bench& b) { return EarlierMove::moveOf(b).isOver(); };
        return move;
      },
      [](Bench& bench, const Operation& move) { expectGivenUp(bench, move); });
}

TEST(Restart, AMoveThatAnEarlierVersionHandedOverIsFinished) {
  crashEverywhere(
      [](Bench& bench) {
        Operation move = EarlierMove::beginHandedOver(bench);
        move.done = [](Bench& b) { return EarlierMove::moveOf(b).isOver(); };
        return move;
      },
      [](Bench& bench, const Operation& move) { expectFinished(bench, move); });
}

}  // namespace
}  // namespace ramcore::coordinator
