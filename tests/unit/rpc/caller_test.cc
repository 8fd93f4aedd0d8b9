#include "rpc/caller.h"

#include <algorithm>

#include "unit/rpc/rpc_fixture.h"

namespace ramcore::rpc {
namespace {

using runtime::kNanosPerMilli;
using runtime::kNanosPerSecond;
using transport::Role;
using wire::Opcode;

constexpr uint64_t kServerId = 5;
constexpr uint16_t kSlots = 4;

class CallerTest : public RpcTest {
 protected:
  CallerTest() : RpcTest(kSlots) { client = &add("client", {}); }

  // The server exists but only hears once begin() was called.
  void begin(uint64_t id = kServerId, const std::string& name = "server") {
    server = &add(name, {.role = Role::Server, .id = id});
    server->listen();
    echo.addTo(server->dispatch().services(), {.roles = allow({Role::Client})});
    address = addressOf(*server, id);
  }
  void prepare(NotedCall& call, Opcode opcode = Opcode::Read, std::string_view body = "text") {
    call.request = request(*client, opcode, address.id, body);
  }
  void startCall(NotedCall& call, Opcode opcode = Opcode::Read, std::string_view body = "text") {
    prepare(call, opcode, body);
    start(*client, call, address);
  }
  int64_t clientNow() { return client->node.clock().nowNs(); }

  EchoService echo;
  RpcProcess* client = nullptr;
  RpcProcess* server = nullptr;
  PeerAddress address{.id = kServerId, .locators = {transport::Locator::parse("sim://server").value()}};
};

TEST_F(CallerTest, ConnectsWhenFirstUsed) {
  begin();
  bool open_before = true;
  client->onDispatch([&] { open_before = client->caller->connection(address).isOpen(); });
  EXPECT_FALSE(open_before);
  NotedCall call;
  startCall(call);
  ASSERT_TRUE(await(call));
  EXPECT_EQ(call.text(), "text");
  client->onDispatch([&] {
    const auto open = client->caller->openConnections();
    ASSERT_EQ(open.size(), 1u);
    EXPECT_EQ(open[0].first, kServerId);
    EXPECT_EQ(open[0].second, "sim");
    EXPECT_EQ(client->caller->connection(address).transportName(), "sim");
  });
}

TEST_F(CallerTest, QueuesBeyondTheSlotsAndKeepsTheOrder) {
  begin();
  std::deque<NotedCall> calls(3 * kSlots + 1);
  client->onDispatch([&] {
    for (size_t i = 0; i < calls.size(); ++i) {
      prepare(calls[i], Opcode::Scan, std::to_string(i));
      client->caller->connection(address).start(calls[i]);
    }
  });
  ASSERT_TRUE(runUntil([&] { return echo.kept.size() == kSlots; }));
  runFor(50 * kNanosPerMilli);
  EXPECT_EQ(echo.kept.size(), kSlots) << "no more than the session has slots";
  EXPECT_FALSE(calls[kSlots].was_sent);
  size_t answered = 0;
  while (answered < calls.size()) {
    ASSERT_TRUE(runUntil([&] { return !echo.kept.empty(); }));
    answered += echo.kept.size();
    server->onDispatch([&] { echo.answerKept(); });
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    ASSERT_TRUE(await(calls[i]));
    EXPECT_EQ(calls[i].text(), std::to_string(i));
  }
}

TEST_F(CallerTest, ADeadlineEndsACallThatIsInFlight) {
  begin();
  NotedCall call;
  call.settings.deadline_ns = clientNow() + 20 * kNanosPerMilli;
  startCall(call, Opcode::Scan);
  ASSERT_TRUE(await(call));
  EXPECT_EQ(call.status, Status::DeadlineExceeded);
  EXPECT_TRUE(call.was_sent);
  EXPECT_GE(clientNow(), call.settings.deadline_ns);
  server->onDispatch([&] { echo.answerKept(); });
  runFor(10 * kNanosPerMilli);
  EXPECT_EQ(call.ended, 1) << "the late answer is nobody's";
}

TEST_F(CallerTest, ADeadlineEndsACallThatWasNeverSent) {
  network.isolate("server");
  NotedCall call;
  call.settings.deadline_ns = clientNow() + 20 * kNanosPerMilli;
  startCall(call);
  ASSERT_TRUE(await(call));
  EXPECT_EQ(call.outcome(), Status::DeadlineExceeded);
  EXPECT_FALSE(call.was_sent);
}

TEST_F(CallerTest, SlotsThatLateAnswersFreeAreUsedAgain) {
  begin();
  std::deque<NotedCall> lost(kSlots);
  for (NotedCall& call : lost) {
    call.settings.deadline_ns = clientNow() + 5 * kNanosPerMilli;
    startCall(call, Opcode::Scan);
  }
  for (NotedCall& call : lost) ASSERT_TRUE(await(call));
  // All slots belong to calls that were given up. What is started now waits for one of them, without a deadline.
  NotedCall waiting;
  startCall(waiting);
  runFor(10 * kNanosPerMilli);
  EXPECT_EQ(waiting.ended, 0);
  server->onDispatch([&] { echo.answerKept(); });
  ASSERT_TRUE(await(waiting));
  EXPECT_EQ(waiting.text(), "text");
}

TEST_F(CallerTest, CancelEndsQueuedAndSentCalls) {
  begin();
  std::deque<NotedCall> calls(kSlots + 2);
  for (NotedCall& call : calls) startCall(call, Opcode::Scan);
  ASSERT_TRUE(runUntil([&] { return echo.kept.size() == kSlots; }));
  client->onDispatch([&] {
    Connection& connection = client->caller->connection(address);
    connection.cancel(calls[0], Status::Cancelled);            // in flight
    connection.cancel(calls[kSlots], Status::OutcomeUnknown);  // queued
    EXPECT_EQ(calls[0].ended, 1);
    EXPECT_EQ(calls[kSlots].ended, 1);
  });
  EXPECT_EQ(calls[0].status, Status::Cancelled);
  EXPECT_TRUE(calls[0].was_sent);
  EXPECT_EQ(calls[kSlots].status, Status::OutcomeUnknown);
  EXPECT_FALSE(calls[kSlots].was_sent);
  server->onDispatch([&] { echo.answerKept(); });
  ASSERT_TRUE(runUntil([&] { return !echo.kept.empty(); }));
  server->onDispatch([&] { echo.answerKept(); });
  for (size_t i = 1; i < calls.size(); ++i) {
    ASSERT_TRUE(await(calls[i]));
    if (i != kSlots) EXPECT_EQ(calls[i].outcome(), Status::Ok) << i;
  }
}

TEST_F(CallerTest, ReconnectsAfterALossAndSendsWhatWaited) {
  begin();
  std::deque<NotedCall> calls(kSlots + 2);
  for (NotedCall& call : calls) startCall(call, Opcode::Scan);
  ASSERT_TRUE(runUntil([&] { return echo.kept.size() == kSlots; }));
  network.cut("client", "server");
  for (size_t i = 0; i < kSlots; ++i) {
    ASSERT_TRUE(await(calls[i]));
    EXPECT_EQ(calls[i].outcome(), Status::SessionLost);
    EXPECT_TRUE(calls[i].was_sent) << "it may have happened";
  }
  ASSERT_TRUE(runUntil([&] { return echo.kept.size() == kSlots + 2; }));
  server->onDispatch([&] { echo.answerKept(); });
  for (size_t i = kSlots; i < calls.size(); ++i) {
    ASSERT_TRUE(await(calls[i]));
    EXPECT_EQ(calls[i].outcome(), Status::Ok);
  }
}

TEST_F(CallerTest, NobodyThereIsUnreachable) {
  NotedCall call;
  startCall(call);
  ASSERT_TRUE(await(call));
  EXPECT_EQ(call.outcome(), Status::Unreachable);
  EXPECT_FALSE(call.was_sent);
}

TEST_F(CallerTest, NoEndpointForAnyLocatorIsUnreachable) {
  address = {.id = 9, .locators = {transport::Locator::parse("tcp://127.0.0.1:1").value()}};
  NotedCall call;
  startCall(call);
  ASSERT_TRUE(await(call));
  EXPECT_EQ(call.outcome(), Status::Unreachable);
}

TEST_F(CallerTest, FailedAttemptsAreFewerAndFewer) {
  // Each failure starts the next call at once; the connection makes the attempts wait.
  NotedCall call;
  int attempts = 0;
  call.then = [&] {
    ++attempts;
    if (attempts < 1000) {
      prepare(call);
      client->caller->connection(address).start(call);
    }
  };
  startCall(call);
  runFor(10 * kNanosPerSecond);
  EXPECT_GE(attempts, 15);
  EXPECT_LE(attempts, 40) << "1, 2, 4, ... 500 ms apart";
  begin();
  client->onDispatch([&] { call.then = nullptr; });
  call.ended = 0;
  ASSERT_TRUE(await(call));
  EXPECT_EQ(call.outcome(), Status::Ok) << "half a second later at most";
}

TEST_F(CallerTest, ANewIncarnationIsNotTheOneThatWasMeant) {
  begin(kServerId + 1);
  address.id = kServerId;
  NotedCall call;
  startCall(call);
  ASSERT_TRUE(await(call));
  EXPECT_EQ(call.outcome(), Status::WrongServerId);
  EXPECT_FALSE(call.was_sent);
  EXPECT_TRUE(echo.heard.empty());
}

// The server listens, and the coordinator's answer, which gives it its id, is still on its way. Without the wait the
// connection would take another locator, and stay on it.
TEST_F(CallerTest, WaitsForAServerToLearnItsIdBeforeItTakesAnotherWay) {
  RpcProcess& other_way = add("other", {.role = Role::Server, .id = kServerId});
  other_way.listen();
  begin(0);
  address = {.id = kServerId, .locators = {server->locator(), other_way.locator()}};
  NotedCall call;
  startCall(call);
  runFor(50 * kNanosPerMilli);
  EXPECT_EQ(call.ended, 0);
  server->dispatch().setOwnId(kServerId);
  server->identity.id = kServerId;
  ASSERT_TRUE(await(call));
  EXPECT_EQ(call.outcome(), Status::Ok);
  EXPECT_EQ(echo.heard.size(), 1u);
}

TEST_F(CallerTest, AServerThatNeverLearnsItsIdIsNotTheOneThatWasMeant) {
  begin(0);
  address.id = kServerId;
  NotedCall call;
  startCall(call);
  const int64_t begun_ns = clientNow();
  ASSERT_TRUE(await(call));
  EXPECT_EQ(call.outcome(), Status::WrongServerId);
  EXPECT_FALSE(call.was_sent);
  EXPECT_GT(clientNow() - begun_ns, 100 * kNanosPerMilli);
  EXPECT_LT(clientNow() - begun_ns, 500 * kNanosPerMilli);
}

TEST_F(CallerTest, TakesTheNextLocatorWhenOneDoesNotAnswer) {
  begin();
  address.locators.insert(address.locators.begin(), transport::Locator::parse("sim://nobody").value());
  NotedCall call;
  startCall(call);
  ASSERT_TRUE(await(call));
  EXPECT_EQ(call.outcome(), Status::Ok);
}

// A server with two locators; over the first, sessions open and calls are not answered.
class BlockedWayTest : public CallerTest {
 protected:
  BlockedWayTest() {
    begin();
    blocked = &add("blocked", {.role = Role::Server, .id = kServerId});
    blocked->listen();
    swallow.addTo(blocked->dispatch().services(), {.roles = allow({Role::Client})});
    address.locators.insert(address.locators.begin(), blocked->locator());
  }
  // Starts a call that is answered at once over the second locator only.
  void startScan(NotedCall& call) { startCall(call, Opcode::Scan); }
  // Loses a session over the first locator, which answers no call.
  void loseOne() {
    NotedCall call;
    startScan(call);
    ASSERT_TRUE(runUntil([&] { return !swallow.kept.empty(); }));
    network.cut("client", "blocked");
    ASSERT_TRUE(await(call));
    EXPECT_EQ(call.outcome(), Status::SessionLost);
    forget();
  }
  // Ends the session over the second locator; the next call opens another one.
  void endSession() {
    network.cut("client", "server");
    runFor(kNanosPerMilli);
  }
  void forget() {
    blocked->onDispatch([&] { swallow.answerKept(); });
  }
  // The name of the process that answers a call which both would answer.
  std::string wayOf(NotedCall& call) {
    const size_t heard_before = swallow.heard.size();
    startCall(call);
    EXPECT_TRUE(await(call));
    EXPECT_EQ(call.outcome(), Status::Ok);
    return swallow.heard.size() != heard_before ? "blocked" : "server";
  }
  std::string wayOfNext() {
    NotedCall call;
    return wayOf(call);
  }
  size_t warnings() const {
    return static_cast<size_t>(std::count_if(log.lines().begin(), log.lines().end(), [](const std::string& line) {
      return line.find("warning") != std::string::npos &&
             line.find("sim://blocked opened and was lost") != std::string::npos;
    }));
  }

  EchoService swallow;
  RpcProcess* blocked = nullptr;
};

TEST_F(BlockedWayTest, ALocatorThatOpensAndDoesNotAnswerIsLeft) {
  // The call that waits for a slot meanwhile is sent over the other locator.
  std::deque<NotedCall> calls(kSlots + 1);
  for (NotedCall& call : calls) startScan(call);
  ASSERT_TRUE(runUntil([&] { return swallow.kept.size() == kSlots; }));
  network.cut("client", "blocked");
  ASSERT_TRUE(runUntil([&] { return echo.kept.size() == 1 || swallow.kept.size() > kSlots; }));
  EXPECT_EQ(swallow.kept.size(), kSlots);
  server->onDispatch([&] { echo.answerKept(); });
  forget();
  for (NotedCall& call : calls) ASSERT_TRUE(await(call));
  EXPECT_EQ(calls.back().outcome(), Status::Ok);
  EXPECT_EQ(wayOfNext(), "server");
  EXPECT_EQ(warnings(), 1u);
}

TEST_F(BlockedWayTest, AfterThirtySecondsItIsTriedAgain) {
  loseOne();
  EXPECT_EQ(wayOfNext(), "server");
  runFor(29 * kNanosPerSecond);
  endSession();
  EXPECT_EQ(wayOfNext(), "server") << "still avoided";
  runFor(2 * kNanosPerSecond);
  EXPECT_EQ(wayOfNext(), "server") << "a session that works is kept";
  endSession();
  loseOne();
  EXPECT_EQ(wayOfNext(), "server");
  EXPECT_EQ(warnings(), 1u) << "told once";
  runFor(31 * kNanosPerSecond);
  endSession();
  EXPECT_EQ(wayOfNext(), "blocked");
}

TEST_F(BlockedWayTest, ASessionThatHasAnsweredIsOpenedThereAgain) {
  EXPECT_EQ(wayOfNext(), "blocked");
  loseOne();
  EXPECT_EQ(wayOfNext(), "blocked");
  EXPECT_EQ(warnings(), 0u);
}

TEST_F(BlockedWayTest, OneThatWasNotUsedSaysNothing) {
  NotedCall call;
  startCall(call);
  client->onDispatch([&] { client->caller->connection(address).cancel(call, Status::Cancelled); });
  ASSERT_TRUE(runUntil([&] { return client->endpoint->sessionCount() == 1; }));
  network.cut("client", "blocked");
  runFor(kNanosPerMilli);
  EXPECT_EQ(wayOfNext(), "blocked");
}

TEST_F(BlockedWayTest, WithoutAnotherWayTheAvoidedOneIsTaken) {
  loseOne();
  network.isolate("server");
  EXPECT_EQ(wayOfNext(), "blocked");
}

TEST_F(BlockedWayTest, TheOnlyOneIsNotAvoided) {
  address.locators.pop_back();
  loseOne();
  EXPECT_EQ(wayOfNext(), "blocked");
  EXPECT_EQ(warnings(), 0u);
}

TEST_F(CallerTest, ShutDownEndsEverything) {
  begin();
  std::deque<NotedCall> calls(kSlots + 3);
  for (NotedCall& call : calls) startCall(call, Opcode::Scan);
  ASSERT_TRUE(runUntil([&] { return echo.kept.size() == kSlots; }));
  client->onDispatch([&] { client->caller->shutDown(); });
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].ended, 1) << i;
    EXPECT_EQ(calls[i].was_sent, i < kSlots);
    EXPECT_EQ(calls[i].status, i < kSlots ? Status::SessionLost : Status::Shutdown) << i;
  }
  server->onDispatch([&] { echo.answerKept(); });
}

TEST_F(CallerTest, TheEndOfOneCallMayCancelAnother) {
  // Both wait for a connection that fails; the first one's end cancels the second.
  NotedCall first;
  NotedCall second;
  first.then = [&] { client->caller->connection(address).cancel(second, Status::Cancelled); };
  prepare(first);
  prepare(second);
  client->onDispatch([&] {
    client->caller->connection(address).start(first);
    client->caller->connection(address).start(second);
  });
  ASSERT_TRUE(await(first));
  EXPECT_EQ(first.outcome(), Status::Unreachable);
  EXPECT_EQ(second.ended, 1);
  EXPECT_EQ(second.outcome(), Status::Cancelled);
  runFor(kNanosPerSecond);
  EXPECT_EQ(second.ended, 1);
}

TEST_F(CallerTest, ARequestBeyondTheLimitsDoesNotBlockOthers) {
  begin();
  NotedCall warm;
  startCall(warm);
  ASSERT_TRUE(await(warm));
  NotedCall large;
  NotedCall small;
  const std::string body(wire::kMessageBytesMax, 'x');
  prepare(large, Opcode::Read, body);
  prepare(small);
  client->onDispatch([&] {
    client->caller->connection(address).start(large);
    client->caller->connection(address).start(small);
    EXPECT_EQ(large.ended, 0);
  });
  ASSERT_TRUE(await(large));
  ASSERT_TRUE(await(small));
  EXPECT_EQ(large.outcome(), Status::TooLarge);
  EXPECT_FALSE(large.was_sent);
  EXPECT_EQ(small.outcome(), Status::Ok);
}

// ---- the awaitable

struct Noted {
  bool done = false;
  CallResult result;
  bool on_executor = false;
};

runtime::Task<void> awaitCall(Caller& caller, runtime::Executor& executor, const PeerAddress& address,
                              transport::TxMessage message, CallSettings settings, Noted& noted) {
  co_await runtime::resumeOn(executor);
  noted.result = co_await caller.call(executor, address, std::move(message), settings);
  noted.on_executor = executor.isCurrent();
  noted.done = true;
}

TEST_F(CallerTest, AwaitingResumesOnTheExecutorThatAsked) {
  begin();
  runtime::SimExecutor& worker = client->node.makeExecutor("asker");
  Noted noted;
  awaitCall(*client->caller, worker, address, request(*client, Opcode::Read, kServerId, "text"), {}, noted).detach();
  ASSERT_TRUE(runUntil([&] { return noted.done; }));
  EXPECT_TRUE(noted.on_executor);
  EXPECT_EQ(noted.result.status, Status::Ok);
  EXPECT_TRUE(noted.result.may_have_happened);
  EXPECT_EQ(asText(noted.result.body()), "text");
}

TEST_F(CallerTest, AwaitingFailsWithTheStatusOfTheCall) {
  Noted noted;
  awaitCall(*client->caller, client->dispatch(), address, request(*client, Opcode::Read, kServerId, ""), {}, noted)
      .detach();
  ASSERT_TRUE(runUntil([&] { return noted.done; }));
  EXPECT_EQ(noted.result.status, Status::Unreachable);
  EXPECT_FALSE(noted.result.may_have_happened);
  EXPECT_TRUE(noted.result.body().empty());
  EXPECT_EQ(noted.result.retryAfterUs(), 0u);
}

TEST_F(CallerTest, AwaitingAfterShutDownSaysSo) {
  begin();
  client->onDispatch([&] { client->caller->shutDown(); });
  Noted noted;
  awaitCall(*client->caller, client->dispatch(), address, request(*client, Opcode::Read, kServerId, ""), {}, noted)
      .detach();
  ASSERT_TRUE(runUntil([&] { return noted.done; }));
  EXPECT_EQ(noted.result.status, Status::Shutdown);
}

}  // namespace
}  // namespace ramcore::rpc
