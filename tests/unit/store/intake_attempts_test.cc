#include "store/intake_attempts.h"

#include <gtest/gtest.h>

namespace ramcore::store {
namespace {

class IntakeAttemptsTest : public ::testing::Test {
 protected:
  std::shared_ptr<IntakeAttempt> attempt(std::initializer_list<uint64_t> tablets, uint64_t epoch) {
    auto made = std::make_shared<IntakeAttempt>(attempts_.stopping());
    for (const uint64_t id : tablets) {
      Tablet& tablet = made->parts.emplace_back().tablet;
      tablet.id = TabletId(id);
      tablet.epoch = TabletEpoch(epoch);
    }
    return made;
  }

  IntakeAttempts attempts_{silentTrace()};
};

TEST_F(IntakeAttemptsTest, AnAttemptIsKnownUntilItIsForgotten) {
  const auto made = attempt({1, 2}, 5);
  EXPECT_TRUE(attempts_.claim(made, true).begins());
  EXPECT_FALSE(attempts_.idle());
  made->parts[1].objects = 7;
  EXPECT_FALSE(attempts_.progress(TabletId(2))->done);
  attempts_.end(*made, Status::Ok, "fetching");
  EXPECT_TRUE(attempts_.idle());
  const auto progress = attempts_.progress(TabletId(2));
  ASSERT_TRUE(progress.ok());
  EXPECT_TRUE(progress->done);
  EXPECT_EQ(progress->epoch, TabletEpoch(5));
  EXPECT_EQ(progress->objects, 7U);
  EXPECT_EQ(progress->fraction, 1);
  attempts_.cancel(TabletId(2), TabletEpoch(4));
  EXPECT_EQ(attempts_.find(TabletId(2)), made) << "that was about an older one";
  attempts_.cancel(TabletId(2), TabletEpoch(5));
  EXPECT_EQ(attempts_.progress(TabletId(2)).status(), Status::NotFound);
  EXPECT_EQ(attempts_.find(TabletId(1)), made);
}

TEST_F(IntakeAttemptsTest, AnOlderOneIsGivenUpTabletByTablet) {
  const auto old = attempt({1, 2}, 5);
  ASSERT_TRUE(attempts_.claim(old, true).begins());
  const auto first = attempts_.claim(attempt({1}, 6), true);
  EXPECT_TRUE(first.begins());
  EXPECT_EQ(first.former, old);
  EXPECT_TRUE(old->parts[0].cancelled);
  EXPECT_FALSE(old->ended) << "the other tablet is wanted";
  EXPECT_TRUE(attempts_.claim(attempt({2}, 6), true).begins());
  EXPECT_TRUE(old->ended);
}

TEST_F(IntakeAttemptsTest, NothingIsClaimedBesideTheSameOrANewerOne) {
  const auto known = attempt({1}, 5);
  ASSERT_TRUE(attempts_.claim(known, true).begins());
  const auto again = attempts_.claim(attempt({1, 2}, 5), true);
  EXPECT_FALSE(again.begins());
  EXPECT_EQ(again.same, known);
  EXPECT_EQ(attempts_.claim(attempt({1, 2}, 4), true).status, Status::StaleEpoch);
  EXPECT_EQ(attempts_.find(TabletId(2)), nullptr);
  EXPECT_FALSE(known->ended);
}

TEST_F(IntakeAttemptsTest, ANewerAttemptOfOneTabletRefusesTheOlderAsAWhole) {
  const auto old = attempt({1, 2}, 5);
  ASSERT_TRUE(attempts_.claim(old, true).begins());
  ASSERT_TRUE(attempts_.claim(attempt({2}, 6), true).begins());
  const auto repeated = attempts_.claim(attempt({1, 2}, 5), true);
  EXPECT_EQ(repeated.status, Status::StaleEpoch);
  EXPECT_EQ(repeated.same, nullptr) << "tablet 1 is still that of the older attempt";
  EXPECT_FALSE(repeated.begins());
}

TEST_F(IntakeAttemptsTest, AfterAStopNoneIsWanted) {
  const auto known = attempt({1}, 5);
  ASSERT_TRUE(attempts_.claim(known, true).begins());
  attempts_.stop();
  EXPECT_TRUE(known->ended);
  EXPECT_TRUE(known->patience.stopping);
  EXPECT_EQ(attempts_.claim(attempt({2}, 5), true).status, Status::Shutdown);
  EXPECT_TRUE(attempts_.claim(attempt({2}, 5), false).begins());
}

}  // namespace
}  // namespace ramcore::store
