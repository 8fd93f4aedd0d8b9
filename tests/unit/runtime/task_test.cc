#include "runtime/task.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace ramcore::runtime {
namespace {

/// Suspends the coroutines that await it until the test opens it.
class Gate {
 public:
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) { waiter_ = handle; }
  int await_resume() const noexcept { return value_; }
  void open(int value) {
    value_ = value;
    std::exchange(waiter_, nullptr).resume();
  }
  bool hasWaiter() const { return static_cast<bool>(waiter_); }

 private:
  std::coroutine_handle<> waiter_;
  int value_ = 0;
};

Task<int> valueOf(int value) { co_return value; }

Task<int> pass(Gate& gate, std::vector<int>& steps) {
  steps.push_back(1);
  const int value = co_await gate;
  steps.push_back(2);
  co_return value;
}

Task<int> outer(Gate& gate, std::vector<int>& steps) {
  const int value = co_await pass(gate, steps);
  steps.push_back(3);
  co_return value + 1;
}

TEST(Task, BodyRunsAtTheCallUntilItsFirstSuspension) {
  Gate gate;
  std::vector<int> steps;
  Task<int> task = pass(gate, steps);
  EXPECT_EQ(steps, std::vector<int>{1});
  EXPECT_FALSE(task.isDone());
  gate.open(5);
  EXPECT_TRUE(task.isDone());
  EXPECT_EQ(task.take(), 5);
}

TEST(Task, FinishedAtOnceNeedsNoResumption) {
  Task<int> task = valueOf(3);
  ASSERT_TRUE(task.isDone());
  EXPECT_TRUE(task.await_ready());
  EXPECT_EQ(task.take(), 3);
}

TEST(Task, ResumesItsAwaiterWithTheValue) {
  Gate gate;
  std::vector<int> steps;
  Task<int> task = outer(gate, steps);
  EXPECT_FALSE(task.isDone());
  gate.open(10);
  ASSERT_TRUE(task.isDone());
  EXPECT_EQ(task.take(), 11);
  EXPECT_EQ(steps, (std::vector<int>{1, 2, 3}));
}

Task<void> setWhenOpened(Gate& gate, int& value) {
  const int opened = co_await gate;
  value = opened;
}

TEST(Task, DetachedBodyRunsOnAndFreesItsFrame) {
  const int64_t frames = framesAlive();
  Gate gate;
  int value = 0;
  setWhenOpened(gate, value).detach();
  EXPECT_EQ(framesAlive(), frames + 1);
  gate.open(7);
  EXPECT_EQ(value, 7);
  EXPECT_EQ(framesAlive(), frames);
  valueOf(1).detach();
  EXPECT_EQ(framesAlive(), frames);
}

Task<std::unique_ptr<int>> boxed(int value) { co_return std::make_unique<int>(value); }

Task<int> unboxed(int value) {
  std::unique_ptr<int> box = co_await boxed(value);
  co_return *box;
}

TEST(Task, ValuesMayBeMoveOnlyAndTasksMove) {
  Task<int> task = unboxed(9);
  Task<int> moved = std::move(task);
  EXPECT_EQ(moved.take(), 9);
  moved = unboxed(8);
  EXPECT_EQ(moved.take(), 8);
}

Task<uint64_t> sumOfFinished(uint64_t count) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const int one = co_await valueOf(1);
    sum += static_cast<uint64_t>(one);
  }
  co_return sum;
}

TEST(Task, MillionAwaitsOfFinishedTasksDoNotGrowTheStack) {
  Task<uint64_t> task = sumOfFinished(1'000'000);
  ASSERT_TRUE(task.isDone());
  EXPECT_EQ(task.take(), 1'000'000u);
}

Task<uint64_t> sumOfResumed(Gate& gate, uint64_t count) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const int one = co_await gate;
    sum += static_cast<uint64_t>(one);
  }
  co_return sum;
}

Task<uint64_t> sumOfSlowCalls(Gate& gate, uint64_t count) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t one = co_await sumOfResumed(gate, 1);
    sum += one;
  }
  co_return sum;
}

TEST(Task, MillionResumptionsDoNotGrowTheStack) {
  Gate gate;
  Task<uint64_t> task = sumOfSlowCalls(gate, 1'000'000);
  while (gate.hasWaiter()) gate.open(1);
  ASSERT_TRUE(task.isDone());
  EXPECT_EQ(task.take(), 1'000'000u);
}

TEST(TaskDeathTest, DroppingASuspendedTaskIsABug) {
  EXPECT_DEATH(
      {
        Gate gate;
        std::vector<int> steps;
        {
          Task<int> task = pass(gate, steps);
        }
      },
      "a suspended coroutine was dropped");
}

TEST(TaskDeathTest, TakingTheValueOfASuspendedTaskIsABug) {
  EXPECT_DEATH(
      {
        Gate gate;
        std::vector<int> steps;
        Task<int> task = pass(gate, steps);
        task.take();
      },
      "isDone");
}

}  // namespace
}  // namespace ramcore::runtime
