// A coordinator whose disk is full says so, and goes on by itself once there is room.
#include "unit/coordinator/coordinator_fixture.h"

namespace ramcore::coordinator {
namespace {

TEST(FullDisk, IsToldToWhoeverWantsAChange) {
  Bench bench;
  bench.addServer(1);
  EXPECT_FALSE(bench.life().journal.isFull());
  bench.disk().setFull(true);
  EXPECT_EQ(bench.create("t", 1).status, Status::CoordinatorFull);
  EXPECT_TRUE(bench.life().journal.isFull());
  bench.disk().setFull(false);
  EXPECT_EQ(bench.create("t", 1).status, Status::Ok);
  EXPECT_FALSE(bench.life().journal.isFull());
}

TEST(FullDisk, RoomIsNoticedAlsoWhenNobodyWantsAChange) {
  Bench bench;
  bench.addServer(1);
  bench.disk().setFull(true);
  EXPECT_EQ(bench.create("t", 1).status, Status::CoordinatorFull);
  bench.disk().setFull(false);
  bench.pass(6 * kSecond);
  EXPECT_FALSE(bench.life().journal.isFull());
}

// The intent to make the table is stored, and then the disk is full: a caller that waits is told why, long before its
// time is over.
TEST(FullDisk, IsToldToWhoeverWaitsForTheEndOfAChange) {
  Bench bench;
  const ServerId server = bench.addServer(1);
  bench.cluster().machine(server).up = false;
  EXPECT_EQ(bench.run(Bench::createOn(bench.life(), "t", 1, 77, kSecond)).status, Status::OutcomeUnknown);
  bench.disk().setFull(true);
  bench.cluster().machine(server).up = true;
  bench.renewAll();
  const int64_t before_ns = bench.nowNs();
  EXPECT_EQ(bench.create("t", 1, 77).status, Status::CoordinatorFull);
  EXPECT_LT(bench.nowNs() - before_ns, 10 * kSecond);
  bench.disk().setFull(false);
  bench.renewAll();
  EXPECT_EQ(bench.create("t", 1, 77).status, Status::Ok);
}

}  // namespace
}  // namespace ramcore::coordinator
