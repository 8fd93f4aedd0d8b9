// Nothing is given up that nobody agreed to give up: what an operator is shown, what he accepts, and what becomes of
// it.
#include <algorithm>

#include "unit/coordinator/tablets/tablet_checks.h"

namespace ramcore::coordinator {
namespace {

/// Four servers that keep replicas, all tablets of a table on the first. Its log has the segments 1 to 3; the second
/// server has 1 and the end, the fourth all of it.
class RecoveryLoss : public ::testing::Test {
 protected:
  static constexpr uint32_t kTablets = 4;
  static constexpr uint64_t kWritten = 5;

  static void build(Bench& bench) {
    const TableId table(1);
    bench.addBackup(1);
    EXPECT_EQ(bench.create("t", kTablets).id, table);
    for (uint64_t nonce = 2; nonce <= 4; ++nonce) bench.addBackup(nonce);
    for (const Tablet* tablet : bench.life().map.tabletsOf(table)) {
      for (uint64_t i = 0; i < kWritten; ++i) EXPECT_TRUE(bench.cluster().mutate(*tablet));
    }
    bench.cluster().machine(second).replicas[first] = {FakeCluster::closedReplica(1),
                                                       FakeCluster::openReplica(3, 1, {1, 2, 3})};
    bench.cluster().keepLog(first, {fourth});
    bench.renewAll();
  }
  /// The first and the fourth die: segment 2 is missing.
  static void lose(Bench& bench) {
    bench.kill(fourth);
    bench.kill(first);
    bench.passRenewing(3 * kSecond);
  }
  void SetUp() override {
    build(bench);
    lose(bench);
  }

  static std::optional<RecoveryReport> reportOf(Bench& bench) {
    for (RecoveryReport& report : bench.life().recoveries.reports()) {
      if (report.server == first) return std::move(report);
    }
    return std::nullopt;
  }
  RecoveryReport report() {
    const std::optional<RecoveryReport> found = reportOf(bench);
    EXPECT_TRUE(found.has_value());
    return found.value_or(RecoveryReport{});
  }
  void expectBack() {
    EXPECT_TRUE(isQuiet(bench, table));
    expectWhole(bench, table);
    for (const Tablet* tablet : bench.life().map.tabletsOf(table)) {
      EXPECT_TRUE(bench.life().membership.isAlive(tablet->owner));
      EXPECT_EQ(bench.cluster().read(*tablet), kWritten);
    }
    EXPECT_TRUE(bench.life().membership.find(first)->recovered);
    EXPECT_FALSE(reportOf(bench).has_value());
  }
  void expectNothingIsBack() {
    for (const Tablet* tablet : bench.life().map.tabletsOf(table)) EXPECT_EQ(tablet->owner, first);
    EXPECT_TRUE(bench.cluster().orders.empty());
  }
  static std::vector<SegmentId> orderedSegments(const RecoveryOrder& order) {
    std::vector<SegmentId> segments;
    for (const SurveyedSegment& segment : order.segments) segments.push_back(segment.id);
    return segments;
  }

  Bench bench;
  const TableId table{1};
  static constexpr ServerId first{1};
  static constexpr ServerId second{2};
  static constexpr ServerId fourth{4};
};

TEST_F(RecoveryLoss, TheOperatorIsShownWhatWouldBeLost) {
  const RecoveryReport shown = report();
  EXPECT_NE(shown.loss_token, 0u);
  EXPECT_FALSE(shown.loss_accepted);
  EXPECT_EQ(shown.missing, std::vector<SegmentId>{SegmentId(2)});
  EXPECT_EQ(shown.salvage.end, LogEnd::Known);
  EXPECT_EQ(shown.salvage.whole, (std::vector<SegmentId>{SegmentId(1), SegmentId(3)}));
  EXPECT_NE(std::find(shown.away.begin(), shown.away.end(), fourth), shown.away.end());
  const int64_t silent_ns = bench.life().membership.silentForNs(fourth);
  EXPECT_GE(silent_ns, 3 * kSecond);
  EXPECT_LE(silent_ns, bench.nowNs());
  EXPECT_EQ(bench.life().membership.silentForNs(ServerId(99)), -1);
  bench.passRenewing(20 * kSecond);
  EXPECT_EQ(report().loss_token, shown.loss_token) << "nothing has changed";
  expectNothingIsBack();
  bench.restart();
  EXPECT_EQ(bench.life().membership.silentForNs(fourth), -1);
  bench.passRenewing(5 * kSecond);
  EXPECT_EQ(report().loss_token, shown.loss_token) << "nothing has changed";
  expectNothingIsBack();
}

TEST_F(RecoveryLoss, WithAnAcceptanceTheRestComesBack) {
  EXPECT_EQ(bench.acceptLoss(first, report().loss_token), Status::Ok);
  bench.passRenewing(2 * kSecond);
  expectBack();
  ASSERT_FALSE(bench.cluster().orders.empty());
  for (const RecoveryOrder& order : bench.cluster().orders) {
    EXPECT_TRUE(order.is_salvage);
    EXPECT_EQ(orderedSegments(order), (std::vector<SegmentId>{SegmentId(1), SegmentId(3)}));
  }
}

TEST_F(RecoveryLoss, WhatWasNotShownIsNotAccepted) {
  EXPECT_EQ(bench.acceptLoss(first, 0), Status::WrongVersion);
  EXPECT_EQ(bench.acceptLoss(first, report().loss_token + 1), Status::WrongVersion);
  EXPECT_EQ(bench.acceptLoss(second, report().loss_token), Status::NotFound) << "it lives";
  EXPECT_EQ(bench.acceptLoss(ServerId(99), report().loss_token), Status::NotFound);
  bench.passRenewing(5 * kSecond);
  expectNothingIsBack();
  EXPECT_EQ(bench.life().membership.find(first)->accepted_loss.token, 0u);
}

TEST_F(RecoveryLoss, AnAcceptanceOfAnotherSituationIsRefused) {
  const uint64_t before = report().loss_token;
  // The storage of the fourth server is back, without the missing segment.
  const ServerId back = bench.addBackup(5, fourth);
  bench.cluster().machine(back).replicas[first] = {FakeCluster::closedReplica(1)};
  bench.passRenewing(2 * kSecond);
  EXPECT_NE(report().loss_token, before);
  EXPECT_EQ(bench.acceptLoss(first, before), Status::WrongVersion);
  bench.passRenewing(2 * kSecond);
  expectNothingIsBack();
  EXPECT_EQ(bench.acceptLoss(first, report().loss_token), Status::Ok);
  bench.passRenewing(2 * kSecond);
  expectBack();
}

TEST_F(RecoveryLoss, NothingIsAcceptedBeforeAllThatLiveHaveAnswered) {
  const uint64_t before = report().loss_token;
  const ServerId back = bench.addBackup(5, fourth);
  bench.cluster().machine(back).up = false;
  for (int i = 0; i < 10; ++i) {
    bench.renewAll();
    (void)bench.life().membership.renew(back);
    bench.pass(200 * kMilli);
  }
  EXPECT_EQ(report().loss_token, 0u);
  EXPECT_EQ(bench.acceptLoss(first, before), Status::RetryLater);
  EXPECT_EQ(bench.acceptLoss(first, 0), Status::RetryLater);
  expectNothingIsBack();
  // The storage that is back has the missing segment.
  bench.cluster().keepLog(first, {back});
  bench.cluster().machine(back).up = true;
  bench.passRenewing(3 * kSecond);
  expectBack();
  for (const RecoveryOrder& order : bench.cluster().orders) EXPECT_FALSE(order.is_salvage);
}

TEST_F(RecoveryLoss, ACompleteLogIsTakenAlsoAfterAnAcceptance) {
  // No server fetches a tablet while the loss is accepted and the fourth server comes back.
  bench.cluster().pull_failure = Status::Unreachable;
  EXPECT_EQ(bench.acceptLoss(first, report().loss_token), Status::Ok);
  bench.passRenewing(kSecond);
  const size_t salvages = bench.cluster().orders.size();
  EXPECT_NE(salvages, 0u);
  const ServerId back = bench.addBackup(5, fourth);
  bench.cluster().keepLog(first, {back});
  bench.passRenewing(5 * kSecond);
  const size_t before = bench.cluster().orders.size();
  bench.cluster().pull_failure = Status::Ok;
  bench.passRenewing(12 * kSecond);
  expectBack();
  ASSERT_GT(bench.cluster().orders.size(), before);
  for (size_t i = before; i < bench.cluster().orders.size(); ++i) {
    EXPECT_FALSE(bench.cluster().orders[i].is_salvage);
    EXPECT_EQ(orderedSegments(bench.cluster().orders[i]).size(), 3u);
  }
}

TEST_F(RecoveryLoss, MoreThanWasAcceptedIsNotGivenUp) {
  bench.cluster().pull_failure = Status::Unreachable;
  EXPECT_EQ(bench.acceptLoss(first, report().loss_token), Status::Ok);
  bench.passRenewing(kSecond);
  // The server that has the rest of the log dies, too.
  bench.kill(second);
  bench.passRenewing(5 * kSecond);
  bench.cluster().pull_failure = Status::Ok;
  bench.passRenewing(15 * kSecond);
  EXPECT_FALSE(bench.life().membership.find(first)->recovered);
  const RecoveryReport worse = report();
  EXPECT_FALSE(worse.loss_accepted);
  EXPECT_EQ(worse.salvage.end, LogEnd::NoDigest);
  EXPECT_NE(worse.text.find("more is missing than was accepted"), std::string::npos) << worse.text;
  EXPECT_EQ(bench.acceptLoss(first, worse.loss_token), Status::Ok);
  bench.passRenewing(3 * kSecond);
  expectBack();
  EXPECT_TRUE(bench.cluster().orders.back().is_salvage);
  EXPECT_TRUE(bench.cluster().orders.back().segments.empty()) << "nobody has anything";
}

TEST_F(RecoveryLoss, ARepeatedAcceptanceIsOkAlsoAfterwards) {
  const uint64_t token = report().loss_token;
  EXPECT_EQ(bench.acceptLoss(first, token), Status::Ok);
  EXPECT_EQ(bench.acceptLoss(first, token), Status::Ok);
  bench.passRenewing(2 * kSecond);
  expectBack();
  EXPECT_EQ(bench.acceptLoss(first, token), Status::Ok);
  EXPECT_EQ(bench.acceptLoss(first, token + 1), Status::NotFound);
}

// Stored before it is used, and used by the coordinator that comes next.
TEST_F(RecoveryLoss, AnAcceptanceSurvivesTheCoordinatorOrNeverWas) {
  int stored = 0;
  int forgotten = 0;
  bool is_answered = false;
  for (int step = 0; step < 400 && !is_answered; step += 1 + step / 20) {
    SCOPED_TRACE(step);
    Bench other;
    build(other);
    lose(other);
    const uint64_t token = reportOf(other)->loss_token;
    runtime::Task<Status> accepting = Bench::acceptLossOn(other.life(), first, token);
    for (int i = 0; i < step; ++i) (void)other.scheduler().step();
    is_answered = accepting.isDone() && !other.cluster().orders.empty();
    const bool is_ok = accepting.isDone() && accepting.take() == Status::Ok;
    const bool is_used = !other.cluster().orders.empty();
    other.restart();
    const bool is_stored = other.life().membership.find(first)->accepted_loss.token == token;
    EXPECT_TRUE(is_stored || !(is_ok || is_used));
    ++(is_stored ? stored : forgotten);
    other.passRenewing(15 * kSecond);
    EXPECT_EQ(other.life().membership.find(first)->recovered, is_stored);
    if (HasFailure()) return;
  }
  EXPECT_TRUE(is_answered);
  EXPECT_GT(stored, 0);
  EXPECT_GT(forgotten, 0);
}

TEST_F(RecoveryLoss, WithoutReplicasTheTablesComeBackEmpty) {
  Bench other;
  const ServerId alone = other.addServer(1);
  other.create("t", 2);
  other.addServer(2);
  other.kill(alone);
  other.passRenewing(7 * kSecond);
  const std::vector<RecoveryReport> reports = other.life().recoveries.reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_NE(reports[0].loss_token, 0u);
  EXPECT_EQ(other.acceptLoss(alone, reports[0].loss_token), Status::Ok);
  other.passRenewing(2 * kSecond);
  EXPECT_TRUE(other.life().membership.find(alone)->recovered);
  EXPECT_TRUE(other.life().recoveries.reports().empty());
  ASSERT_FALSE(other.cluster().orders.empty());
  EXPECT_TRUE(other.cluster().orders[0].is_salvage && other.cluster().orders[0].segments.empty());
}

}  // namespace
}  // namespace ramcore::coordinator
