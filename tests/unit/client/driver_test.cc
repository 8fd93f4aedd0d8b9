#include "client/driver.h"

#include <gtest/gtest.h>

#include <thread>

#include "runtime/real/system_clock.h"
#include "runtime/real/thread_executor.h"
#include "transport/os/epoll_sleeper.h"

namespace ramcore::client {
namespace {

/// A dispatch without a network, whose calls take some steps or some time.
struct DriverTest : ::testing::Test {
  struct Call : Driver::Waited {
    Call(DriverTest& owner, int64_t pause)
        : Waited([](runtime::Job& job) { carry(static_cast<Call&>(job)).detach(); }), test(owner), pause_ns(pause) {}
    static runtime::Task<void> carry(Call& self) {
      rpc::Dispatch& dispatch = self.test.dispatch;
      co_await runtime::resumeOn(dispatch);
      EXPECT_TRUE(dispatch.isCurrent());
      ++self.test.steps;  // without a lock: only one thread drives
      if (self.pause_ns != 0) co_await runtime::sleepFor(dispatch, self.pause_ns);
      ++self.test.ended;
      self.test.driver.finished(self);
    }
    DriverTest& test;
    int64_t pause_ns;
  };

  void runThreads(int thread_count, int calls, int64_t pause_ns) {
    std::vector<std::thread> threads;
    for (int i = 0; i < thread_count; ++i) {
      threads.emplace_back([this, calls, pause_ns] {
        for (int k = 0; k < calls; ++k) {
          Call call(*this, k % 5 == 0 ? pause_ns : 0);
          driver.runToEnd(call);
          ASSERT_TRUE(call.is_done);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  runtime::SystemClock clock;
  runtime::SeededEntropy entropy{1};
  transport::EpollSleeper sleeper{clock};
  rpc::Dispatch dispatch{clock, silentTrace(), sleeper, {}};
  rpc::Caller caller{dispatch};
  ClusterClient client{caller, entropy, {rpc::PeerAddress{}}, {.retry = {}, .renew_by_timer = false}};
  Driver driver{dispatch, sleeper, client, 20 * runtime::kNanosPerMicro};
  int64_t steps = 0;
  int64_t ended = 0;
};

TEST_F(DriverTest, OneThreadDrivesItself) {
  runThreads(1, 500, 50 * runtime::kNanosPerMicro);
  EXPECT_EQ(ended, 500);
}

TEST_F(DriverTest, ThreadsTakeTurns) {
  runThreads(6, 300, 50 * runtime::kNanosPerMicro);
  EXPECT_EQ(steps, 1800);
  EXPECT_EQ(ended, 1800);
}

TEST_F(DriverTest, SleepingDriversAreWokenByOthers) {
  // Longer than the spin: the driver sleeps while others hand it their calls.
  runThreads(4, 40, 2 * runtime::kNanosPerMilli);
  EXPECT_EQ(ended, 160);
}

TEST_F(DriverTest, ABackgroundThreadCarriesTheCallsOfAll) {
  struct Background : runtime::Job {
    explicit Background(Driver& owner)
        : Job([](Job& job) { static_cast<Background&>(job).driver.driveUntilStopped(); }), driver(owner) {}
    Driver& driver;
  } background(driver);
  runtime::ThreadExecutor thread(clock, "background");
  thread.post(background);
  runThreads(3, 100, 50 * runtime::kNanosPerMicro);
  EXPECT_EQ(ended, 300);
  driver.stop();
  thread.stop();
}

TEST_F(DriverTest, ABackgroundThreadSleepsWhileAnotherOneDrives) {
  constexpr int64_t kPauseNs = 300 * runtime::kNanosPerMilli;
  Call call(*this, kPauseNs);
  std::atomic<bool> is_driving{false};
  std::thread foreground([&] {
    Call first(*this, 0);
    driver.runToEnd(first);
    is_driving.store(true);
    driver.runToEnd(call);
  });
  while (!is_driving.load()) std::this_thread::yield();
  int64_t busy_ns = 0;
  std::thread background([&] {
    driver.driveUntilStopped();
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    busy_ns = used.tv_sec * runtime::kNanosPerSecond + used.tv_nsec;
  });
  foreground.join();
  Call after(*this, 0);
  driver.runToEnd(after);
  driver.stop();
  background.join();
  EXPECT_EQ(ended, 3);
  EXPECT_LT(busy_ns, kPauseNs / 3);
}

TEST_F(DriverTest, StopEndsABackgroundThreadThatWaitsForItsTurn) {
  Call call(*this, 200 * runtime::kNanosPerMilli);
  std::thread foreground([&] { driver.runToEnd(call); });
  std::thread background([&] { driver.driveUntilStopped(); });
  driver.stop();
  background.join();
  foreground.join();
  EXPECT_TRUE(call.is_done);
}

}  // namespace
}  // namespace ramcore::client
