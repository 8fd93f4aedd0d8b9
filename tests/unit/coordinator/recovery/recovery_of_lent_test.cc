/// Tablets that were being handed over when one of their two servers died, or both: their contents are in two logs.
#include "coordinator/state/stored_state.h"
#include "unit/coordinator/recovery/recovery_fixture.h"

namespace ramcore::coordinator {
namespace {

class RecoveriesOfLent : public Recoveries {
 public:
  using Recoveries::build;
  using Recoveries::kWritten;
  static constexpr uint64_t kAdded = 3;

  void SetUp() override {
    Recoveries::SetUp();
    lent_ = lend(bench);
  }
  /// Makes one tablet of the first server one that was handed over to the second one, which has added to it. Nothing
  /// arrives there.
  static TabletId lend(Bench& bench) {
    const ServerId former(1);
    const ServerId owner(2);
    const TabletId id = bench.life().map.tabletsOwnedBy(former).front()->id;
    Tablet tablet = *bench.life().map.findTablet(id);
    Migration move{.id = MigrationId(1),
                   .tablet = id,
                   .table = tablet.table,
                   .source = former,
                   .destination = owner,
                   .source_epoch = tablet.epoch,
                   .destination_epoch = TabletEpoch(tablet.last_epoch.value + 1),
                   .step = MigrationStep::Arriving,
                   .destination_segment = SegmentId(9),
                   .reason = {}};
    tablet.state = TabletState::Moving;
    tablet.last_epoch.value += 1;
    tablet.epoch = tablet.last_epoch;
    tablet.owner = owner;
    tablet.logs.push_back({owner, move.destination_segment});
    bench.disk().put("id/migration", encodeAllocator(100));
    bench.disk().put(keyOf(id), encode(tablet));
    bench.disk().put(keyOf(move.id), encode(move));
    FakeCluster::Held& lent = bench.cluster().machine(former).tablets.at(id);
    lent.frozen = lent.lent = true;
    bench.cluster().machine(owner).tablets[id] = {.tablet = tablet, .content = kAdded};
    for (const ServerId server : {former, owner}) bench.cluster().keepLog(server, {ServerId(3), ServerId(4)});
    bench.restart();
    bench.renewAll();
    return id;
  }
  const Tablet& lent() { return *bench.life().map.findTablet(lent_); }
  bool isRecovered(ServerId server) { return bench.life().membership.find(server)->recovered; }
  /// Lets time pass until nothing is left of these servers; as long as a tablet has contents in the log of one of them,
  /// that one does not count as recovered.
  bool untilRecovered(const std::vector<ServerId>& dead) {
    return runRenewing([&] {
      for (const ServerId server : dead) EXPECT_FALSE(isRecovered(server) && lent().logOf(server) != nullptr);
      return HasFailure() || std::ranges::all_of(dead, [&](ServerId server) { return isRecovered(server); });
    });
  }
  void expectAllIsAt(const std::vector<ServerId>& owners) {
    EXPECT_NE(std::ranges::find(owners, lent().owner), owners.end()) << lent().owner.value;
    ASSERT_EQ(lent().logs.size(), 1u);
    EXPECT_EQ(lent().logs.front().server, lent().owner);
    EXPECT_EQ(bench.cluster().read(lent()), kWritten + kAdded);
    EXPECT_EQ(bench.life().map.inconsistency(), std::nullopt);
  }

  TabletId lent_;
};

TEST_F(RecoveriesOfLent, TheNewOwnerReplaysTheFormerOnesLogOverItsOwn) {
  killNow(first);
  ASSERT_TRUE(untilRecovered({first}));
  expectAllIsAt({second});
  EXPECT_EQ(lent().logs.front(), (LogRef{second, SegmentId(9)})) << "from where it began";
}

// It takes what has arrived into its log before it begins. While that finds no places, only more servers help.
TEST_F(RecoveriesOfLent, WhatIsMissingOfPlacesIsSaidWhileTheNewOwnerHasNotBegun) {
  bench.cluster().arrivals_lack_places = true;
  killNow(first);
  const auto missing = [&] {
    const std::vector<RecoveryReport> reports = bench.life().recoveries.reports();
    return reports.empty() ? MissingPlaces{} : reports.front().missing_places;
  };
  bench.passRenewing(40 * kSecond);
  EXPECT_NE(missing().servers, 0u);
  EXPECT_TRUE(lent().isLent() || lent().state == TabletState::Recovering);
  EXPECT_FALSE(isRecovered(first));
  bench.cluster().arrivals_lack_places = false;
  ASSERT_TRUE(untilRecovered({first}));
  expectAllIsAt({second});
}

// Recoveries run one at a time, and that of the new owner comes before that of the third server. All that is left of it
// is in the former owner's log, too.
TEST_F(RecoveriesOfLent, WhileTheLogOfOneOfTheTwoIsWaitedForOthersHaveTheirTurn) {
  FakeCluster& cluster = bench.cluster();
  bench.create("other", 8);
  for (const ServerId backup : {third, fourth}) cluster.machine(backup).replicas.erase(first);
  for (const uint64_t backup : {5, 6}) bench.addBackup(backup);
  for (const ServerId dead : {second, third}) cluster.keepLog(dead, {fourth, ServerId(5)});
  cluster.masters_with_places = 0;
  for (const ServerId dead : {first, second, third}) killNow(dead);
  ASSERT_TRUE(runRenewing([&] { return cluster.given_up_count >= 2; }));
  cluster.masters_with_places = SIZE_MAX;
  ASSERT_TRUE(runRenewing([&] { return isRecovered(third); }));
  EXPECT_TRUE(lent().isLent());
  EXPECT_FALSE(isRecovered(first));
}

TEST_F(RecoveriesOfLent, TheFormerOwnerReplaysTheNewOnesLogOverItsOwn) {
  killNow(second);
  ASSERT_TRUE(untilRecovered({second}));
  expectAllIsAt({first});
  EXPECT_EQ(lent().logs.front(), (LogRef{first, SegmentId(1)})) << "from where it began";
}

// What the survivor has replayed of the other log stays in its own one. So that log is not read in part afterwards.
TEST_F(RecoveriesOfLent, WhatTheSurvivorWasToldToReadIsReadAgain) {
  const auto end = [&](ServerId backup) -> Replica& {
    return bench.cluster().machine(backup).replicas.at(second).back();
  };
  bench.cluster().keepLog(second, {third, fourth});
  end(third).length_bytes = 700;
  end(fourth).length_bytes = 600;
  bench.cluster().machine(first).pull_failure = Status::RetryLater;  // it does not come to an end
  killNow(second);
  ASSERT_TRUE(runRenewing([&] {
    return std::ranges::any_of(bench.cluster().orders, [](const RecoveryOrder& one) { return one.is_survivor; });
  }));
  const RecoveryOrder& order = bench.cluster().orders.back();
  ASSERT_EQ(order.segments.size(), 3u);
  EXPECT_EQ(order.segments[2].replicas, (std::vector<wire::ReplicaVersion>{{.epoch = 1, .length_bytes = 600}}));
  const std::vector<ReadSegment> read{{SegmentId(3), 600}};
  EXPECT_EQ(bench.life().membership.find(second)->read, read);
  bench.restart();
  EXPECT_EQ(bench.life().membership.find(second)->read, read);
  for (const ServerId backup : {third, fourth}) bench.cluster().machine(backup).replicas.erase(second);
  const ServerId fifth = bench.addBackup(5);
  bench.cluster().keepLog(second, {fifth});
  end(fifth).length_bytes = 599;
  killNow(first);
  bench.passRenewing(10 * kSecond);
  EXPECT_TRUE(lent().isLent()) << "a replica is there, and it ends before what was read";
  const ServerId sixth = bench.addBackup(6);
  bench.cluster().keepLog(second, {sixth});
  end(sixth).length_bytes = 601;
  ASSERT_TRUE(untilRecovered({first, second}));
  expectAllIsAt({third, fourth, fifth, sixth});
}

TEST_F(RecoveriesOfLent, IfBothAreDeadOneServerReplaysBothLogsTogether) {
  killNow(first);
  killNow(second);
  ASSERT_TRUE(untilRecovered({first, second}));
  expectAllIsAt({third, fourth});
  size_t of_both = 0;
  for (const RecoveryOrder& order : bench.cluster().orders) of_both += order.second ? 1 : 0;
  EXPECT_GE(of_both, 1u);
}

TEST_F(RecoveriesOfLent, IfBothAreDeadBothLogsHaveToBeWhole) {
  bench.cluster().machine(third).replicas[first].erase(bench.cluster().machine(third).replicas[first].begin());
  bench.cluster().machine(fourth).replicas[first].erase(bench.cluster().machine(fourth).replicas[first].begin());
  killNow(first);
  killNow(second);
  for (int i = 0; i < 2'000; ++i) {
    bench.renewAll();
    bench.pass(5 * kMilli);
  }
  EXPECT_EQ(lent().owner, second) << "a part of its contents is missing";
  EXPECT_FALSE(isRecovered(first) || isRecovered(second));
  const ServerId fifth = bench.addBackup(5);
  bench.cluster().keepLog(first, {fifth});
  ASSERT_TRUE(untilRecovered({first, second}));
  expectAllIsAt({third, fourth, fifth});
}

/// The second verdict may come while it is being stored who recovers for the first.
TEST_F(RecoveriesOfLent, TheOtherOneMayDieAtAnyMoment) {
  for (int64_t later_ns = 0; later_ns < 60 * kMilli && !HasFailure(); later_ns += kMilli / 4) {
    Bench fresh;
    build(fresh);
    const TabletId id = lend(fresh);
    fresh.cluster().machine(first).up = false;
    ASSERT_EQ(fresh.goodbye(first), Status::Ok);
    fresh.pass(later_ns);
    fresh.cluster().machine(second).up = false;
    ASSERT_EQ(fresh.goodbye(second), Status::Ok);
    fresh.passRenewing(8 * kSecond);
    const Tablet tablet = *fresh.life().map.findTablet(id);
    EXPECT_TRUE(tablet.owner == third || tablet.owner == fourth) << later_ns << ": " << tablet.owner.value;
    EXPECT_EQ(tablet.logs.size(), 1u) << later_ns;
    EXPECT_EQ(fresh.cluster().read(tablet), kWritten + kAdded) << later_ns;
  }
}

/// Whether a server that has none of its contents is to recover the tablet.
bool isGivenToAThird(const Tablet& tablet) {
  return tablet.state == TabletState::Recovering && tablet.logOf(tablet.recovery_master) == nullptr;
}

/// Steps until it is stored that a third server recovers the tablet, both of whose servers are dead.
/// @return whether at that moment the backups are being asked again what they have of the log of `other`
bool isForgottenWhenItIsStored(Bench& bench, TabletId id, ServerId other) {
  const auto is_given = [&] { return isGivenToAThird(*bench.life().map.findTablet(id)); };
  EXPECT_TRUE(bench.runUntil(is_given));
  const std::vector<RecoveryReport> reports = bench.life().recoveries.reports();
  const auto of_other = std::ranges::find(reports, other, &RecoveryReport::server);
  return of_other != reports.end() && !of_other->away.empty();
}

/// The recovery of the first server's other tablets fails again and again. Each time all backups are asked anew what
/// they have of its log, also in the moment in which it is stored who recovers the tablet of both servers.
TEST_F(RecoveriesOfLent, WhatWasKnownOfBothLogsWhenItWasDecidedIsSent) {
  size_t forgotten = 0;
  for (uint64_t seed = 1; seed <= 1'000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Bench fresh({.seed = seed});
    build(fresh);
    const TabletId id = lend(fresh);
    fresh.cluster().fails_for = first;
    fresh.cluster().machine(first).up = false;
    ASSERT_EQ(fresh.goodbye(first), Status::Ok);
    fresh.pass(static_cast<int64_t>(seed % 40) * kMilli);
    fresh.cluster().machine(second).up = false;
    ASSERT_EQ(fresh.goodbye(second), Status::Ok);
    forgotten += isForgottenWhenItIsStored(fresh, id, first) ? 1 : 0;
    fresh.cluster().fails_for = {};
    fresh.passRenewing(8 * kSecond);
    const Tablet tablet = *fresh.life().map.findTablet(id);
    EXPECT_TRUE(tablet.owner == third || tablet.owner == fourth) << tablet.owner.value;
    EXPECT_EQ(fresh.cluster().read(tablet), kWritten + kAdded);
    for (const RecoveryOrder& order : fresh.cluster().orders) {
      if (order.second) EXPECT_FALSE(order.is_salvage || order.second->is_salvage);
    }
  }
  EXPECT_GE(forgotten, 5u) << "the moment that this is about";
}

void carryOnAfter(ServerId dies) {
  struct Interrupted {
    TabletId id;
    std::function<bool(Bench&)> done;
  };
  crashEverywhere(
      [dies](Bench& fresh) {
        RecoveriesOfLent::build(fresh);
        Interrupted interrupted{.id = RecoveriesOfLent::lend(fresh),
                                .done = [dies](Bench& at) { return at.life().membership.find(dies)->recovered; }};
        fresh.cluster().machine(dies).up = false;
        EXPECT_EQ(fresh.goodbye(dies), Status::Ok);
        return interrupted;
      },
      [dies](Bench& fresh, const Interrupted& interrupted) {
        fresh.passRenewing(3 * kSecond);
        const Tablet tablet = *fresh.life().map.findTablet(interrupted.id);
        EXPECT_EQ(tablet.owner, dies == ServerId(1) ? ServerId(2) : ServerId(1));
        EXPECT_EQ(tablet.state, TabletState::Normal);
        EXPECT_EQ(tablet.logs.size(), 1u);
        EXPECT_EQ(fresh.cluster().read(tablet), RecoveriesOfLent::kWritten + RecoveriesOfLent::kAdded);
      });
}

TEST(Restart, TheRecoveryOverTheNewOwnerGoesOn) { carryOnAfter(ServerId(1)); }
TEST(Restart, TheRecoveryOverTheFormerOwnerGoesOn) { carryOnAfter(ServerId(2)); }

}  // namespace
}  // namespace ramcore::coordinator
