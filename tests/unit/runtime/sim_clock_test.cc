#include "runtime/sim/sim_clock.h"

#include <string>

#include <gtest/gtest.h>

#include "runtime/sim/sim_node.h"

namespace ramcore::runtime {
namespace {

TEST(SimClock, DriftsWithinWhatLeasesAllowFor) {
  SimScheduler scheduler(3);
  int64_t slowest_ns = kNever;
  int64_t fastest_ns = 0;
  for (int i = 0; i < 200; ++i) {
    SimClock clock(scheduler, "node" + std::to_string(i), {});
    const int64_t start_ns = clock.nowNs();
    const int64_t until_ns = scheduler.nowNs() + kNanosPerSecond;
    scheduler.runUntil(until_ns, 10);
    const int64_t elapsed_ns = clock.nowNs() - start_ns;
    slowest_ns = std::min(slowest_ns, elapsed_ns);
    fastest_ns = std::max(fastest_ns, elapsed_ns);
  }
  EXPECT_LT(fastest_ns, slowest_ns * 105 / 100);
  EXPECT_GT(fastest_ns, slowest_ns * 103 / 100);
}

TEST(SimClock, FindsTheFirstTimeThatShowsALocalTime) {
  SimScheduler scheduler(4);
  Random random(5);
  for (int i = 0; i < 200; ++i) {
    SimClock clock(scheduler, "node" + std::to_string(i), {});
    const int64_t local_ns = clock.nowNs() + 1 + static_cast<int64_t>(random.below(kNanosPerSecond));
    const int64_t time_ns = clock.simTimeOf(local_ns);
    scheduler.runUntil(time_ns - 1, 10);
    EXPECT_LT(clock.nowNs(), local_ns);
    scheduler.runUntil(time_ns, 10);
    EXPECT_GE(clock.nowNs(), local_ns);
  }
  SimClock clock(scheduler, "node", {});
  EXPECT_EQ(clock.simTimeOf(kNever), kNever);
  EXPECT_EQ(clock.simTimeOf(0), 0);
}

TEST(SimClock, WallJumpsWithoutTheSteadyClock) {
  SimScheduler scheduler(6);
  SimClock clock(scheduler, "node", {});
  const int64_t steady_ns = clock.nowNs();
  const int64_t wall_ns = clock.wallNs();
  clock.jumpWall(-kNanosPerSecond);
  EXPECT_EQ(clock.nowNs(), steady_ns);
  EXPECT_EQ(clock.wallNs(), wall_ns - kNanosPerSecond);
}

TEST(SimTrace, LinesCarryTimeAndNodeAndChangeTheHash) {
  SimScheduler scheduler(7);
  SimTraceLog log(scheduler, /*lines_max=*/2);
  SimNode node(scheduler, log, "server1", {});
  std::vector<std::string> printed;
  log.printTo([&](std::string_view line) { printed.emplace_back(line); }, TraceLevel::Warning);
  const uint64_t before = scheduler.traceHash();
  scheduler.runUntil(12 * kNanosPerSecond + 345, 10);
  node.trace().info("one");
  EXPECT_NE(scheduler.traceHash(), before);
  node.trace().debug("not enabled");
  node.trace().warning("two");
  node.trace().error("three");
  EXPECT_EQ(log.lineCount(), 3u);
  EXPECT_EQ(std::vector<std::string>(log.lines().begin(), log.lines().end()),
            (std::vector<std::string>{"12.000000345 server1 warning two", "12.000000345 server1 error three"}));
  EXPECT_EQ(printed.size(), 2u);
}

TEST(SimTrace, LinesThatAreLeftOutDoNotChangeTheHash) {
  SimScheduler scheduler(7);
  SimTraceLog log(scheduler);
  SimNode node(scheduler, log, "server1", {});
  log.leaveOutOfFingerprint();
  const uint64_t before = scheduler.traceHash();
  node.trace().info("one");
  EXPECT_EQ(scheduler.traceHash(), before);
  EXPECT_EQ(log.lines().back(), "0.000000000 server1 info one");
  scheduler.call(1, [] {});
  scheduler.runUntilIdle(10);
  EXPECT_NE(scheduler.traceHash(), before);
}

TEST(SimNode, RestartedProcessDrawsAnew) {
  SimScheduler scheduler(8);
  SimTraceLog log(scheduler);
  SimNode first(scheduler, log, "server1", {});
  SimNode second(scheduler, log, "server1#2", {});
  EXPECT_NE(first.entropy().next(), second.entropy().next());
  EXPECT_NE(first.stream("x").next(), second.stream("x").next());
  EXPECT_NE(first.clock().nowNs(), second.clock().nowNs());
}

}  // namespace
}  // namespace ramcore::runtime
