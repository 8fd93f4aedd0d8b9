#include "runtime/sim/sim_scheduler.h"

#include <vector>

#include <gtest/gtest.h>

namespace ramcore::runtime {
namespace {

using Stop = SimScheduler::Stop;

TEST(SimScheduler, RunsEventsInTheOrderOfTimeAndThenOfArming) {
  SimScheduler scheduler(1);
  std::vector<int> order;
  scheduler.call(20, [&] { order.push_back(3); });
  scheduler.call(10, [&] { order.push_back(1); });
  scheduler.call(10, [&] { order.push_back(2); });
  EXPECT_EQ(scheduler.runUntilIdle(10), Stop::Idle);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(scheduler.nowNs(), 20);
  EXPECT_EQ(scheduler.eventCount(), 3u);
}

TEST(SimScheduler, TimePassedMeansNow) {
  SimScheduler scheduler(1);
  scheduler.runUntil(100, 10);
  EXPECT_EQ(scheduler.nowNs(), 100);
  int64_t ran_at_ns = 0;
  scheduler.call(50, [&] { ran_at_ns = scheduler.nowNs(); });
  scheduler.runUntilIdle(10);
  EXPECT_EQ(ran_at_ns, 100);
}

TEST(SimScheduler, StopsForTimePredicateAndEventLimit) {
  SimScheduler scheduler(1);
  int runs = 0;
  std::function<void()> again = [&] {
    ++runs;
    scheduler.call(scheduler.nowNs() + 10, again);
  };
  scheduler.call(10, again);
  EXPECT_EQ(scheduler.runUntil(35, 100), Stop::Time);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(scheduler.nowNs(), 35);
  EXPECT_EQ(scheduler.runUntil([&] { return runs == 7; }, 100), Stop::Done);
  EXPECT_EQ(runs, 7);
  EXPECT_EQ(scheduler.runUntilIdle(5), Stop::EventLimit);
  EXPECT_EQ(runs, 12);
}

TEST(SimScheduler, CancelledEventDoesNotRun) {
  SimScheduler scheduler(1);
  struct Event : Timer {
    Event() : Timer([](Timer& timer) { ++static_cast<Event&>(timer).runs; }) {}
    int runs = 0;
  };
  Event kept;
  Event cancelled;
  scheduler.after(kept, 10);
  scheduler.after(cancelled, 5);
  {
    Event destroyed;
    scheduler.after(destroyed, 1);
  }
  cancelled.cancel();
  scheduler.runUntilIdle(10);
  EXPECT_EQ(kept.runs, 1);
  EXPECT_EQ(cancelled.runs, 0);
  EXPECT_EQ(scheduler.eventCount(), 1u);
}

uint64_t hashOf(uint64_t seed, int64_t shift_ns, std::string_view message) {
  SimScheduler scheduler(seed);
  scheduler.call(10 + shift_ns, [&] { scheduler.mix(asBytes(message)); });
  scheduler.runUntilIdle(10);
  return scheduler.traceHash();
}

TEST(SimScheduler, TraceHashTellsRunsApart) {
  EXPECT_EQ(hashOf(1, 0, "a"), hashOf(1, 0, "a"));
  EXPECT_NE(hashOf(1, 0, "a"), hashOf(2, 0, "a"));
  EXPECT_NE(hashOf(1, 0, "a"), hashOf(1, 1, "a"));
  EXPECT_NE(hashOf(1, 0, "a"), hashOf(1, 0, "b"));
}

TEST(SimScheduler, StreamsDependOnSeedAndNameOnly) {
  SimScheduler first(1);
  SimScheduler second(1);
  first.stream("network").next();
  EXPECT_EQ(first.stream("clock").next(), second.stream("clock").next());
  EXPECT_NE(first.stream("clock").next(), first.stream("network").next());
  EXPECT_NE(first.stream("clock").next(), SimScheduler(2).stream("clock").next());
}

}  // namespace
}  // namespace ramcore::runtime
