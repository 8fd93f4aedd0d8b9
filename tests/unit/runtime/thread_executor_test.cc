#include "runtime/real/thread_executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <latch>
#include <memory>
#include <vector>

#include "runtime/await.h"
#include "runtime/frame_pool.h"
#include "runtime/real/system_clock.h"
#include "runtime/task.h"

namespace ramcore::runtime {
namespace {

struct Step : Job {
  explicit Step(std::function<void()> function)
      : Job([](Job& job) { static_cast<Step&>(job).action(); }), action(std::move(function)) {}
  std::function<void()> action;
};

// Returns when the thread has run what was posted with this priority before.
void drain(ThreadExecutor& executor, Priority priority = Priority::Client) {
  std::latch done(1);
  Step last([&] { done.count_down(); });
  executor.post(last, priority);
  done.wait();
}

TEST(ThreadExecutor, RunsJobsOnItsThreadInOrder) {
  SystemClock clock;
  ThreadExecutor executor(clock, "test");
  EXPECT_FALSE(executor.isCurrent());
  std::vector<int> order;
  bool current = true;
  std::deque<Step> steps;
  for (int i = 0; i < 100; ++i) {
    steps.emplace_back([&, i] {
      order.push_back(i);
      current = current && executor.isCurrent();
    });
  }
  for (Step& step : steps) executor.post(step, Priority::Client);
  drain(executor);
  EXPECT_TRUE(current);
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(ThreadExecutor, UrgentJobsOvertakeAndNoClassStarves) {
  SystemClock clock;
  ThreadExecutor executor(clock, "test");
  std::latch blocked(1);
  std::latch go(1);
  Step gate([&] {
    blocked.count_down();
    go.wait();
  });
  executor.post(gate, Priority::Membership);
  blocked.wait();
  // Queued while the thread is busy: many urgent ones, one in the background.
  size_t urgent = 0;
  size_t urgent_before_background = 0;
  std::deque<Step> steps;
  steps.emplace_back([&] { urgent_before_background = urgent; });
  executor.post(steps.back(), Priority::Background);
  for (int i = 0; i < 500; ++i) {
    steps.emplace_back([&] { ++urgent; });
    executor.post(steps.back(), Priority::Membership);
  }
  go.count_down();
  drain(executor, Priority::Membership);
  EXPECT_EQ(urgent, 500u);
  EXPECT_GT(urgent_before_background, 0u);
  EXPECT_LE(urgent_before_background, 16u * 3) << "each class has its turn";
}

TEST(ThreadExecutor, ManyThreadsPost) {
  SystemClock clock;
  ThreadExecutor executor(clock, "test");
  constexpr int kThreads = 4;
  constexpr int kJobs = 2'000;
  uint64_t sum = 0;  // of the executor's thread alone
  std::vector<std::deque<Step>> steps(kThreads);
  for (auto& own : steps) {
    for (int i = 0; i < kJobs; ++i) own.emplace_back([&sum] { ++sum; });
  }
  std::vector<std::thread> posters;
  for (auto& own : steps) {
    posters.emplace_back([&] {
      for (Step& step : own) executor.post(step);
    });
  }
  for (std::thread& poster : posters) poster.join();
  drain(executor);
  EXPECT_EQ(sum, uint64_t{kThreads} * kJobs);
}

TEST(ThreadExecutor, AJobMayPostItselfAgain) {
  SystemClock clock;
  ThreadExecutor executor(clock, "test");
  std::latch done(1);
  int runs = 0;
  std::function<void()> action;
  Step step([&] { action(); });
  action = [&] {
    if (++runs == 1000) {
      done.count_down();
    } else {
      executor.post(step);
    }
  };
  executor.post(step);
  done.wait();
  drain(executor);
  EXPECT_EQ(runs, 1000);
}

TEST(ThreadExecutor, TimersFireOnTheThreadInTheirOrderAndNotEarly) {
  SystemClock clock;
  ThreadExecutor executor(clock, "test");
  struct Note : Timer {
    explicit Note(std::function<void()> function)
        : Timer([](Timer& timer) { static_cast<Note&>(timer).action(); }), action(std::move(function)) {}
    std::function<void()> action;
  };
  std::vector<int> order;
  std::latch done(1);
  const int64_t start_ns = clock.nowNs();
  bool early = false;
  Note late([&] {
    order.push_back(2);
    early = early || clock.nowNs() < start_ns + 4 * kNanosPerMilli;
    done.count_down();
  });
  Note soon([&] {
    order.push_back(1);
    early = early || !executor.isCurrent() || clock.nowNs() < start_ns + 2 * kNanosPerMilli;
  });
  Note never([&] { order.push_back(3); });
  Step arm([&] {
    executor.arm(late, start_ns + 4 * kNanosPerMilli);
    executor.arm(soon, start_ns + 2 * kNanosPerMilli);
    executor.arm(never, start_ns + 3 * kNanosPerMilli);
    never.cancel();
  });
  executor.post(arm);
  done.wait();
  drain(executor);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_FALSE(early);
}

TEST(ThreadExecutor, HooksAreCalledAroundTheWork) {
  struct Seen {
    int starts = 0;
    int stops = 0;
    int rounds = 0;
    int sleeps = 0;
    bool asleep = false;
    bool worked_asleep = false;
  } seen;
  const ExecutorHooks hooks{.context = &seen,
                            .on_start = [](void* at) { ++static_cast<Seen*>(at)->starts; },
                            .on_stop = [](void* at) { ++static_cast<Seen*>(at)->stops; },
                            .after_round = [](void* at) { ++static_cast<Seen*>(at)->rounds; },
                            .before_sleep =
                                [](void* at) {
                                  ++static_cast<Seen*>(at)->sleeps;
                                  static_cast<Seen*>(at)->asleep = true;
                                },
                            .after_sleep = [](void* at) { static_cast<Seen*>(at)->asleep = false; }};
  SystemClock clock;
  {
    ThreadExecutor executor(clock, "test", hooks);
    for (int i = 0; i < 3; ++i) {
      std::latch done(1);
      Step step([&] {
        seen.worked_asleep = seen.worked_asleep || seen.asleep;
        done.count_down();
      });
      executor.post(step);
      done.wait();
      drain(executor);
    }
  }
  EXPECT_EQ(seen.starts, 1);
  EXPECT_EQ(seen.stops, 1);
  EXPECT_EQ(seen.rounds, 6);
  EXPECT_FALSE(seen.worked_asleep);
  EXPECT_FALSE(seen.asleep) << "on line again when it stops";
}

TEST(ThreadExecutor, StopEndsASleepAtOnceAndMayBeRepeated) {
  SystemClock clock;
  ThreadExecutor executor(clock, "test");
  drain(executor);
  executor.stop();
  executor.stop();
  int ran = 0;
  Step step([&] { ++ran; });
  executor.post(step);
  EXPECT_EQ(ran, 0) << "what is posted afterwards never runs";
}

Detached countOn(ThreadExecutor& executor, std::unique_ptr<int> value, std::atomic<int>& sum) {
  co_await resumeOn(executor);
  sum.fetch_add(*value);
}

TEST(ThreadExecutor, DetachedCoroutinesMayEndElsewhere) {
  constexpr int kCoroutines = 2000;
  const int64_t frames_before = framesAlive();
  SystemClock clock;
  std::atomic<int> sum{0};
  {
    ThreadExecutor executor(clock, "test");
    for (int i = 0; i < kCoroutines; ++i) countOn(executor, std::make_unique<int>(1), sum);
    drain(executor);
    EXPECT_EQ(sum.load(), kCoroutines);
  }
  EXPECT_EQ(framesAlive(), frames_before) << "each freed its own frame";
}

TEST(ThreadExecutor, StopsWhileOthersPost) {
  SystemClock clock;
  for (int round = 0; round < 20; ++round) {
    ThreadExecutor executor(clock, "test");
    std::deque<Step> steps;
    for (int i = 0; i < 100; ++i) steps.emplace_back([] {});
    std::thread poster([&] {
      for (Step& step : steps) executor.post(step);
    });
    executor.stop();
    poster.join();
  }
}

}  // namespace
}  // namespace ramcore::runtime
