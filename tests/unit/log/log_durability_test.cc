#include "log/log_durability.h"

#include <gtest/gtest.h>

#include <optional>

namespace ramcore::log {
namespace {

struct DurabilityFixture {
  DurabilityFixture() : memory(LogMemory::open(config.memory_bytes).value()), pool(config, *memory) {}
  LogConfig config = LogConfig::forTest();
  std::unique_ptr<LogMemory> memory;
  SegmentPool pool;
  NoReplicator replicator;
  LogLock lock;
  LogDurability durability{pool, replicator, lock};
};

struct OutcomeWaiter : DurableWaiter {
  OutcomeWaiter() {
    run = [](DurableWaiter& self, Status status) { static_cast<OutcomeWaiter&>(self).outcome = status; };
  }
  std::optional<Status> outcome;
};

TEST(LogDurability, NothingInAHeadIsDurableBeforeItsPredecessorIsClosed) {
  DurabilityFixture fixture;
  Segment& old = *fixture.pool.allocate(SegmentKind::Head, SegmentId(1));
  Segment& head = *fixture.pool.allocate(SegmentKind::Head, SegmentId(2));
  OutcomeWaiter waiter;
  ASSERT_TRUE(fixture.durability.notifyDurable({SegmentId(2), 64, 0}, waiter));
  DurableWaiters ready;
  {
    LogGuard guard(fixture.lock);
    fixture.durability.noteCommitted(old, 128, true);
    fixture.durability.noteCommitted(head, 64, false);
    fixture.durability.refresh(&head, &old, ready);
  }
  EXPECT_TRUE(ready.empty());
  EXPECT_EQ(fixture.durability.durableUpTo(), (LogPosition{SegmentId(1), 128, 0}));
  {
    LogGuard guard(fixture.lock);
    fixture.durability.refresh(&head, nullptr, ready);
  }
  ready.runAll(Status::Ok);
  EXPECT_EQ(waiter.outcome, Status::Ok);
  EXPECT_TRUE(fixture.durability.isFlushed({SegmentId(2), 64, 0})) << "without replicas both are the same";
  EXPECT_FALSE(fixture.durability.isDurable({SegmentId(2), 72, 0}));
}

TEST(LogDurability, AFailureCallsWhoWaitsAndWhoComesLater) {
  DurabilityFixture fixture;
  OutcomeWaiter early;
  OutcomeWaiter gone;
  ASSERT_TRUE(fixture.durability.notifyDurable({SegmentId(1), 8, 0}, early));
  ASSERT_TRUE(fixture.durability.notifyFlushed({SegmentId(1), 8, 0}, gone));
  EXPECT_TRUE(fixture.durability.cancelNotification(gone));
  fixture.durability.fail(Status::Fenced);
  fixture.durability.fail(Status::Shutdown);
  EXPECT_EQ(fixture.durability.failure(), Status::Fenced);
  EXPECT_EQ(early.outcome, Status::Fenced);
  EXPECT_FALSE(gone.outcome.has_value());
  OutcomeWaiter late;
  ASSERT_TRUE(fixture.durability.notifyDurable({SegmentId(1), 8, 0}, late));
  EXPECT_EQ(late.outcome, Status::Fenced);
}

}  // namespace
}  // namespace ramcore::log
