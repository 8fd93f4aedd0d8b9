#include "runtime/await.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/sim/sim_node.h"
#include "runtime/task.h"

namespace ramcore::runtime {
namespace {

constexpr uint64_t kEventsMax = 10'000'000;

struct Action : Job {
  explicit Action(std::function<void()> action)
      : Job([](Job& job) { static_cast<Action&>(job).action(); }), action(std::move(action)) {}
  std::function<void()> action;
};

class Await : public testing::Test {
 protected:
  /// Runs `action` on the executor, then everything that follows from it.
  void on(SimExecutor& executor, std::function<void()> action) {
    Action start(std::move(action));
    executor.post(start);
    EXPECT_EQ(scheduler_.runUntilIdle(kEventsMax), SimScheduler::Stop::Idle);
  }

  SimScheduler scheduler_{1};
  SimTraceLog log_{scheduler_};
  SimNode node_{scheduler_, log_, "node", {}};
  SimExecutor& executor_ = node_.makeExecutor("one");
  SimExecutor& other_ = node_.makeExecutor("other");
};

Task<void> visit(SimExecutor& home, SimExecutor& away, std::vector<std::string>& steps) {
  steps.push_back(home.isCurrent() ? "home" : "?");
  co_await resumeOn(away);
  steps.push_back(away.isCurrent() && !home.isCurrent() ? "away" : "?");
  co_await resumeOn(home, Priority::Background);
  steps.push_back(home.isCurrent() ? "home" : "?");
}

TEST_F(Await, ResumeOnMovesBetweenExecutors) {
  std::vector<std::string> steps;
  on(executor_, [&] { visit(executor_, other_, steps).detach(); });
  EXPECT_EQ(steps, (std::vector<std::string>{"home", "away", "home"}));
}

Task<void> sleepTwice(SimExecutor& executor, int64_t& slept_ns) {
  const int64_t start_ns = executor.clock().nowNs();
  co_await sleepFor(executor, kNanosPerMilli);
  co_await sleepUntil(executor, start_ns + 5 * kNanosPerMilli);
  slept_ns = executor.clock().nowNs() - start_ns;
}

TEST_F(Await, SleepsUntilTheDeadline) {
  int64_t slept_ns = 0;
  on(executor_, [&] { sleepTwice(executor_, slept_ns).detach(); });
  EXPECT_GE(slept_ns, 5 * kNanosPerMilli);
  EXPECT_LT(slept_ns, 6 * kNanosPerMilli);
}

Task<void> waitOn(Signal& signal, int64_t deadline_ns, std::vector<Status>& outcomes) {
  const Status outcome = co_await signal.wait(deadline_ns);
  outcomes.push_back(outcome);
}

TEST_F(Await, SignalResumesEveryPresentWaiterByAJobOfItsOwn) {
  Signal signal(executor_);
  std::vector<Status> outcomes;
  on(executor_, [&] {
    for (int i = 0; i < 3; ++i) waitOn(signal, kNever, outcomes).detach();
    EXPECT_TRUE(signal.hasWaiters());
    signal.notifyAll();
    EXPECT_FALSE(signal.hasWaiters());
    EXPECT_TRUE(outcomes.empty());
    waitOn(signal, kNever, outcomes).detach();
  });
  EXPECT_EQ(outcomes, (std::vector<Status>{Status::Ok, Status::Ok, Status::Ok}));
  EXPECT_TRUE(signal.hasWaiters());
  on(executor_, [&] { signal.failAll(Status::Shutdown); });
  EXPECT_EQ(outcomes.back(), Status::Shutdown);
}

TEST_F(Await, SignalWaitEndsAtItsDeadline) {
  Signal signal(executor_);
  std::vector<Status> outcomes;
  const int64_t deadline_ns = node_.clock().nowNs() + kNanosPerSecond;
  on(executor_, [&] {
    waitOn(signal, deadline_ns, outcomes).detach();
    waitOn(signal, kNever, outcomes).detach();
  });
  EXPECT_EQ(outcomes, std::vector<Status>{Status::DeadlineExceeded});
  EXPECT_GE(node_.clock().nowNs(), deadline_ns);
  on(executor_, [&] { signal.notifyAll(); });
  EXPECT_EQ(outcomes, (std::vector<Status>{Status::DeadlineExceeded, Status::Ok}));
}

TEST_F(Await, NotifiedWaitDoesNotTimeOutAsWell) {
  Signal signal(executor_);
  std::vector<Status> outcomes;
  on(executor_, [&] {
    waitOn(signal, node_.clock().nowNs() + kNanosPerMilli, outcomes).detach();
    signal.failAll(Status::Cancelled);
    executor_.spend(kNanosPerSecond);  // the deadline passes before the waiter runs
  });
  EXPECT_EQ(outcomes, std::vector<Status>{Status::Cancelled});
}

Task<void> takeTurns(SimExecutor& executor, uint64_t turns, uint64_t& done) {
  for (uint64_t i = 0; i < turns; ++i) {
    co_await resumeOn(executor);
    ++done;
  }
}

TEST_F(Await, ManyTurnsDoNotGrowTheStack) {
  uint64_t done = 0;
  on(executor_, [&] { takeTurns(executor_, 100'000, done).detach(); });
  EXPECT_EQ(done, 100'000u);
}

void destroyUnderItsWaiter() {
  SimScheduler scheduler(1);
  SimTraceLog log(scheduler);
  SimNode node(scheduler, log, "node", {});
  SimExecutor& executor = node.makeExecutor("one");
  std::vector<Status> outcomes;
  auto signal = std::make_unique<Signal>(executor);
  Action start([&] { waitOn(*signal, kNever, outcomes).detach(); });
  executor.post(start);
  scheduler.runUntilIdle(10);
  signal.reset();
}

TEST(SignalDeathTest, DestroyedUnderItsWaitersIsABug) {
  EXPECT_DEATH(destroyUnderItsWaiter(), "destroyed under its waiters");
}

}  // namespace
}  // namespace ramcore::runtime
