#include "master/migration/priority_pulls.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "runtime/sim/sim_executor.h"
#include "runtime/task.h"

namespace ramcore::master {
namespace {

using Hashes = std::vector<KeyHash>;
constexpr TabletId kTablet{3};

class PriorityPullsTest : public ::testing::Test, private PriorityPulls::Listener {
 protected:
  ~PriorityPullsTest() override {
    pulls.close(kTablet, Status::Shutdown);
    run();
  }

  /// What a call was told; none while it waits.
  using Told = std::shared_ptr<std::optional<Status>>;
  Told wait(KeyHash hash, TabletId tablet = kTablet) {
    auto told = std::make_shared<std::optional<Status>>();
    begin(tablet, hash, told);
    run();
    return told;
  }
  runtime::Detached begin(TabletId tablet, KeyHash hash, Told told) {
    const Status status = co_await pulls.wait(executor, tablet, hash);
    *told = status;
  }
  void run() { scheduler.runUntilIdle(1'000'000); }
  Hashes wanted(size_t count_max = 64) { return pulls.takeWanted(kTablet, count_max, clock.nowNs()).hashes; }
  runtime::Detached beginAll(std::vector<PriorityPulls::Wanted> all, Told told) {
    const Status status = co_await pulls.waitForAll(executor, all);
    *told = status;
  }
  runtime::Detached beginPiece(KeyHash first, std::shared_ptr<std::optional<PriorityPulls::Piece>> told) {
    const PriorityPulls::Piece piece = co_await pulls.waitForPiece(executor, kTablet, first);
    *told = piece;
  }

  runtime::SimScheduler scheduler{1};
  runtime::SimClock clock{scheduler, "server", {}};
  runtime::SimExecutor executor{scheduler, clock, "server"};
  PriorityPulls pulls{*this};
  int told_count = 0;

 private:
  void onWanted(TabletId tablet) override {
    EXPECT_EQ(tablet, kTablet);
    ++told_count;
  }
};

TEST_F(PriorityPullsTest, NobodyWaitsForATabletThatDoesNotArrive) {
  EXPECT_EQ(*wait(5), Status::RetryLater);
  pulls.open(kTablet);
  EXPECT_EQ(*wait(5, TabletId(4)), Status::RetryLater);
  EXPECT_EQ(told_count, 0);
  EXPECT_EQ(pulls.stats().refused.load(), 2u);
}

TEST_F(PriorityPullsTest, HashesAreAskedForOnceAndInOrder) {
  pulls.open(kTablet);
  const Told first = wait(9);
  const Told second = wait(5);
  const Told third = wait(9);
  EXPECT_EQ(told_count, 1) << "the listener looks again by itself";
  EXPECT_EQ(pulls.stats().waiting.load(), 3u);
  EXPECT_EQ(wanted(), (Hashes{5, 9}));
  pulls.release(kTablet, {9}, Status::Ok);
  run();
  EXPECT_EQ(*first, Status::Ok);
  EXPECT_EQ(*third, Status::Ok);
  EXPECT_FALSE(*second);
  EXPECT_EQ(wanted(), (Hashes{5})) << "what was not answered is asked for again";
  pulls.release(kTablet, {5}, Status::RetryLater);
  run();
  EXPECT_EQ(*second, Status::RetryLater);
  EXPECT_EQ(pulls.stats().waiting.load(), 0u);
}

TEST_F(PriorityPullsTest, ThoseThatHaveWaitedLongestGoFirst) {
  pulls.open(kTablet);
  std::vector<Told> told;
  for (const KeyHash hash : {50, 40, 30, 20, 10}) told.push_back(wait(hash));
  EXPECT_EQ(wanted(2), (Hashes{40, 50}));
}

TEST_F(PriorityPullsTest, TheListenerIsToldAgainAfterItFoundNothing) {
  pulls.open(kTablet);
  const Told first = wait(1);
  EXPECT_EQ(wanted(), (Hashes{1}));
  pulls.release(kTablet, {1}, Status::Ok);
  const Told second = wait(2);
  EXPECT_EQ(told_count, 1) << "it looks once more when it is through with the first";
  EXPECT_EQ(wanted(), (Hashes{2}));
  pulls.release(kTablet, {2}, Status::Ok);
  EXPECT_EQ(wanted(), Hashes{});
  const Told third = wait(3);
  EXPECT_EQ(told_count, 2);
}

TEST_F(PriorityPullsTest, NobodyWaitsLongerThanTheBound) {
  pulls.open(kTablet);
  const Told early = wait(1);
  scheduler.runUntil(scheduler.nowNs() + PriorityPulls::kWaitNs / 2, 1'000'000);
  const Told late = wait(2);
  scheduler.runUntil(scheduler.nowNs() + PriorityPulls::kWaitNs * 6 / 10, 1'000'000);
  EXPECT_EQ(wanted(), (Hashes{2}));
  run();
  EXPECT_EQ(*early, Status::RetryLater);
  EXPECT_FALSE(*late);
  EXPECT_EQ(pulls.stats().refused.load(), 1u);
}

TEST_F(PriorityPullsTest, OnlySoManyWait) {
  pulls.open(kTablet);
  std::vector<Told> told;
  for (size_t i = 0; i < PriorityPulls::kWaitingMax; ++i) {
    told.push_back(std::make_shared<std::optional<Status>>());
    begin(kTablet, i, told.back());
  }
  EXPECT_EQ(*wait(77), Status::RetryLater);
  pulls.release(kTablet, {5}, Status::Ok);
  run();
  EXPECT_EQ(*told[5], Status::Ok);
  EXPECT_FALSE(*wait(77)) << "there is room again";
}

TEST_F(PriorityPullsTest, SeveralAreWaitedForTogether) {
  constexpr TabletId kOther{4};
  pulls.open(kTablet);
  const auto refused = std::make_shared<std::optional<Status>>();
  beginAll({{kTablet, 1}, {kOther, 2}}, refused);
  run();
  EXPECT_EQ(*refused, Status::RetryLater) << "nothing arrives for the other one";
  EXPECT_EQ(wanted(), Hashes{}) << "nothing is left of it";
  const auto told = std::make_shared<std::optional<Status>>();
  beginAll({{kTablet, 9}, {kTablet, 5}, {kTablet, 9}, {kTablet, 7}}, told);
  run();
  EXPECT_EQ(pulls.stats().waiting.load(), 1u) << "one call";
  EXPECT_EQ(wanted(), (Hashes{5, 7, 9}));
  pulls.release(kTablet, {5, 9}, Status::Ok);
  run();
  EXPECT_FALSE(*told);
  pulls.release(kTablet, {7}, Status::Ok);
  run();
  EXPECT_EQ(*told, Status::Ok);
  const auto late = std::make_shared<std::optional<Status>>();
  beginAll({{kTablet, 5}, {kTablet, 7}}, late);
  pulls.release(kTablet, {5}, Status::RetryLater);
  pulls.release(kTablet, {7}, Status::Ok);
  run();
  EXPECT_EQ(*late, Status::RetryLater) << "one of them has not come";
}

TEST_F(PriorityPullsTest, AScanWaitsForAPiece) {
  pulls.open(kTablet);
  const auto told = std::make_shared<std::optional<PriorityPulls::Piece>>();
  beginPiece(100, told);
  const Told hash = wait(100);
  EXPECT_EQ(told_count, 1);
  const PriorityPulls::Batch batch = pulls.takeWanted(kTablet, 64, clock.nowNs());
  EXPECT_EQ(batch.hashes, (Hashes{100}));
  EXPECT_EQ(batch.piece, 100u);
  pulls.release(kTablet, {100}, Status::Ok);
  run();
  EXPECT_EQ(*hash, Status::Ok);
  EXPECT_FALSE(*told) << "one hash is not a piece";
  EXPECT_FALSE(pulls.takeWanted(kTablet, 64, clock.nowNs()).isEmpty());
  pulls.releasePiece(kTablet, 100, {Status::Ok, 250});
  run();
  ASSERT_TRUE(*told);
  EXPECT_EQ((*told)->status, Status::Ok);
  EXPECT_EQ((*told)->last, 250u);
  EXPECT_TRUE(pulls.takeWanted(kTablet, 64, clock.nowNs()).isEmpty());
}

TEST_F(PriorityPullsTest, TheEndReleasesAll) {
  pulls.open(kTablet);
  const Told first = wait(1);
  const Told second = wait(2);
  pulls.close(kTablet, Status::Ok);
  run();
  EXPECT_EQ(*first, Status::Ok);
  EXPECT_EQ(*second, Status::Ok);
  EXPECT_EQ(*wait(3), Status::RetryLater);
  EXPECT_EQ(wanted(), Hashes{});
}

}  // namespace
}  // namespace ramcore::master
