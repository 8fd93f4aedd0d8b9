#include "transport/os/epoll_sleeper.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "runtime/real/system_clock.h"
#include "transport/tcp/asio_sleeper.h"

namespace ramcore::transport {
namespace {

constexpr int64_t kLong = 20 * runtime::kNanosPerSecond;
constexpr int64_t kShort = 40 * runtime::kNanosPerMilli;

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends), 0); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void write() const { EXPECT_EQ(::write(ends[1], "x", 1), 1); }
  void read() const {
    char byte;
    EXPECT_EQ(::read(ends[0], &byte, 1), 1);
  }
  int ends[2];
};

struct Listener final : ReadinessListener {
  void onReady(uint32_t events) override {
    ++told;
    last_events = events;
    if (then) then();
  }
  int told = 0;
  uint32_t last_events = 0;
  std::function<void()> then;
};

class Sleeps : public ::testing::Test {
 protected:
  // True if the sleep ended long before its deadline.
  bool endsEarly(int64_t length_ns) {
    const int64_t before_ns = clock.nowNs();
    sleeper.sleep(before_ns + length_ns);
    return clock.nowNs() - before_ns < length_ns / 2;
  }

  runtime::SystemClock clock;
  EpollSleeper sleeper{clock};
  Pipe pipe;
  Listener listener;
};

TEST_F(Sleeps, EachChangeIsToldOnceAlsoIfNobodyReads) {
  const EpollSleeper::Key key = sleeper.listen(pipe.ends[0], EPOLLIN, listener);
  ASSERT_NE(key, EpollSleeper::kNoKey);
  EXPECT_EQ(sleeper.poll(), 0u);
  for (int told = 1; told <= 3; ++told) {
    pipe.write();
    EXPECT_TRUE(endsEarly(kLong));
    EXPECT_EQ(listener.told, told);
    EXPECT_EQ(listener.last_events, uint32_t{EPOLLIN});
    EXPECT_EQ(sleeper.poll(), 0u);
    EXPECT_FALSE(endsEarly(kShort));
  }
  EXPECT_EQ(listener.told, 3);
}

TEST_F(Sleeps, WhatIsThereAlreadyIsToldAtFirstAndWhenTheEventsChange) {
  pipe.write();
  const EpollSleeper::Key key = sleeper.listen(pipe.ends[0], EPOLLIN, listener);
  EXPECT_TRUE(endsEarly(kLong));
  EXPECT_EQ(listener.told, 1);
  sleeper.listenTo(key, EPOLLIN | EPOLLRDHUP);
  EXPECT_EQ(sleeper.poll(), 1u);
  EXPECT_EQ(listener.told, 2);
}

TEST_F(Sleeps, AChangeThatWasReadMeanwhileDoesNotEndTheSleep) {
  sleeper.listen(pipe.ends[0], EPOLLIN, listener);
  pipe.write();
  pipe.read();
  EXPECT_FALSE(endsEarly(kShort));
  EXPECT_EQ(listener.told, 0);
}

TEST_F(Sleeps, WhoIsUnlistenedHearsNothingMoreNotEvenOfWhatWasFound) {
  Pipe other;
  Listener other_listener;
  EpollSleeper::Key keys[2] = {sleeper.listen(pipe.ends[0], EPOLLIN, listener),
                               sleeper.listen(other.ends[0], EPOLLIN, other_listener)};
  listener.then = [&] { sleeper.unlisten(keys[1]); };
  other_listener.then = [&] { sleeper.unlisten(keys[0]); };
  pipe.write();
  other.write();
  sleeper.poll();
  EXPECT_EQ(listener.told + other_listener.told, 1) << "the first one ended the second";
  // The place is used again, by a listener that was not told of anything.
  Pipe third;
  Listener third_listener;
  sleeper.listen(third.ends[0], EPOLLIN, third_listener);
  sleeper.unlisten(keys[0]);
  sleeper.unlisten(keys[1]);
  third.write();
  EXPECT_EQ(sleeper.poll(), 1u);
  EXPECT_EQ(third_listener.told, 1);
  EXPECT_EQ(listener.told + other_listener.told, 1);
}

TEST_F(Sleeps, TheSameDescriptorIsNotTakenTwice) {
  EXPECT_NE(sleeper.listen(pipe.ends[0], EPOLLIN, listener), EpollSleeper::kNoKey);
  EXPECT_EQ(sleeper.listen(pipe.ends[0], EPOLLIN, listener), EpollSleeper::kNoKey);
}

TEST_F(Sleeps, ATimerOfAnEarlierDeadlineDoesNotEndALaterSleep) {
  sleeper.wake();
  sleeper.sleep(clock.nowNs() + kLong);  // ends at once and sets nothing
  pipe.write();
  sleeper.watch(pipe.ends[0]);
  EXPECT_TRUE(endsEarly(kShort));  // leaves its timer behind
  pipe.read();
  const int64_t deadline_ns = clock.nowNs() + 3 * kShort;
  sleeper.sleep(deadline_ns);
  EXPECT_GE(clock.nowNs(), deadline_ns);
  EXPECT_EQ(sleeper.sleepCount(), 3u);
}

TEST_F(Sleeps, AnAlarmEndsTheNextSleepAndNoOther) {
  sleeper.wakeBy(clock.nowNs() + kLong);
  const int64_t alarm_ns = clock.nowNs() + kShort;
  sleeper.wakeBy(alarm_ns);
  EXPECT_TRUE(endsEarly(kLong));
  EXPECT_GE(clock.nowNs(), alarm_ns);
  EXPECT_FALSE(endsEarly(kShort));
}

// One thread posts and then looks whether the other one sleeps; the other one says that it sleeps and then looks what
// was posted. Neither may miss the other, however the two meet.
TEST_F(Sleeps, NoWakeUpIsLost) {
  constexpr uint32_t kTurns = 20'000;
  std::atomic<uint32_t> posted{0}, seen{0};
  std::thread waker([&] {
    for (uint32_t turn = 1; turn <= kTurns; ++turn) {
      posted.store(turn, std::memory_order_seq_cst);
      sleeper.wake();
      while (turn % 3 != 0 && seen.load(std::memory_order_acquire) < turn) std::this_thread::yield();
    }
  });
  const int64_t deadline_ns = clock.nowNs() + 3 * kLong;
  while (seen.load(std::memory_order_relaxed) < kTurns) {
    const uint32_t now = posted.load(std::memory_order_seq_cst);
    if (now == seen.load(std::memory_order_relaxed)) sleeper.sleep(deadline_ns);
    seen.store(now, std::memory_order_release);
    ASSERT_LT(clock.nowNs(), deadline_ns) << "asleep with work posted";
  }
  waker.join();
}

class SleeperWithGuest final : public EpollSleeper {
 public:
  using EpollSleeper::EpollSleeper;
  bool has_guest = false;

 private:
  bool hasGuest() const override { return has_guest; }
  // The guest has something to do when the set has found something, and nothing more afterwards.
  void runGuest(bool may_block) override {
    pollfd set{.fd = descriptor(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&set, 1, may_block ? -1 : 0), 1);
    has_guest = false;
  }
};

// The thread may have to go on with what the guest has done, whatever the set has found at the same time.
TEST(SleepsWithGuest, TheGuestEndsTheSleepAlsoWithATimerOfAnEarlierDeadline) {
  runtime::SystemClock clock;
  SleeperWithGuest sleeper(clock);
  Pipe pipe;
  Listener listener;
  sleeper.listen(pipe.ends[0], EPOLLIN, listener);
  pipe.write();
  sleeper.sleep(clock.nowNs() + kShort);  // leaves its timer behind
  ASSERT_EQ(listener.told, 1);
  sleeper.has_guest = true;
  const int64_t before_ns = clock.nowNs();
  sleeper.sleep(before_ns + kLong);
  EXPECT_FALSE(sleeper.has_guest);
  EXPECT_LT(clock.nowNs() - before_ns, kLong / 2);
}

// While Asio has something going on the thread sleeps in Asio's reactor: all that ends a sleep has to end that one.
TEST(SleepsWithAsio, EverythingEndsTheSleepInItsReactorToo) {
  runtime::SystemClock clock;
  tcp::AsioSleeper sleeper(clock);
  const auto endsEarly = [&](int64_t length_ns) {
    const int64_t before_ns = clock.nowNs();
    sleeper.sleep(before_ns + length_ns);
    return clock.nowNs() - before_ns < length_ns / 2;
  };
  Pipe pipe;
  Listener listener;
  sleeper.listen(pipe.ends[0], EPOLLIN, listener);
  sleeper.operationBegins();
  for (int told = 1; told <= 3; ++told) {
    pipe.write();
    while (listener.told < told) EXPECT_TRUE(endsEarly(kLong));
    std::thread waker([&] { sleeper.wake(); });
    EXPECT_TRUE(endsEarly(kLong));
    waker.join();
    const int64_t deadline_ns = clock.nowNs() + kShort;
    while (clock.nowNs() < deadline_ns) sleeper.sleep(deadline_ns);
    EXPECT_LT(clock.nowNs(), deadline_ns + kLong);
  }
  sleeper.operationEnds();
  EXPECT_FALSE(endsEarly(kShort));
  pipe.write();
  EXPECT_TRUE(endsEarly(kLong));
}

}  // namespace
}  // namespace ramcore::transport
