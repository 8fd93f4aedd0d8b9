// Peers that say nothing while calls wait for them.
#include "rpc/answer_times.h"
#include "unit/rpc/rpc_fixture.h"

namespace ramcore::rpc {
namespace {

using runtime::kNanosPerMilli;
using runtime::kNanosPerSecond;
using transport::Role;
using wire::Opcode;

constexpr uint64_t kSilentServerId = 5;
constexpr uint16_t kSilentServerSlots = 4;

TEST(AnswerTimes, WhoIsFastIsWaitedForForFiftyMilliseconds) {
  AnswerTimes times;
  EXPECT_EQ(times.patienceLooks(), 6u);
  for (int i = 0; i < 1000; ++i) times.note(0);
  EXPECT_EQ(times.patienceLooks(), 6u) << "five whole looks";
}

// Calls of 5 ms see no look or one.
TEST(AnswerTimes, WhatTakesHalfALookIsMeasured) {
  AnswerTimes times;
  for (int i = 0; i < 1000; ++i) times.note(i % 2);
  EXPECT_NEAR(times.patienceLooks(), 16, 1) << "30 times 5 ms";
}

TEST(AnswerTimes, OneLongCallIsNotUsual) {
  AnswerTimes times;
  times.note(100'000);
  EXPECT_LE(times.patienceLooks(), 9u);
  for (int i = 0; i < 1000; ++i) times.note(100'000);
  EXPECT_EQ(times.patienceLooks(), 51u) << "bounded";
  for (int i = 0; i < 1000; ++i) times.note(0);
  EXPECT_EQ(times.patienceLooks(), 6u) << "and forgotten";
}

struct Asked {
  int count = 0;
  bool says = false;
  static bool ask(void* asked) {
    auto& self = *static_cast<Asked*>(asked);
    ++self.count;
    return self.says;
  }
};

class SilenceTest : public RpcTest {
 protected:
  SilenceTest() : RpcTest(kSilentServerSlots) {
    client = &add("client", {});
    server = &add("server", {.role = Role::Server, .id = kSilentServerId});
    server->listen();
    echo.addTo(server->dispatch().services(), {.roles = allow({Role::Client})});
    address = addressOf(*server, kSilentServerId);
  }
  void TearDown() override {
    server->onDispatch([&] { echo.answerKept(); });
  }
  void startCall(NotedCall& call, Opcode opcode) {
    call.request = request(*client, opcode, address.id, "text");
    start(*client, call, address);
  }
  /// A call that goes on only while `asked` does not say that it is hopeless.
  void startAsking(NotedCall& call, Opcode opcode, Asked& asked) {
    call.settings.is_hopeless = &Asked::ask;
    call.settings.context = &asked;
    startCall(call, opcode);
  }
  int64_t clientNow() { return client->node.clock().nowNs(); }

  EchoService echo;
  RpcProcess* client = nullptr;
  RpcProcess* server = nullptr;
  PeerAddress address;
};

TEST_F(SilenceTest, AHopelessCallEndsAndItsAnswerIsIgnored) {
  Asked asked;
  NotedCall call;
  startAsking(call, Opcode::Scan, asked);
  ASSERT_TRUE(runUntil([&] { return !echo.kept.empty(); }));
  runFor(45 * kNanosPerMilli);
  EXPECT_EQ(asked.count, 0) << "not within 50 ms";
  runFor(200 * kNanosPerMilli);
  EXPECT_GT(asked.count, 5) << "again and again";
  EXPECT_EQ(call.ended, 0) << "it goes on waiting";
  asked.says = true;
  const int64_t begun_ns = clientNow();
  ASSERT_TRUE(await(call));
  EXPECT_LT(clientNow() - begun_ns, 20 * kNanosPerMilli);
  EXPECT_EQ(call.status, Status::RetryLater);
  EXPECT_TRUE(call.was_sent) << "it may have happened";
  server->onDispatch([&] { echo.answerKept(); });
  runFor(50 * kNanosPerMilli);
  EXPECT_EQ(call.ended, 1);
}

TEST_F(SilenceTest, ACallThatWasNeverSentIsHopelessToo) {
  network.isolate("server");
  Asked asked{.says = true};
  NotedCall call;
  startAsking(call, Opcode::Read, asked);
  ASSERT_TRUE(await(call));
  EXPECT_EQ(call.status, Status::RetryLater);
  EXPECT_FALSE(call.was_sent);
}

TEST_F(SilenceTest, OfADoubtfulPeerItIsAskedAtOnce) {
  Asked asked{.says = true};
  NotedCall call;
  call.settings.is_doubted = true;
  const int64_t begun_ns = clientNow();
  startAsking(call, Opcode::Scan, asked);
  ASSERT_TRUE(await(call));
  EXPECT_LT(clientNow() - begun_ns, 25 * kNanosPerMilli);
}

// After a session was lost, calls do not wait for the usual time of an answer once more.
TEST_F(SilenceTest, AfterALostSessionItIsAskedAtOnceUntilSomethingIsAnswered) {
  NotedCall lost;
  startCall(lost, Opcode::Scan);
  ASSERT_TRUE(await(lost));
  ASSERT_EQ(lost.status, Status::SessionLost);
  Asked asked;
  NotedCall again;
  startAsking(again, Opcode::Scan, asked);
  runFor(45 * kNanosPerMilli);
  EXPECT_GE(asked.count, 3);
  NotedCall answered;
  startCall(answered, Opcode::Read);
  ASSERT_TRUE(await(answered));
  Asked later;
  NotedCall calm;
  startAsking(calm, Opcode::Scan, later);
  runFor(45 * kNanosPerMilli);
  EXPECT_EQ(later.count, 0) << "it is there, and may take its time";
  server->onDispatch([&] { echo.answerKept(); });
  ASSERT_TRUE(await(again));
  ASSERT_TRUE(await(calm));
}

// All slots belong to calls that are not answered and for which no caller waits. A later call is answered all the same.
TEST_F(SilenceTest, ASilentSessionIsReplaced) {
  std::deque<NotedCall> lost(kSilentServerSlots);
  for (NotedCall& call : lost) {
    call.settings.deadline_ns = clientNow() + kNanosPerSecond;
    startCall(call, Opcode::Scan);
  }
  for (NotedCall& call : lost) ASSERT_TRUE(await(call));
  NotedCall waiting;
  const int64_t begun_ns = clientNow();
  startCall(waiting, Opcode::Read);
  ASSERT_TRUE(await(waiting));
  EXPECT_EQ(waiting.text(), "text");
  EXPECT_LT(clientNow() - begun_ns, 6 * kNanosPerSecond);
}

TEST_F(SilenceTest, WhatWasSentOnASilentSessionMayHaveHappened) {
  NotedCall call;
  startCall(call, Opcode::Scan);
  ASSERT_TRUE(await(call));
  EXPECT_EQ(call.status, Status::SessionLost);
  EXPECT_TRUE(call.was_sent);
}

// A peer that answers some calls keeps its session, however many others it leaves unanswered.
TEST_F(SilenceTest, ASessionThatAnswersOthersIsKept) {
  NotedCall slow;
  startCall(slow, Opcode::Scan);
  for (int i = 0; i < 10; ++i) {
    NotedCall quick;
    startCall(quick, Opcode::Read);
    ASSERT_TRUE(await(quick));
    runFor(kNanosPerSecond);
  }
  EXPECT_EQ(slow.ended, 0);
  server->onDispatch([&] { echo.answerKept(); });
  ASSERT_TRUE(await(slow));
  EXPECT_EQ(slow.outcome(), Status::Ok);
}

}  // namespace
}  // namespace ramcore::rpc
