#include "runtime/sim/sim_executor.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/await.h"
#include "runtime/sim/sim_node.h"
#include "runtime/task.h"

namespace ramcore::runtime {
namespace {

constexpr uint64_t kStepsMax = 1'000'000;

struct SimStep : Job {
  explicit SimStep(std::function<void()> action)
      : Job([](Job& job) { static_cast<SimStep&>(job).action(); }), action(std::move(action)) {}
  std::function<void()> action;
};

struct World {
  explicit World(uint64_t seed = 1) : scheduler(seed), log(scheduler), node(scheduler, log, "node", {}) {}
  void run() { EXPECT_EQ(scheduler.runUntilIdle(kStepsMax), SimScheduler::Stop::Idle); }
  SimScheduler scheduler;
  SimTraceLog log;
  SimNode node;
};

TEST(SimExecutor, RunsJobsOneAtATimeInTheOrderOfPosting) {
  World world;
  SimExecutor& executor = world.node.makeExecutor("worker");
  std::vector<int> order;
  std::vector<std::unique_ptr<SimStep>> jobs;
  for (int i = 0; i < 100; ++i) {
    jobs.push_back(std::make_unique<SimStep>([&, i] {
      EXPECT_TRUE(executor.isCurrent());
      order.push_back(i);
    }));
    executor.post(*jobs.back());
  }
  EXPECT_TRUE(order.empty());
  EXPECT_FALSE(executor.isCurrent());
  world.run();
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_GT(world.scheduler.nowNs(), 0);
}

TEST(SimExecutor, HigherPriorityMostlyGoesFirst) {
  World world;
  SimExecutor& executor = world.node.makeExecutor("worker");
  std::vector<Priority> order;
  std::vector<std::unique_ptr<SimStep>> jobs;
  for (int i = 0; i < 200; ++i) {
    const Priority priority = i % 2 == 0 ? Priority::Background : Priority::Membership;
    jobs.push_back(std::make_unique<SimStep>([&, priority] { order.push_back(priority); }));
    executor.post(*jobs.back(), priority);
  }
  world.run();
  const auto early = std::count(order.begin(), order.begin() + 100, Priority::Membership);
  EXPECT_GT(early, 80);
  EXPECT_LT(early, 100);
}

std::string interleavingOf(uint64_t seed) {
  World world(seed);
  SimExecutor& a = world.node.makeExecutor("a");
  SimExecutor& b = world.node.makeExecutor("b");
  std::string order;
  std::vector<std::unique_ptr<SimStep>> jobs;
  for (int i = 0; i < 20; ++i) {
    for (SimExecutor* executor : {&a, &b}) {
      jobs.push_back(std::make_unique<SimStep>([&order, executor, &a] { order += executor == &a ? 'a' : 'b'; }));
      executor->post(*jobs.back());
    }
  }
  world.run();
  return order;
}

TEST(SimExecutor, SeedDecidesHowExecutorsInterleave) {
  EXPECT_EQ(interleavingOf(7), interleavingOf(7));
  std::set<std::string> orders;
  for (uint64_t seed = 0; seed < 20; ++seed) orders.insert(interleavingOf(seed));
  EXPECT_GT(orders.size(), 15u);
}

struct Alarm : Timer {
  explicit Alarm(std::function<void()> action)
      : Timer([](Timer& timer) { static_cast<Alarm&>(timer).action(); }), action(std::move(action)) {}
  std::function<void()> action;
};

TEST(SimExecutor, FiresTimersByTheClockOfItsNode) {
  World world;
  SimExecutor& executor = world.node.makeExecutor("worker");
  const int64_t deadline_ns = executor.clock().nowNs() + kNanosPerSecond;
  int64_t fired_ns = 0;
  int cancelled_fires = 0;
  Alarm alarm([&] {
    EXPECT_TRUE(executor.isCurrent());
    fired_ns = executor.clock().nowNs();
  });
  Alarm cancelled([&] { ++cancelled_fires; });
  SimStep arm([&] {
    executor.arm(alarm, deadline_ns);
    executor.arm(cancelled, deadline_ns - 100);
    cancelled.cancel();
  });
  executor.post(arm);
  world.run();
  EXPECT_GE(fired_ns, deadline_ns);
  EXPECT_LT(fired_ns, deadline_ns + 10 * kNanosPerMilli);
  EXPECT_EQ(cancelled_fires, 0);
  EXPECT_EQ(executor.timerCount(), 0u);
}

TEST(SimExecutor, BusyThreadRunsNothingElse) {
  World world;
  SimExecutor& executor = world.node.makeExecutor("worker");
  int64_t second_ns = 0;
  SimStep first([&] { executor.spend(kNanosPerSecond); });
  SimStep second([&] { second_ns = world.scheduler.nowNs(); });
  executor.post(first);
  executor.post(second);
  world.run();
  EXPECT_GE(second_ns, kNanosPerSecond);
}

TEST(SimExecutor, PausedProcessRunsNothingWhileItsClockGoesOn) {
  World world;
  SimExecutor& executor = world.node.makeExecutor("worker");
  int runs = 0;
  SimStep job([&] { ++runs; });
  executor.post(job);
  world.node.pause();
  const int64_t before_ns = world.node.clock().nowNs();
  world.scheduler.runUntil(10 * kNanosPerSecond, kStepsMax);
  EXPECT_EQ(runs, 0);
  EXPECT_GT(world.node.clock().nowNs(), before_ns + 9 * kNanosPerSecond);
  world.node.resume();
  world.run();
  EXPECT_EQ(runs, 1);
}

TEST(SimExecutor, TimerThatFellDueDuringAPauseFiresAfterIt) {
  World world;
  SimExecutor& executor = world.node.makeExecutor("worker");
  int64_t fired_ns = 0;
  Alarm alarm([&] { fired_ns = world.scheduler.nowNs(); });
  SimStep arm([&] { executor.arm(alarm, executor.clock().nowNs() + kNanosPerMilli); });
  executor.post(arm);
  world.scheduler.runUntil([&] { return alarm.isArmed(); }, kStepsMax);
  world.node.pause();
  world.scheduler.runUntil(kNanosPerSecond, kStepsMax);
  EXPECT_EQ(fired_ns, 0);
  world.node.resume();
  world.run();
  EXPECT_GE(fired_ns, kNanosPerSecond);
}

TEST(SimExecutor, KilledProcessNeverRunsAgain) {
  World world;
  SimExecutor& executor = world.node.makeExecutor("worker");
  int runs = 0;
  SimStep before([&] { ++runs; });
  SimStep after([&] { ++runs; });
  executor.post(before);
  world.node.kill();
  executor.post(after);
  world.run();
  EXPECT_EQ(runs, 0);
  EXPECT_TRUE(executor.isIdle());
}

Task<Status> waitFor(Signal& signal, int& ended) {
  const Status status = co_await signal.wait();
  ++ended;
  co_return status;
}

TEST(SimExecutor, DrainUnwindsCoroutinesOfAnEndedProcess) {
  World world;
  SimExecutor& dispatch = world.node.makeExecutor("dispatch");
  SimExecutor& worker = world.node.makeExecutor("worker");
  Signal signal(dispatch);
  int ended = 0;
  SimStep start([&] { waitFor(signal, ended).detach(); });
  dispatch.post(start);
  world.run();
  world.node.pause();
  SimStep stop([&] { signal.failAll(Status::Shutdown); });
  SimStep other([&] { dispatch.post(stop); });
  worker.post(other);
  const int64_t now_ns = world.scheduler.nowNs();
  EXPECT_TRUE(world.node.drain(100));
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(world.scheduler.nowNs(), now_ns);
}

TEST(SimExecutor, DrainIsBounded) {
  World world;
  SimExecutor& executor = world.node.makeExecutor("worker");
  SimStep forever([] {});
  forever.action = [&] { executor.post(forever); };
  executor.post(forever);
  EXPECT_FALSE(world.node.drain(100));
  world.node.kill();
}

TEST(SimExecutorDeathTest, PostingAQueuedJobIsABug) {
  World world;
  SimExecutor& executor = world.node.makeExecutor("worker");
  SimStep first([] {});
  SimStep second([] {});
  executor.post(first);
  executor.post(second);
  EXPECT_DEATH(executor.post(first), "queued already");
  world.run();
}

}  // namespace
}  // namespace ramcore::runtime
