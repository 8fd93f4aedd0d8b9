// Pauses where nobody expects them: threads that lose their processor, handlers, programs that think between a call and
// its flush().
#include <algorithm>
#include <array>
#include <vector>

#include "unit/transport/datagram/datagram_harness.h"

namespace ramcore::transport::datagram {
namespace {

// Threads that spin are told by nothing but the clock that time has passed.
class SpinningPair {
 public:
  SpinningPair() : server(lan, 1, {.role = Role::Server}), client(lan, 2, {}) {
    server.listen();
    session = client.open(server);
  }
  // By default less than the time after which something is sent again, and more rounds than lie between two looks at
  // the clock.
  void spin(Station& station, int rounds = 100) {
    for (int i = 0; i < rounds; ++i) {
      lan.pass(2 * kMicro);
      station.spin();
    }
  }
  Lan lan;
  Station server;
  Station client;
  SessionId session;
};

TEST(DatagramPauses, AnAnswerAfterAPauseIsAsYoungAsOthers) {
  SpinningPair pair;
  for (uint32_t i = 0; i < 20; ++i) {
    Asked asked;
    ASSERT_EQ(pair.client.call(pair.session, asked, 100, i), Status::Ok);
    pair.client.endpoint->flush();
    // The server's thread loses its processor for longer than anything waits before it is sent again, and answers in
    // the first round after that.
    pair.lan.pass(2 * RoundTrip::kFirstNs);
    pair.spin(pair.server);
    pair.spin(pair.client);
    ASSERT_EQ(asked.completions, 1) << i;
    pair.spin(pair.server);
  }
  EXPECT_EQ(pair.server.endpoint->packetCounts().resent, 0u);
}

TEST(DatagramPauses, ACallAfterAPauseIsAsYoungAsOthers) {
  SpinningPair pair;
  for (uint32_t i = 0; i < 20; ++i) {
    Asked asked;
    ASSERT_EQ(pair.client.call(pair.session, asked, 100, i), Status::Ok);
    pair.client.endpoint->flush();
    pair.spin(pair.client);
    EXPECT_EQ(pair.client.endpoint->packetCounts().resent, 0u) << i;
    pair.spin(pair.server);
    // The caller thinks about the answer, as the last thing after the round that took it.
    while (asked.completions == 0) {
      pair.lan.pass(2 * kMicro);
      pair.client.spin();
    }
    pair.lan.pass(5 * kMilli);
  }
}

// Longer than anything waits before it is sent again.
constexpr int64_t kLongNs = 12 * kMilli;
static_assert(kLongNs > RoundTrip::kFirstNs);

TEST(DatagramPauses, AnAnswerThatALongRequestKeepsFromLeavingIsNotSentAgain) {
  SpinningPair pair;
  // The second of two requests in one round takes its time, when the answer to the first one is made already.
  pair.server.on_request = [&](RxMessage& request) {
    pair.server.answer(request);
    if (pair.server.request_count % 2 == 0) pair.lan.pass(kLongNs);
  };
  for (uint32_t i = 0; i < 10; ++i) {
    Asked first, second;
    ASSERT_EQ(pair.client.call(pair.session, first, 100, i), Status::Ok);
    ASSERT_EQ(pair.client.call(pair.session, second, 100, i), Status::Ok);
    pair.client.endpoint->flush();
    pair.lan.pass(50 * kMicro);
    pair.spin(pair.server);
    // The answers are there: asked again is whoever has not heard of it.
    while (first.completions + second.completions < 2) pair.spin(pair.client);
    pair.spin(pair.server);
  }
  EXPECT_EQ(pair.server.endpoint->packetCounts().resent, 0u);
}

TEST(DatagramPauses, ARequestThatWaitsForItsFlushIsNotLateAndNotDropped) {
  for (const int64_t pause_ns : {3 * kMilli, kLongNs, 60 * kMilli}) {
    SpinningPair pair;
    for (uint32_t i = 0; i < 20; ++i) {
      Asked asked;
      ASSERT_EQ(pair.client.call(pair.session, asked, 100, i), Status::Ok);
      pair.lan.pass(pause_ns);
      pair.client.step();  // looks at the clock, and then sends
      while (asked.completions == 0) {
        pair.spin(pair.server, 1);
        pair.spin(pair.client, 1);
      }
    }
    EXPECT_EQ(pair.client.endpoint->packetCounts().resent, 0u) << pause_ns;
    EXPECT_EQ(pair.client.endpoint->packetCounts().dropped, 0u) << pause_ns;
  }
}

TEST(DatagramPauses, WhatPassesBeforeAFlushIsNoRoundTrip) {
  SpinningPair pair;
  for (uint32_t i = 0; i < 300; ++i) {
    Asked asked;
    ASSERT_EQ(pair.client.call(pair.session, asked, 100, i), Status::Ok);
    pair.lan.pass((i % 10 + 1) * kMilli);
    while (asked.completions == 0) {
      pair.spin(pair.client, 1);
      pair.spin(pair.server, 1);
    }
  }
  const uint64_t resent = pair.client.endpoint->packetCounts().resent;
  Asked asked;
  pair.server.cut.is_cut = true;
  ASSERT_EQ(pair.client.call(pair.session, asked, 100, 1), Status::Ok);
  pair.client.endpoint->flush();
  const int64_t since_ns = pair.lan.nowNs();
  while (pair.client.endpoint->packetCounts().resent == resent) pair.spin(pair.client, 1);
  EXPECT_LT(pair.lan.nowNs() - since_ns, 2 * RoundTrip::kLeastNs);
  pair.client.die();  // while there is somebody to hear of the call
}

// An endpoint that measured every other call, or every eighth, would see calls of one kind alone.
TEST(DatagramPauses, SlowCallsAmongFastOnesAreMeasured) {
  for (const uint32_t period : {2u, 4u, 8u}) {
    SpinningPair pair;
    pair.server.on_request = [&](RxMessage& request) { pair.server.held.push_back(std::move(request)); };
    uint64_t resent_at_first = 0;
    for (uint32_t i = 0; i < 100 * period; ++i) {
      Asked asked;
      ASSERT_EQ(pair.client.call(pair.session, asked, 100, i), Status::Ok);
      pair.client.endpoint->flush();
      const int64_t answered_ns = pair.lan.nowNs() + (i % period == 1 ? 3 * kMilli : 0);
      while (asked.completions == 0) {
        pair.spin(pair.server, 1);
        if (!pair.server.held.empty() && pair.lan.nowNs() >= answered_ns) {
          pair.server.answer(pair.server.held[0]);
          pair.server.endpoint->flush();
          pair.server.held.clear();
        }
        pair.spin(pair.client, 1);
      }
      if (i == 50 * period) resent_at_first = pair.client.endpoint->packetCounts().resent;
    }
    EXPECT_LT(pair.client.endpoint->packetCounts().resent - resent_at_first, 25u) << "of 50, period " << period;
  }
}

// A call that ends with its session begins another one while the endpoint looks at all sessions, and that is lost.
TEST(DatagramPauses, WhatIsBegunByTheEndOfAnotherSessionIsSentAgainInTime) {
  Lan lan;
  Station first(lan, 1, {.role = Role::Server});
  Station second(lan, 3, {.role = Role::Server});
  Station client(lan, 2, {});
  first.listen();
  second.listen();
  const SessionId to_first = client.open(first);
  const SessionId to_second = client.open(second);
  Asked known;  // how long a round trip takes
  ASSERT_EQ(client.call(to_first, known, 100, 1), Status::Ok);
  ASSERT_TRUE(runUntil(lan, {&first, &client}, [&] { return known.completions != 0; }));
  known.response = RxMessage();
  second.cut.is_cut = true;
  Asked unheard, next;
  int64_t begun_ns = 0;
  unheard.then = [&](Asked&) {
    begun_ns = lan.nowNs();
    EXPECT_EQ(client.call(to_first, next, 100, 3), Status::Ok);
  };
  ASSERT_EQ(client.call(to_second, unheard, 100, 2), Status::Ok);
  ASSERT_TRUE(runUntil(lan, {&first, &second, &client}, [&] { return begun_ns != 0; }));
  const uint64_t resent = client.endpoint->packetCounts().resent;
  while (client.endpoint->packetCounts().resent == resent) {
    lan.pass(20 * kMicro);
    client.spin();
    EXPECT_LT(lan.nowNs() - begun_ns, 4 * RoundTrip::kLeastNs);
    if (HasFailure()) break;
  }
  client.die();  // while there is somebody to hear of the call
}

// How long after a call that is lost its request is sent again.
int64_t resendDelayNs(SpinningPair& pair) {
  const uint64_t resent = pair.client.endpoint->packetCounts().resent;
  Asked asked;
  pair.client.cut.is_cut = true;
  EXPECT_EQ(pair.client.call(pair.session, asked, 100, 1), Status::Ok);
  pair.client.endpoint->flush();
  const int64_t since_ns = pair.lan.nowNs();
  pair.client.cut.is_cut = false;
  while (pair.client.endpoint->packetCounts().resent == resent) pair.spin(pair.client, 1);
  const int64_t delay_ns = pair.lan.nowNs() - since_ns;
  while (asked.completions == 0) {
    pair.spin(pair.server, 1);
    pair.spin(pair.client, 1);
  }
  return delay_ns;
}

TEST(DatagramPauses, AServerThatLostItsProcessorDoesNotMakeLaterCallsWait) {
  for (const int64_t pause_ns : {20 * kMilli, 200 * kMilli}) {
    SpinningPair pair;
    for (uint32_t i = 0; i < 50; ++i) {
      Asked asked;
      ASSERT_EQ(pair.client.call(pair.session, asked, 100, i), Status::Ok);
      pair.client.endpoint->flush();
      while (asked.completions == 0) {
        pair.spin(pair.server, 1);
        pair.spin(pair.client, 1);
      }
    }
    pair.server.on_request = [&](RxMessage& request) { pair.server.held.push_back(std::move(request)); };
    std::array<Asked, 16> asked;
    for (Asked& call : asked) ASSERT_EQ(pair.client.call(pair.session, call, 100, 1), Status::Ok);
    pair.client.endpoint->flush();
    // The server says that it is at work, and is, for long.
    for (int64_t passed_ns = 0; passed_ns < pause_ns; passed_ns += 100 * kMicro) {
      pair.lan.pass(100 * kMicro);
      pair.server.spin();
      pair.client.spin();
    }
    for (const RxMessage& request : pair.server.held) pair.server.answer(request);
    pair.server.held.clear();
    pair.server.on_request = [&](RxMessage& request) { pair.server.answer(request); };
    while (std::ranges::any_of(asked, [](const Asked& call) { return call.completions == 0; })) {
      pair.spin(pair.server, 1);
      pair.spin(pair.client, 1);
    }
    EXPECT_LT(resendDelayNs(pair), 10 * RoundTrip::kLeastNs) << pause_ns;
  }
}

TEST(DatagramPauses, LongRequestsThatLosePacketsDoNotMakeShortOnesWait) {
  Lan lan;
  Station server(lan, 1, {.role = Role::Server, .rates = {.loss = 0.03}});
  Station client(lan, 2, {});
  server.listen();
  const SessionId session = client.open(server);
  std::vector<int64_t> took_ns;
  for (uint32_t i = 0; i < 200; ++i) {
    Asked asked;
    const int64_t since_ns = lan.nowNs();
    ASSERT_EQ(client.call(session, asked, 200'000, i), Status::Ok);
    ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return asked.completions != 0; }));
    ASSERT_EQ(asked.status, Status::Ok);
    took_ns.push_back(lan.nowNs() - since_ns);
  }
  const auto median = [&](size_t from, size_t count) {
    std::vector<int64_t> some(took_ns.begin() + static_cast<ptrdiff_t>(from),
                              took_ns.begin() + static_cast<ptrdiff_t>(from + count));
    std::ranges::nth_element(some, some.begin() + static_cast<ptrdiff_t>(count / 2));
    return some[count / 2];
  };
  EXPECT_LE(median(100, 100), 2 * median(0, 20));
}

TEST(DatagramPauses, WhatIsBegunAfterAPauseIsSentFromWhereItIs) {
  SpinningPair pair;
  pair.lan.pass(150 * kMilli);
  Asked asked;
  ASSERT_EQ(pair.client.call(pair.session, asked, 50'000, 1), Status::Ok);
  pair.client.endpoint->flush();
  EXPECT_NE(pair.client.endpoint->sendCounts().chunks_gathered, 0u);
  EXPECT_EQ(pair.client.endpoint->sendCounts().long_chunks_copied, 0u);
  EXPECT_EQ(pair.client.endpoint->borrowedCounts().messages_copied_out, 0u);
  pair.client.die();
}

// A port that took only some of the frames before its thread was away may take the others now.
TEST(DatagramPauses, FramesThatWereRefusedBeforeAPauseAreOfferedAgain) {
  SpinningPair pair;
  Asked asked;
  pair.client.cut.is_cut = true;
  ASSERT_EQ(pair.client.call(pair.session, asked, 100, 1), Status::Ok);
  pair.client.endpoint->flush();
  pair.client.cut.is_cut = false;
  pair.lan.pass(80 * kMilli);
  pair.client.step();
  EXPECT_EQ(pair.client.endpoint->packetCounts().dropped, 0u);
  pair.client.die();
}

}  // namespace
}  // namespace ramcore::transport::datagram
