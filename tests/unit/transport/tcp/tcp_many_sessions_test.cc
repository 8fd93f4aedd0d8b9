// More sessions than are tried one by one: which of them have something is asked of the kernel.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "unit/transport/tcp/tcp_harness.h"

namespace ramcore::transport::tcp {
namespace {

constexpr uint16_t kManySlots = 64;
constexpr uint32_t kBurst = 8;

class TcpManySessions : public ::testing::Test {
 protected:
  void SetUp() override {
    place_ = server.endpoint->listen(Locator::parse("tcp://127.0.0.1:0").value()).value();
    server.sink.on_request = [this](RxMessage& request) {
      TxMessage response = server.endpoint->allocate(request.messageBytes());
      response.appendHead(request.head());
      server.endpoint->reply(request.reply_to, std::move(response));
    };
  }
  void connect(size_t count) {
    const size_t before = client.sink.opened.size();
    for (size_t i = 0; i < count; ++i) {
      sessions.push_back(client.endpoint->connect(place_, 7, client.clock.nowNs() + 20 * runtime::kNanosPerSecond));
    }
    ASSERT_TRUE(until([&] {
      return client.sink.opened.size() == before + count && server.endpoint->sessionCount() == sessions.size();
    }));
  }
  bool until(const std::function<bool()>& condition) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      server.step(kBurst);
      client.step(256);
      if (std::chrono::steady_clock::now() > give_up) return false;
    }
    return true;
  }
  void ask(SessionId session, Call& call, const std::string& text) {
    TxMessage request = client.endpoint->allocate(static_cast<uint32_t>(text.size()));
    request.appendHead(asBytes(text));
    ASSERT_EQ(client.endpoint->call(session, request, {}, call), Status::Ok);
  }

  Side server{{.slots_per_session = kManySlots}, Role::Server, 7};
  Side client{{.slots_per_session = kManySlots}, Role::Client, 3};
  std::vector<SessionId> sessions;

 private:
  Locator place_;
};

TEST_F(TcpManySessions, EveryMessageOfEverySessionIsAnswered) {
  constexpr int kCallsEach = 20;
  connect(100);
  std::vector<Call> calls(sessions.size() * kCallsEach);
  size_t asked = 0;
  for (int i = 0; i < kCallsEach; ++i) {
    for (const SessionId session : sessions) {
      ask(session, calls[asked], std::to_string(session.index) + "/" + std::to_string(i));
      ++asked;
    }
  }
  ASSERT_TRUE(until(
      [&] { return std::all_of(calls.begin(), calls.end(), [](const Call& call) { return call.completions == 1; }); }));
  asked = 0;
  for (int i = 0; i < kCallsEach; ++i) {
    for (const SessionId session : sessions) {
      EXPECT_EQ(calls[asked].status, Status::Ok);
      EXPECT_EQ(asText(calls[asked].response.head()), std::to_string(session.index) + "/" + std::to_string(i));
      ++asked;
    }
  }
}

// Three sessions always have all their slots filled, and a round takes fewer messages than one of them has.
TEST_F(TcpManySessions, AFloodStarvesNobody) {
  constexpr size_t kFlooding = 3;
  constexpr int kRoundsMax = 400;
  connect(40);
  std::vector<Call> flood(kFlooding * kManySlots);
  const auto refill = [&] {
    for (size_t i = 0; i < flood.size(); ++i) {
      if (flood[i].completions != 0 || flood[i].status == Status::Internal) {
        if (flood[i].completions == 0 && flood[i].in_flight) continue;
        flood[i].completions = 0;
        ask(sessions[i / kManySlots], flood[i], "flood");
      }
    }
  };
  std::vector<Call> quiet(sessions.size() - kFlooding);
  for (int turn = 0; turn < 20; ++turn) {
    for (size_t i = 0; i < quiet.size(); ++i) {
      quiet[i].completions = 0;
      ask(sessions[kFlooding + i], quiet[i], "quiet");
    }
    client.endpoint->flush();
    int rounds = 0;
    const auto isAnswered = [](const Call& call) { return call.completions == 1; };
    for (; !std::all_of(quiet.begin(), quiet.end(), isAnswered); ++rounds) {
      ASSERT_LT(rounds, kRoundsMax) << "turn " << turn;
      refill();
      client.endpoint->flush();
      server.step(kBurst);
      client.step(256);
    }
  }
  ASSERT_TRUE(
      until([&] { return std::none_of(flood.begin(), flood.end(), [](const Call& call) { return call.in_flight; }); }));
}

TEST_F(TcpManySessions, SessionsThatHaveBecomeQuietAreHeardAgain) {
  connect(20);
  for (int i = 0; i < 3000; ++i) {
    Call call;
    ask(sessions[static_cast<size_t>(i) % 2], call, "busy");
    ASSERT_TRUE(until([&] { return call.completions == 1; }));
  }
  for (const SessionId session : sessions) {
    Call call;
    ask(session, call, "here");
    ASSERT_TRUE(until([&] { return call.completions == 1; })) << session.index;
    EXPECT_EQ(asText(call.response.head()), "here");
  }
}

TEST_F(TcpManySessions, AnyOfThemEndsTheSleep) {
  connect(20);
  for (const SessionId session : sessions) {
    while (!server.endpoint->prepareSleep()) server.step(kBurst);
    Call call;
    ask(session, call, "wake up");
    client.endpoint->flush();
    const int64_t before_ns = server.clock.nowNs();
    server.sleeper.sleep(before_ns + 20 * runtime::kNanosPerSecond);
    server.endpoint->awake();
    ASSERT_LT(server.clock.nowNs() - before_ns, 10 * runtime::kNanosPerSecond) << session.index;
    ASSERT_TRUE(until([&] { return call.completions == 1; }));
  }
}

TEST_F(TcpManySessions, WhoeverTakesThePlaceOfALostOneIsHeard) {
  connect(30);
  for (int turn = 0; turn < 5; ++turn) {
    std::vector<Call> calls(sessions.size());
    for (size_t i = 0; i < sessions.size(); ++i) ask(sessions[i], calls[i], "call");
    // Half of them leave with their calls on the way.
    const size_t lost_before = server.sink.lost.size();
    const size_t leaving = sessions.size() / 2;
    for (size_t i = 0; i < leaving; ++i) client.endpoint->close(sessions[i]);
    sessions.erase(sessions.begin(), sessions.begin() + static_cast<ptrdiff_t>(leaving));
    ASSERT_TRUE(until([&] {
      return server.sink.lost.size() == lost_before + leaving &&
             std::all_of(calls.begin(), calls.end(), [](const Call& call) { return call.completions == 1; });
    }));
    connect(leaving);
  }
}

}  // namespace
}  // namespace ramcore::transport::tcp
