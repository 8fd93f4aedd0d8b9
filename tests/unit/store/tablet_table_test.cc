#include "store/tablet_table.h"

#include <gtest/gtest.h>

#include "runtime/sim/sim_epoch.h"

namespace ramcore::store {
namespace {

constexpr KeyHash kLast = ~uint64_t{0};

class TabletTableTest : public ::testing::Test {
 protected:
  ~TabletTableTest() override { rcu_.drain(); }

  static Tablet make(uint64_t id, uint32_t table, KeyHash first, KeyHash last, uint64_t epoch = 1) {
    Tablet tablet;
    tablet.id = TabletId(id);
    tablet.table = TableId(table);
    tablet.range = {first, last};
    tablet.epoch = TabletEpoch(epoch);
    return tablet;
  }
  uint64_t idAt(uint32_t table, KeyHash hash) const {
    const Tablet* found = tablets_.find(TableId(table), hash);
    return found != nullptr ? found->id.value : 0;
  }
  Status check(KeyHash hash, uint64_t epoch, Access access) const {
    const Tablet* tablet = nullptr;
    const Status status = tablets_.check(TableId(1), hash, TabletEpoch(epoch), access, tablet);
    EXPECT_EQ(tablet != nullptr, status == Status::Ok);
    return status;
  }

  runtime::SimRcu rcu_;
  TabletTable tablets_{rcu_};
};

TEST_F(TabletTableTest, EmptyHoldsNothing) {
  EXPECT_EQ(idAt(1, 0), 0u);
  EXPECT_EQ(check(0, 1, Access::Read), Status::WrongServer);
  EXPECT_FALSE(tablets_.get(TabletId(1)));
  EXPECT_EQ(tablets_.remove(TabletId(1)), Status::NotFound);
  EXPECT_TRUE(tablets_.list().empty());
}

TEST_F(TabletTableTest, ATabletThatArrivesIsServedAsFarAsItHasArrivedWhenNothingMoreComes) {
  Tablet tablet = make(1, 1, 0, kLast, 4);
  tablet.state = TabletState::Pulling;
  ASSERT_EQ(tablets_.add(tablet), Status::Ok);
  EXPECT_EQ(check(5, 4, Access::Read), Status::RetryLater);
  const auto arriving = std::make_shared<ArrivingRange>(tablet.range, SegmentId(9));
  ASSERT_EQ(tablets_.arrive(TabletId(1), TabletEpoch(4), arriving), Status::Ok);
  EXPECT_EQ(tablets_.arrive(TabletId(1), TabletEpoch(4), arriving), Status::NotFound) << "not Pulling any more";
  // What has not arrived can be waited for.
  EXPECT_EQ(check(5, 4, Access::Read), Status::Ok);
  EXPECT_EQ(check(5, 4, Access::Mutate), Status::Ok);
  EXPECT_EQ(check(5, 3, Access::Read), Status::StaleEpoch);
  EXPECT_FALSE(tablets_.find(TableId(1), 5)->hasArrived(5));
  arriving->advance(0, 100);
  arriving->close();
  EXPECT_EQ(check(99, 4, Access::Read), Status::Ok);
  EXPECT_EQ(check(99, 4, Access::Mutate), Status::Ok);
  EXPECT_EQ(check(100, 4, Access::Read), Status::RetryLater);
  EXPECT_EQ(check(100, 4, Access::Mutate), Status::RetryLater);
  ASSERT_EQ(tablets_.update(TabletId(1), TabletEpoch(4), TabletState::Normal, SegmentId(2)), Status::Ok);
  EXPECT_EQ(check(100, 4, Access::Mutate), Status::Ok);
  EXPECT_TRUE(tablets_.find(TableId(1), 100)->hasArrived(100));
}

TEST_F(TabletTableTest, WhatIsLentIsAnsweredByTheOtherServer) {
  ASSERT_EQ(tablets_.add(make(1, 1, 0, kLast, 4)), Status::Ok);
  ASSERT_EQ(tablets_.update(TabletId(1), TabletEpoch(4), TabletState::Lent, SegmentId(2)), Status::Ok);
  EXPECT_EQ(check(5, 4, Access::Read), Status::WrongServer);
  EXPECT_EQ(check(5, 4, Access::Mutate), Status::WrongServer);
  EXPECT_EQ(idAt(1, 5), 1u) << "it is kept";
}

TEST_F(TabletTableTest, FindsByTableAndClosedRange) {
  ASSERT_EQ(tablets_.add(make(3, 2, 0, kLast)), Status::Ok);
  ASSERT_EQ(tablets_.add(make(1, 1, 100, 199)), Status::Ok);
  ASSERT_EQ(tablets_.add(make(2, 1, 300, kLast)), Status::Ok);
  EXPECT_EQ(idAt(1, 99), 0u);
  EXPECT_EQ(idAt(1, 100), 1u);
  EXPECT_EQ(idAt(1, 199), 1u);
  EXPECT_EQ(idAt(1, 200), 0u);
  EXPECT_EQ(idAt(1, 299), 0u);
  EXPECT_EQ(idAt(1, 300), 2u);
  EXPECT_EQ(idAt(1, kLast), 2u);
  EXPECT_EQ(idAt(2, 0), 3u);
  EXPECT_EQ(idAt(2, kLast), 3u);
  EXPECT_EQ(idAt(3, 0), 0u);
  EXPECT_EQ(idAt(0, kLast), 0u);
}

TEST_F(TabletTableTest, RefusesOverlapsAndIdsTwice) {
  ASSERT_EQ(tablets_.add(make(1, 1, 100, 199)), Status::Ok);
  EXPECT_EQ(tablets_.add(make(1, 1, 100, 199)), Status::Ok) << "repeated";
  EXPECT_EQ(tablets_.add(make(1, 1, 100, 199, 2)), Status::BadRequest) << "another epoch is no repetition";
  EXPECT_EQ(tablets_.add(make(1, 1, 500, 600)), Status::BadRequest);
  EXPECT_EQ(tablets_.add(make(2, 1, 199, 300)), Status::BadRequest);
  EXPECT_EQ(tablets_.add(make(2, 1, 0, 100)), Status::BadRequest);
  EXPECT_EQ(tablets_.add(make(2, 1, 120, 130)), Status::BadRequest);
  EXPECT_EQ(tablets_.add(make(2, 1, 0, kLast)), Status::BadRequest);
  EXPECT_EQ(tablets_.add(make(2, 2, 100, 199)), Status::Ok) << "another table";
  EXPECT_EQ(tablets_.list().size(), 2u);
}

TEST_F(TabletTableTest, OnlyItsOwnEpochIsAnswered) {
  ASSERT_EQ(tablets_.add(make(1, 1, 0, kLast, 5)), Status::Ok);
  EXPECT_EQ(check(7, 5, Access::Read), Status::Ok);
  EXPECT_EQ(check(7, 5, Access::Mutate), Status::Ok);
  EXPECT_EQ(check(7, 4, Access::Read), Status::StaleEpoch);
  EXPECT_EQ(check(7, 0, Access::Mutate), Status::StaleEpoch);
  EXPECT_EQ(check(7, 6, Access::Read), Status::RetryLater) << "the client knows more than this server";
}

TEST_F(TabletTableTest, StatesDecideWhatIsAnswered) {
  ASSERT_EQ(tablets_.add(make(1, 1, 0, kLast)), Status::Ok);
  ASSERT_EQ(tablets_.update(TabletId(1), TabletEpoch(1), TabletState::Frozen, SegmentId(9)), Status::Ok);
  EXPECT_EQ(check(0, 1, Access::Read), Status::Ok);
  EXPECT_EQ(check(0, 1, Access::Mutate), Status::RetryLater);
  ASSERT_EQ(tablets_.update(TabletId(1), TabletEpoch(1), TabletState::Pulling, SegmentId(9)), Status::Ok);
  EXPECT_EQ(check(0, 1, Access::Read), Status::RetryLater);
  EXPECT_EQ(check(0, 1, Access::Mutate), Status::RetryLater);
  ASSERT_EQ(tablets_.update(TabletId(1), TabletEpoch(2), TabletState::Normal, SegmentId(10)), Status::Ok);
  EXPECT_EQ(check(0, 1, Access::Read), Status::StaleEpoch);
  EXPECT_EQ(check(0, 2, Access::Mutate), Status::Ok);
  EXPECT_EQ(tablets_.get(TabletId(1))->first_segment, SegmentId(10));
  EXPECT_EQ(tablets_.update(TabletId(2), TabletEpoch(1), TabletState::Normal, {}), Status::NotFound);
}

TEST_F(TabletTableTest, SplitsIntoHalvesThatInherit) {
  ASSERT_EQ(tablets_.add(make(1, 1, 100, 199)), Status::Ok);
  ASSERT_EQ(tablets_.update(TabletId(1), TabletEpoch(1), TabletState::Frozen, SegmentId(9)), Status::Ok);
  ASSERT_EQ(tablets_.split(TabletId(1), make(2, 1, 100, 149, 2), make(3, 1, 150, 199, 2)), Status::Ok);
  EXPECT_FALSE(tablets_.get(TabletId(1)));
  EXPECT_EQ(idAt(1, 149), 2u);
  EXPECT_EQ(idAt(1, 150), 3u);
  for (const uint64_t id : {2, 3}) {
    EXPECT_EQ(tablets_.get(TabletId(id))->state, TabletState::Frozen);
    EXPECT_EQ(tablets_.get(TabletId(id))->first_segment, SegmentId(9));
    EXPECT_EQ(tablets_.get(TabletId(id))->epoch, TabletEpoch(2));
    EXPECT_NE(tablets_.get(TabletId(id))->counters, nullptr);
  }
}

TEST_F(TabletTableTest, RefusesSplitsThatDoNotCoverTheRange) {
  ASSERT_EQ(tablets_.add(make(1, 1, 100, 199)), Status::Ok);
  EXPECT_EQ(tablets_.split(TabletId(1), make(2, 1, 100, 148), make(3, 1, 150, 199)), Status::BadRequest) << "a gap";
  EXPECT_EQ(tablets_.split(TabletId(1), make(2, 1, 100, 150), make(3, 1, 150, 199)), Status::BadRequest) << "overlap";
  EXPECT_EQ(tablets_.split(TabletId(1), make(2, 1, 99, 149), make(3, 1, 150, 199)), Status::BadRequest);
  EXPECT_EQ(tablets_.split(TabletId(1), make(2, 1, 100, 149), make(3, 1, 150, 200)), Status::BadRequest);
  EXPECT_EQ(tablets_.split(TabletId(1), make(2, 2, 100, 149), make(3, 2, 150, 199)), Status::BadRequest);
  // An empty half whose other end wraps around.
  EXPECT_EQ(tablets_.split(TabletId(1), make(2, 1, 100, 99), make(3, 1, 100, 199)), Status::BadRequest);
  EXPECT_EQ(tablets_.split(TabletId(9), make(2, 1, 100, 149), make(3, 1, 150, 199)), Status::NotFound);
  EXPECT_EQ(idAt(1, 150), 1u) << "nothing has changed";
}

TEST_F(TabletTableTest, ReadersKeepWhatTheyFoundUntilTheyAreQuiescent) {
  ASSERT_EQ(tablets_.add(make(1, 1, 0, kLast)), Status::Ok);
  rcu_.drain();
  const runtime::RcuReader reader = rcu_.registerThread();
  const Tablet* found = tablets_.find(TableId(1), 5);
  ASSERT_NE(found, nullptr);
  ASSERT_EQ(tablets_.remove(TabletId(1)), Status::Ok);
  for (int i = 0; i < 3; ++i) rcu_.reclaim(100);
  EXPECT_EQ(found->id, TabletId(1)) << "AddressSanitizer watches";
  EXPECT_TRUE(rcu_.pending());
  EXPECT_EQ(idAt(1, 5), 0u);
  rcu_.unregisterThread(reader);
}

}  // namespace
}  // namespace ramcore::store
