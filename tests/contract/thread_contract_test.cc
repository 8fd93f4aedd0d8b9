// What threads other than the endpoint's may do, and how the endpoint's thread sleeps.
#include <algorithm>
#include <atomic>
#include <deque>
#include <list>
#include <thread>

#include "contract/contract_fixture.h"

namespace ramcore::transport::contract {
namespace {

TEST_P(TransportThreads, ReceivedMessagesAreReleasedFromAnotherThread) {
  connectBoth();
  server->sink.on_request = nullptr;
  for (int round = 0; round < 20; ++round) {
    std::list<TestCall> calls(client->endpoint().limits().slots_per_session);
    for (TestCall& call : calls) ASSERT_EQ(start(call, 3000, 3), Status::Ok);
    ASSERT_TRUE(until([&] { return server->sink.held.size() == calls.size(); }));
    for (const RxMessage& held : server->sink.held) {
      server->endpoint().reply(held.reply_to, makeMessage(server->endpoint(), owner, 10, 1));
    }
    std::thread releaser([held = std::move(server->sink.held)]() mutable { held.clear(); });
    server->sink.held.clear();
    EXPECT_TRUE(until([&] {
      return std::all_of(calls.begin(), calls.end(), [](const TestCall& call) { return call.completions == 1; });
    }));
    releaser.join();
  }
}

TEST_P(TransportThreads, MessagesAreMadeOnAnotherThread) {
  connectBoth();
  std::vector<TxMessage> made;
  std::thread maker([&] {
    for (uint32_t i = 0; i < 8; ++i) made.push_back(makeMessage(client->endpoint(), owner, 500, 1));
  });
  maker.join();
  std::deque<TestCall> calls(8);
  for (size_t i = 0; i < 8; ++i) ASSERT_EQ(client->endpoint().call(session, made[i], {}, calls[i]), Status::Ok);
  ASSERT_TRUE(until([&] {
    return std::all_of(calls.begin(), calls.end(), [](const TestCall& call) { return call.completions == 1; });
  }));
}

// Settles an endpoint so that nothing is left to be found, as a dispatch thread does before it sleeps.
bool fallAsleep(Process& process) {
  for (int i = 0; i < 10'000; ++i) {
    process.step();
    if (process.endpoint().prepareSleep()) return true;
    process.endpoint().awake();
  }
  return false;
}

TEST_P(TransportSleep, AMessageBetweenPrepareSleepAndSleepEndsTheSleep) {
  connectBoth();
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(fallAsleep(*server));
    TestCall call;
    ASSERT_EQ(start(call, 100, 3), Status::Ok);
    client->endpoint().flush();
    const int64_t before_ns = world->nowNs();
    const uint64_t requests_before = server->sink.request_count;
    // A sleep may end for nothing, but not go on for its full length.
    while (server->sink.request_count == requests_before && world->nowNs() - before_ns < 20 * kSecond) {
      server->node->sleeper()->sleep(before_ns + 20 * kSecond);
      server->endpoint().awake();
      for (int i = 0; i < 100; ++i) server->step();
      client->step();
      if (server->sink.request_count == requests_before) ASSERT_TRUE(fallAsleep(*server));
    }
    EXPECT_LT(world->nowNs() - before_ns, 10 * kSecond);
    ASSERT_TRUE(until([&] { return call.completions == 1; }));
  }
}

TEST_P(TransportSleep, AMessageEndsASleepThatGoesOn) {
  connectBoth();
  const uint64_t requests_before = server->sink.request_count;
  std::atomic<bool> is_asleep{false};
  std::thread sleeper([&] {
    for (;;) {
      server->step();
      if (server->sink.request_count != requests_before) break;
      if (server->endpoint().prepareSleep()) {
        is_asleep.store(true);
        server->node->sleeper()->sleep(world->nowNs() + 20 * kSecond);
      }
      server->endpoint().awake();
    }
    for (int i = 0; i < 100; ++i) server->step();
  });
  while (!is_asleep.load()) std::this_thread::yield();
  const int64_t before_ns = world->nowNs();
  TestCall call;
  EXPECT_EQ(start(call, 100, 3), Status::Ok);
  EXPECT_TRUE(stepUntil(*world, {client.get()}, [&] { return call.completions == 1; }));
  EXPECT_LT(world->nowNs() - before_ns, 10 * kSecond);
  sleeper.join();
}

// A thread that has too little to do to spin, and always a job or another endpoint that keeps it from sleeping.
TEST_P(TransportSleep, WhoIsKeptFromSleepingHearsOfEverythingAllTheSame) {
  connectBoth();
  const auto comesTrue = [&](const std::function<bool()>& condition) {
    const int64_t until_ns = world->nowNs() + 10 * kSecond;
    for (bool asks = true; !condition() && world->nowNs() < until_ns; asks = !asks) {
      server->step();
      if (asks) (void)server->endpoint().prepareSleep();
      server->endpoint().awake();
      client->step();
    }
    return condition();
  };
  for (int round = 0; round < 5; ++round) {
    TestCall call;
    ASSERT_EQ(start(call, 100, 3), Status::Ok);
    ASSERT_TRUE(comesTrue([&] { return call.completions == 1; })) << "a message";
    connect(*client);
    const size_t opened = static_cast<size_t>(round) + 2;
    ASSERT_TRUE(comesTrue([&] { return client->sink.opened.size() == opened; })) << "somebody new";
  }
}

TEST_P(TransportSleep, WakeEndsThisSleepOrTheNext) {
  server = std::make_unique<Process>(*world, Role::Server, 7);
  Sleeper& sleeper = *server->node->sleeper();
  const int64_t before_ns = world->nowNs();
  sleeper.wake();
  sleeper.sleep(before_ns + 20 * kSecond);
  for (int i = 0; i < 100; ++i) {
    std::thread waker([&] { sleeper.wake(); });
    sleeper.sleep(before_ns + 20 * kSecond);
    waker.join();
    // A wake-up that comes after the sleep has ended for another reason ends the next sleep.
    sleeper.wake();
    sleeper.sleep(before_ns + 20 * kSecond);
  }
  EXPECT_LT(world->nowNs() - before_ns, 10 * kSecond);
}

}  // namespace
}  // namespace ramcore::transport::contract
