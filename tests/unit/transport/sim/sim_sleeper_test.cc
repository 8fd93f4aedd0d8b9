#include "transport/sim/sim_sleeper.h"

#include <vector>

#include <gtest/gtest.h>

#include "runtime/sim/sim_node.h"

namespace ramcore::transport {
namespace {

using runtime::kNanosPerMilli;
using runtime::kNever;

struct SimSleeperTest : testing::Test {
  void run() { EXPECT_EQ(scheduler.runUntilIdle(10'000), runtime::SimScheduler::Stop::Idle); }
  runtime::SimScheduler scheduler{1};
  runtime::SimTraceLog log{scheduler};
  runtime::SimNode node{scheduler, log, "node", {}};
  runtime::SimExecutor& executor = node.makeExecutor("dispatch");
};

TEST_F(SimSleeperTest, ManyWakesAreOneRound) {
  int rounds = 0;
  SimSleeper sleeper(executor, [&] {
    ++rounds;
    return kNever;
  });
  run();
  EXPECT_EQ(rounds, 0);
  for (int i = 0; i < 5; ++i) sleeper.wake();
  run();
  EXPECT_EQ(rounds, 1);
  sleeper.wake();
  run();
  EXPECT_EQ(rounds, 2);
}

TEST_F(SimSleeperTest, RoundsFollowAtOnceOrAtTheirDeadline) {
  std::vector<int64_t> times;
  SimSleeper sleeper(executor, [&]() -> int64_t {
    times.push_back(node.clock().nowNs());
    if (times.size() == 1) return 0;
    if (times.size() == 2) return times.back() + 5 * kNanosPerMilli;
    return kNever;
  });
  sleeper.wake();
  run();
  ASSERT_EQ(times.size(), 3u);
  EXPECT_LT(times[1], times[0] + kNanosPerMilli);
  EXPECT_GE(times[2], times[1] + 5 * kNanosPerMilli);
}

TEST_F(SimSleeperTest, WakeComesBeforeTheDeadlineWhichIsThenForgotten) {
  std::vector<int64_t> times;
  SimSleeper sleeper(executor, [&]() -> int64_t {
    times.push_back(node.clock().nowNs());
    return times.size() == 1 ? times.back() + 1'000 * kNanosPerMilli : kNever;
  });
  sleeper.wake();
  scheduler.runUntil([&] { return times.size() == 1; }, 1'000);
  sleeper.wake();
  run();
  ASSERT_EQ(times.size(), 2u);
  EXPECT_LT(times[1], times[0] + kNanosPerMilli);
}

}  // namespace
}  // namespace ramcore::transport
