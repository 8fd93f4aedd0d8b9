#include <algorithm>
#include <atomic>
#include <deque>
#include <list>
#include <thread>

#include "contract/transport_suite.h"

namespace ramcore::transport::contract {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class TransportContract : public ::testing::TestWithParam<Subject> {
 protected:
  TransportContract() : world(GetParam().make_world()) {}

  // A server that listens, echoes, and a client with a session to it.
  void connectBoth(uint16_t slots = 8, const std::string& secret = "") {
    server = std::make_unique<Process>(*world, Role::Server, 7, secret, slots);
    client = std::make_unique<Process>(*world, Role::Client, 0, secret, slots);
    auto listening = server->endpoint().listen(world->placeToListen(*server->node, 0));
    ASSERT_TRUE(listening.ok()) << listening.error().message;
    place = listening.value();
    server->echoRequests();
    session = connect(*client);
    ASSERT_TRUE(until([&] { return client->sink.opened.size() == 1 && server->sink.opened.size() == 1; }));
    ASSERT_EQ(client->sink.opened[0], session);
  }
  SessionId connect(Process& from, uint64_t expected_id = 0) {
    return from.endpoint().connect(place, expected_id, world->nowNs() + 10 * kSecond);
  }
  bool until(const std::function<bool()>& condition) {
    std::vector<Process*> processes;
    for (auto* process : {server.get(), client.get()}) {
      if (process != nullptr) processes.push_back(process);
    }
    return stepUntil(*world, processes, condition);
  }
  // Starts a call of `bytes` bytes.
  Status start(TestCall& call, uint32_t bytes, uint8_t first, uint32_t chunk_bytes = 300'000) {
    TxMessage request = makeMessage(client->endpoint(), owner, bytes, first, chunk_bytes);
    const Status status = client->endpoint().call(session, request, {}, call);
    return status;
  }
  void exchange(uint32_t bytes, uint8_t first, uint32_t chunk_bytes = 300'000) {
    TestCall call;
    ASSERT_EQ(start(call, bytes, first, chunk_bytes), Status::Ok);
    ASSERT_EQ(call.completions, 0) << "calls complete from poll()";
    ASSERT_TRUE(until([&] { return call.completions != 0; })) << bytes;
    EXPECT_EQ(call.status, Status::Ok);
    EXPECT_TRUE(hasPattern(call.response, bytes, first)) << bytes;
  }
  // Expects that the connection attempt `attempt` of the client fails with `reason`.
  void expectRefused(SessionId attempt, Status reason) {
    EXPECT_TRUE(client->sink.lost.empty()) << "never inside connect()";
    ASSERT_TRUE(until([&] { return !client->sink.lost.empty(); }));
    EXPECT_EQ(client->sink.lost[0].first, attempt);
    EXPECT_EQ(client->sink.lost[0].second, reason);
    EXPECT_TRUE(client->sink.opened.empty());
    EXPECT_EQ(client->endpoint().sessionCount(), 0u);
  }

  std::unique_ptr<World> world;
  CountingOwner owner;
  std::unique_ptr<Process> server;
  std::unique_ptr<Process> client;
  Locator place;
  SessionId session;
};

// What needs an ability has a suite of its own, made for the transports that have it.
class TransportSecrets : public TransportContract {};
class TransportClusterNames : public TransportContract {};
class TransportThreads : public TransportContract {};
class TransportSleep : public TransportContract {};

TEST_P(TransportContract, CallIsAnsweredAndBothKnowEachOther) {
  connectBoth();
  exchange(100, 1);
  const Peer* of_client = client->endpoint().peer(session);
  ASSERT_NE(of_client, nullptr);
  EXPECT_EQ(of_client->id, 7u);
  EXPECT_EQ(of_client->role, Role::Server);
  EXPECT_EQ(of_client->transport, client->endpoint().limits().name);
  const Peer* of_server = server->endpoint().peer(server->sink.opened[0]);
  ASSERT_NE(of_server, nullptr);
  EXPECT_EQ(of_server->role, Role::Client);
  EXPECT_FALSE(of_server->address.empty());
  EXPECT_EQ(client->endpoint().sessionCount(), 1u);
  EXPECT_EQ(server->endpoint().sessionCount(), 1u);
}

// The initiator may send before the acceptor knows that the session is open.
TEST_P(TransportContract, ACallRightBehindTheOpeningArrives) {
  connectBoth();
  for (size_t round = 1; round <= 10; ++round) {
    session = connect(*client);
    const size_t opened = client->sink.opened.size();
    // Both look at their sockets every so many rounds: here the one more often than the other.
    std::vector<Process*> processes(round * 11, server.get());
    processes.push_back(client.get());
    ASSERT_TRUE(stepUntil(*world, processes, [&] { return client->sink.opened.size() > opened; }));
    TestCall call;
    ASSERT_EQ(start(call, 100, static_cast<uint8_t>(round)), Status::Ok);
    // It is there before the server looks.
    const int64_t before_ns = world->nowNs();
    ASSERT_TRUE(stepUntil(*world, {client.get()}, [&] { return world->nowNs() - before_ns > kSecond / 50; }));
    ASSERT_TRUE(until([&] { return call.completions == 1 || world->nowNs() - before_ns > 5 * kSecond; }));
    ASSERT_EQ(call.status, Status::Ok);
    EXPECT_TRUE(hasPattern(call.response, 100, static_cast<uint8_t>(round)));
  }
}

TEST_P(TransportContract, MessagesOfEverySizeArrive) {
  connectBoth();
  for (uint32_t bytes = 0; bytes < 300; ++bytes) exchange(bytes, static_cast<uint8_t>(bytes));
  for (const uint32_t bytes : {4095u, 4096u, 65'535u, 65'536u, 65'537u, 262'144u, 1'000'003u}) exchange(bytes, 3);
}

TEST_P(TransportContract, LargestMessageArrivesAndALongerOneIsTooLarge) {
  connectBoth();
  const uint32_t bytes_max = client->endpoint().limits().message_bytes_max;
  exchange(bytes_max, 9);
  TestCall call;
  TxMessage request = makeMessage(client->endpoint(), owner, bytes_max + 1, 9);
  EXPECT_EQ(client->endpoint().call(session, request, {}, call), Status::TooLarge);
  EXPECT_TRUE(static_cast<bool>(request)) << "still the caller's";
  EXPECT_FALSE(call.in_flight);
}

TEST_P(TransportContract, GatherListsOfEveryLengthArriveAndReleaseEachOwnerOnce) {
  connectBoth();
  for (uint32_t chunks = 1; chunks <= TxBuffer::kChunkCountMax; ++chunks) {
    for (const uint32_t chunk_bytes : {1u, 7u, 500u}) exchange(61 + chunks * chunk_bytes, 5, chunk_bytes);
  }
  ASSERT_TRUE(until([&] { return owner.releasedOnce() == owner.lentCount(); }));
}

TEST_P(TransportContract, HeadAndContiguousBytesArriveInOnePiece) {
  connectBoth();
  server->sink.on_request = nullptr;
  TestCall call;
  TxMessage request = makeMessage(client->endpoint(), owner, 61 + 4 * 100, 0, 100);
  request->contiguous_bytes = 61 + 2 * 100;
  ASSERT_EQ(client->endpoint().call(session, request, {}, call), Status::Ok);
  ASSERT_TRUE(until([&] { return server->sink.held.size() == 1; }));
  const RxMessage& held = server->sink.held[0];
  EXPECT_GE(held.head().size(), 61u + 2 * 100);
  EXPECT_TRUE(isAligned(reinterpret_cast<uintptr_t>(held.head().data()), 8));
  EXPECT_TRUE(hasPattern(held, 61 + 4 * 100, 0));
  client->endpoint().abandon(session, call);
}

TEST_P(TransportContract, PriorityAndLimitOfTheAnswerReachTheServer) {
  connectBoth();
  server->sink.on_request = nullptr;
  TestCall call;
  TxMessage request = makeMessage(client->endpoint(), owner, 10, 0);
  const CallOptions options{.priority = runtime::Priority::Background, .response_bytes_max = 1234};
  ASSERT_EQ(client->endpoint().call(session, request, options, call), Status::Ok);
  ASSERT_TRUE(until([&] { return server->sink.held.size() == 1; }));
  EXPECT_EQ(server->sink.held[0].priority, runtime::Priority::Background);
  EXPECT_EQ(server->sink.held[0].reply_to.response_bytes_max, 1234u);
  client->endpoint().abandon(session, call);
}

TEST_P(TransportContract, AllSlotsCanBeInFlightAndOneMoreIsRetryLater) {
  connectBoth();
  server->sink.on_request = nullptr;
  std::list<TestCall> calls(client->endpoint().limits().slots_per_session);
  for (TestCall& call : calls) ASSERT_EQ(start(call, 2000, 3), Status::Ok);
  TestCall one_more;
  TxMessage request = makeMessage(client->endpoint(), owner, 100, 3);
  EXPECT_EQ(client->endpoint().call(session, request, {}, one_more), Status::RetryLater);
  EXPECT_TRUE(static_cast<bool>(request));
  EXPECT_FALSE(one_more.in_flight);
  ASSERT_TRUE(until([&] { return server->sink.held.size() == calls.size(); }));
  server->echoRequests();
  for (RxMessage& held : server->sink.held) server->sink.on_request(held);
  server->sink.held.clear();
  ASSERT_TRUE(until([&] {
    return std::all_of(calls.begin(), calls.end(), [](const TestCall& call) { return call.completions == 1; });
  }));
  EXPECT_EQ(client->endpoint().call(session, request, {}, one_more), Status::Ok);
  ASSERT_TRUE(until([&] { return one_more.completions == 1; }));
}

TEST_P(TransportContract, AnswersFindTheirCallsInAnyOrder) {
  connectBoth();
  server->sink.on_request = nullptr;
  std::deque<TestCall> calls(8);
  for (size_t i = 0; i < calls.size(); ++i) ASSERT_EQ(start(calls[i], 70, static_cast<uint8_t>(i)), Status::Ok);
  ASSERT_TRUE(until([&] { return server->sink.held.size() == calls.size(); }));
  server->echoRequests();
  for (const size_t i : {5, 0, 7, 2, 1, 6, 3, 4}) server->sink.on_request(server->sink.held[i]);
  server->sink.held.clear();
  ASSERT_TRUE(until([&] {
    return std::all_of(calls.begin(), calls.end(), [](const TestCall& call) { return call.completions == 1; });
  }));
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_TRUE(hasPattern(calls[i].response, 70, static_cast<uint8_t>(i)));
}

TEST_P(TransportContract, MessagesThatCameTogetherAreDeliveredTogether) {
  connectBoth();
  server->sink.on_request = nullptr;
  std::deque<TestCall> calls(8);
  for (TestCall& call : calls) ASSERT_EQ(start(call, 50, 1), Status::Ok);
  client->endpoint().flush();
  ASSERT_TRUE(until([&] { return server->sink.request_count == calls.size(); }));
  EXPECT_GT(server->sink.batch_max, 1u);
  for (TestCall& call : calls) client->endpoint().abandon(session, call);
}

TEST_P(TransportContract, PollDeliversAtMostWhatItIsAskedFor) {
  connectBoth();
  server->sink.on_request = nullptr;
  std::deque<TestCall> calls(8);
  for (TestCall& call : calls) ASSERT_EQ(start(call, 50, 1), Status::Ok);
  client->endpoint().flush();
  ASSERT_TRUE(stepUntil(*world, {client.get()}, [&] {
    const uint64_t before = server->sink.request_count;
    const uint32_t delivered = server->endpoint().poll(server->sink, 3);
    EXPECT_LE(delivered, 3u);
    EXPECT_EQ(server->sink.request_count - before, delivered);
    return server->sink.request_count == calls.size();
  }));
  EXPECT_LE(server->sink.batch_max, 3u);
  for (TestCall& call : calls) client->endpoint().abandon(session, call);
}

TEST_P(TransportContract, SessionsDoNotMixTheirMessages) {
  connectBoth();
  std::vector<SessionId> sessions = {session};
  for (int i = 0; i < 5; ++i) sessions.push_back(connect(*client));
  ASSERT_TRUE(until([&] { return client->sink.opened.size() == sessions.size(); }));
  std::deque<TestCall> calls(sessions.size() * 4);
  for (size_t i = 0; i < calls.size(); ++i) {
    TxMessage request = makeMessage(client->endpoint(), owner, 100 + static_cast<uint32_t>(i), static_cast<uint8_t>(i));
    ASSERT_EQ(client->endpoint().call(sessions[i % sessions.size()], request, {}, calls[i]), Status::Ok);
  }
  ASSERT_TRUE(until([&] {
    return std::all_of(calls.begin(), calls.end(), [](const TestCall& call) { return call.completions == 1; });
  }));
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_TRUE(hasPattern(calls[i].response, 100 + static_cast<uint32_t>(i), static_cast<uint8_t>(i)));
  }
  EXPECT_EQ(server->endpoint().sessionCount(), sessions.size());
}

TEST_P(TransportContract, AnAbandonedCallKeepsItsSlotUntilTheAnswerComes) {
  connectBoth();
  server->sink.on_request = nullptr;
  std::list<TestCall> calls(client->endpoint().limits().slots_per_session);
  for (TestCall& call : calls) ASSERT_EQ(start(call, 100, 3), Status::Ok);
  client->endpoint().abandon(session, calls.front());
  EXPECT_FALSE(calls.front().in_flight);
  TestCall one_more;
  EXPECT_EQ(start(one_more, 100, 3), Status::RetryLater);
  ASSERT_TRUE(until([&] { return server->sink.held.size() == calls.size(); }));
  server->echoRequests();
  for (RxMessage& held : server->sink.held) server->sink.on_request(held);
  server->sink.held.clear();
  ASSERT_TRUE(until([&] {
    return std::all_of(std::next(calls.begin()), calls.end(),
                       [](const TestCall& call) { return call.completions == 1; });
  }));
  EXPECT_EQ(calls.front().completions, 0);
  ASSERT_TRUE(until([&] { return start(one_more, 100, 3) == Status::Ok; }));
  ASSERT_TRUE(until([&] { return one_more.completions == 1; }));
}

TEST_P(TransportContract, BytesWithoutOwnerMayGoWhenTheCallIsAbandoned) {
  connectBoth();
  server->sink.on_request = nullptr;
  TestCall call;
  std::vector<std::byte> bytes(100, std::byte{0x11});
  TxMessage request = client->endpoint().allocate(8);
  request.appendHead(uint64_t{0x1111111111111111});
  request.appendChunk(Chunk{.address = bytes.data(), .bytes = 100});
  ASSERT_EQ(client->endpoint().call(session, request, {}, call), Status::Ok);
  client->endpoint().abandon(session, call);
  std::fill(bytes.begin(), bytes.end(), std::byte{0x22});
  ASSERT_TRUE(until([&] { return server->sink.held.size() == 1; }));
  for (const std::byte byte : server->sink.held[0].head()) EXPECT_EQ(byte, std::byte{0x11});
  for (const ByteSpan& span : server->sink.held[0].tail()) {
    for (const std::byte byte : span) EXPECT_EQ(byte, std::byte{0x11});
  }
}

TEST_P(TransportContract, ARequestReachesTheServiceAtMostOnce) {
  connectBoth();
  world->disturb();
  constexpr uint8_t kPatterns = 200;
  std::vector<int> delivered(kPatterns, 0);
  const auto echo = server->sink.on_request;
  server->sink.on_request = [&](RxMessage& request) {
    ++delivered[static_cast<uint8_t>(request.head()[0])];
    echo(request);
  };
  std::list<TestCall> calls;
  for (uint8_t pattern = 0; pattern < kPatterns; ++pattern) {
    TestCall& call = calls.emplace_back();
    ASSERT_TRUE(until([&] { return start(call, 100, pattern) == Status::Ok; }));
  }
  ASSERT_TRUE(until([&] {
    return std::all_of(calls.begin(), calls.end(), [](const TestCall& call) { return call.completions != 0; });
  }));
  for (int round = 0; round < 1'000; ++round) {  // whatever is still on its way
    server->step();
    client->step();
    world->passTime();
  }
  for (const TestCall& call : calls) EXPECT_EQ(call.completions, 1);
  EXPECT_EQ(delivered, std::vector<int>(kPatterns, 1));
}

TEST_P(TransportContract, NothingOfASessionThatTheServerClosedIsDelivered) {
  connectBoth();
  world->disturb();
  const uint64_t before = server->sink.request_count;
  std::deque<TestCall> calls(4);
  for (TestCall& call : calls) ASSERT_EQ(start(call, 100, 1), Status::Ok);
  client->endpoint().flush();
  for (int round = 0; round < 100; ++round) world->passTime();  // they have arrived, and the server did not look
  server->endpoint().close(server->sink.opened[0]);
  ASSERT_TRUE(until([&] {
    return std::all_of(calls.begin(), calls.end(), [](const TestCall& call) { return call.completions == 1; });
  }));
  for (const TestCall& call : calls) EXPECT_EQ(call.status, Status::SessionLost);
  // Also not through the next session of the same peer.
  session = connect(*client);
  ASSERT_TRUE(until([&] { return client->sink.opened.size() == 2; }));
  for (int round = 0; round < 1'000; ++round) {
    server->step();
    client->step();
    world->passTime();
  }
  EXPECT_EQ(server->sink.request_count, before);
}

TEST_P(TransportContract, CloseEndsTheCallsAndIsToldToThePeer) {
  connectBoth();
  server->sink.on_request = nullptr;
  TestCall call;
  ASSERT_EQ(start(call, 100, 3), Status::Ok);
  ASSERT_TRUE(until([&] { return server->sink.held.size() == 1; }));
  client->endpoint().close(session);
  ASSERT_TRUE(until([&] { return !client->sink.lost.empty() && !server->sink.lost.empty(); }));
  EXPECT_EQ(call.completions, 1);
  EXPECT_EQ(call.status, Status::SessionLost);
  EXPECT_EQ(client->sink.lost[0].first, session);
  EXPECT_EQ(server->sink.lost[0].second, Status::Shutdown);
  EXPECT_EQ(server->endpoint().sessionCount() + client->endpoint().sessionCount(), 0u);
  EXPECT_EQ(server->endpoint().badSessionCount() + client->endpoint().badSessionCount(), 0u);
  EXPECT_EQ(client->endpoint().peer(session), nullptr);
  TestCall late;
  EXPECT_EQ(start(late, 10, 0), Status::SessionLost);
}

/// A call that, when it ends, no longer wants the others: they are abandoned, and gone.
struct AbandoningCall : PendingCall {
  using All = std::vector<std::unique_ptr<AbandoningCall>>;
  AbandoningCall() : PendingCall(&AbandoningCall::onComplete) {}
  static void onComplete(PendingCall& call, Status, RxMessage) {
    auto& self = static_cast<AbandoningCall&>(call);
    ++*self.completions;
    for (auto& other : *self.all) {
      if (other == nullptr || other.get() == &self) continue;
      self.endpoint->abandon(self.session, *other);
      other.reset();
    }
  }
  Endpoint* endpoint = nullptr;
  SessionId session;
  All* all = nullptr;
  int* completions = nullptr;
};

TEST_P(TransportContract, ACallThatEndsWithItsSessionMayAbandonTheOthers) {
  connectBoth();
  server->sink.on_request = nullptr;
  AbandoningCall::All calls;
  int completions = 0;
  for (int i = 0; i < 4; ++i) {
    AbandoningCall& call = *calls.emplace_back(std::make_unique<AbandoningCall>());
    call.endpoint = &client->endpoint();
    call.session = session;
    call.all = &calls;
    call.completions = &completions;
    TxMessage request = makeMessage(client->endpoint(), owner, 100, 3);
    ASSERT_EQ(client->endpoint().call(session, request, {}, call), Status::Ok);
  }
  ASSERT_TRUE(until([&] { return server->sink.held.size() == calls.size(); }));
  client->endpoint().close(session);
  ASSERT_TRUE(until([&] { return !client->sink.lost.empty(); }));
  EXPECT_EQ(completions, 1);
}

TEST_P(TransportContract, AnAnswerToALostSessionIsDroppedAndItsOwnersReleased) {
  connectBoth();
  server->sink.on_request = nullptr;
  TestCall call;
  ASSERT_EQ(start(call, 100, 3), Status::Ok);
  ASSERT_TRUE(until([&] { return server->sink.held.size() == 1; }));
  client->endpoint().close(session);
  ASSERT_TRUE(until([&] { return !server->sink.lost.empty(); }));
  CountingOwner answer_owner;
  server->endpoint().reply(server->sink.held[0].reply_to, makeMessage(server->endpoint(), answer_owner, 5000, 1));
  ASSERT_TRUE(until([&] { return answer_owner.releasedOnce() == answer_owner.lentCount(); }));
  EXPECT_EQ(call.completions, 1);
}

TEST_P(TransportContract, ThePeersDeathLosesTheSessionAndASecondOneWorks) {
  connectBoth();
  server->sink.on_request = nullptr;
  std::list<TestCall> calls(3);
  for (TestCall& call : calls) ASSERT_EQ(start(call, 5000, 3), Status::Ok);
  ASSERT_TRUE(until([&] { return server->sink.held.size() == 3; }));
  server->die();
  ASSERT_TRUE(until([&] { return !client->sink.lost.empty(); }));
  EXPECT_EQ(client->sink.lost[0], std::pair(session, Status::SessionLost));
  for (const TestCall& call : calls) {
    EXPECT_EQ(call.completions, 1);
    EXPECT_EQ(call.status, Status::SessionLost);
  }

  server = std::make_unique<Process>(*world, Role::Server, 8);
  ASSERT_TRUE(server->endpoint().listen(place).ok());
  server->echoRequests();
  session = connect(*client, 8);
  EXPECT_NE(session, client->sink.lost[0].first) << "ids of sessions are not used again";
  ASSERT_TRUE(until([&] { return client->sink.opened.size() == 2; }));
  exchange(1000, 1);
}

TEST_P(TransportContract, TheClientsDeathLosesTheSession) {
  connectBoth();
  client->die();
  ASSERT_TRUE(until([&] { return !server->sink.lost.empty(); }));
  EXPECT_EQ(server->sink.lost[0].second, Status::SessionLost);
  EXPECT_EQ(server->endpoint().sessionCount(), 0u);
}

TEST_P(TransportContract, NobodyThereIsUnreachable) {
  client = std::make_unique<Process>(*world, Role::Client, 0);
  place = world->emptyPlace();
  expectRefused(connect(*client), Status::Unreachable);
}

TEST_P(TransportContract, AnotherServerIdIsWrongServerId) {
  server = std::make_unique<Process>(*world, Role::Server, 7);
  client = std::make_unique<Process>(*world, Role::Client, 0);
  place = server->endpoint().listen(world->placeToListen(*server->node, 0)).value();
  expectRefused(connect(*client, 6), Status::WrongServerId);
}

TEST_P(TransportContract, TheExpectedServerIdIsLetIn) {
  server = std::make_unique<Process>(*world, Role::Server, 7);
  client = std::make_unique<Process>(*world, Role::Client, 0);
  place = server->endpoint().listen(world->placeToListen(*server->node, 0)).value();
  const SessionId to = connect(*client, 7);
  ASSERT_TRUE(until([&] { return client->sink.opened.size() == 1; }));
  EXPECT_EQ(client->sink.opened[0], to);
}

TEST_P(TransportSecrets, AnotherSecretIsRefusedOnBothSides) {
  for (const auto& [of_server, of_client] : {std::pair("one", "two"), std::pair("one", ""), std::pair("", "two")}) {
    client.reset();
    server = std::make_unique<Process>(*world, Role::Server, 7, of_server);
    client = std::make_unique<Process>(*world, Role::Client, 0, of_client);
    place = server->endpoint().listen(world->placeToListen(*server->node, 0)).value();
    expectRefused(connect(*client), Status::Refused);
    EXPECT_TRUE(server->sink.opened.empty());
  }
}

TEST_P(TransportContract, TheSameSecretIsLetIn) {
  connectBoth(8, "a secret of some length");
  exchange(100, 1);
}

TEST_P(TransportClusterNames, AnotherClusterNameIsRefused) {
  server = std::make_unique<Process>(*world, Role::Server, 7);
  client = std::make_unique<Process>(*world, Role::Client, 0, "", 8, "another");
  place = server->endpoint().listen(world->placeToListen(*server->node, 0)).value();
  expectRefused(connect(*client), Status::Refused);
}

TEST_P(TransportContract, TwoListenersAtOnePlaceGiveInUse) {
  server = std::make_unique<Process>(*world, Role::Server, 7);
  client = std::make_unique<Process>(*world, Role::Server, 8);
  place = server->endpoint().listen(world->placeToListen(*server->node, 0)).value();
  auto second = client->endpoint().listen(place);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().status, Status::InUse);
  EXPECT_NE(second.error().message.find(';'), std::string::npos) << "a cause and a remedy: " << second.error().message;
}

TEST_P(TransportContract, AFloodOfLargeMessagesArrivesWholeWhileTheReaderIsSlow) {
  connectBoth();
  constexpr uint32_t kBytes = 1'500'000;
  server->sink.on_request = nullptr;
  std::list<TestCall> calls(client->endpoint().limits().slots_per_session);
  for (TestCall& call : calls) ASSERT_EQ(start(call, kBytes, 3), Status::Ok);
  // The server does not look for a while.
  for (int i = 0; i < 1000; ++i) {
    client->step();
    world->passTime();
  }
  ASSERT_TRUE(until([&] { return server->sink.held.size() == calls.size(); }));
  for (const RxMessage& held : server->sink.held) EXPECT_TRUE(hasPattern(held, kBytes, 3));
  CountingOwner answer_owner;
  for (const RxMessage& held : server->sink.held) {
    server->endpoint().reply(held.reply_to, makeMessage(server->endpoint(), answer_owner, kBytes, 4));
  }
  server->sink.held.clear();
  for (int i = 0; i < 1000; ++i) {
    server->step();
    world->passTime();
  }
  ASSERT_TRUE(until([&] {
    return std::all_of(calls.begin(), calls.end(), [](const TestCall& call) { return call.completions == 1; });
  }));
  for (const TestCall& call : calls) EXPECT_TRUE(hasPattern(call.response, kBytes, 4));
  ASSERT_TRUE(until([&] { return answer_owner.releasedOnce() == answer_owner.lentCount(); }));
}

// What a server lends to answers comes back in time, also when nobody takes them, and they arrive all the same.
TEST_P(TransportContract, AReaderThatStopsHoldsNothingThatWasLentToItsAnswers) {
  connectBoth();
  constexpr uint32_t kBytes = 3'000'000;
  server->sink.on_request = nullptr;
  std::list<TestCall> calls(client->endpoint().limits().slots_per_session);
  for (TestCall& call : calls) ASSERT_EQ(start(call, 1000, 3), Status::Ok);
  ASSERT_TRUE(until([&] { return server->sink.held.size() == calls.size(); }));
  world->setReading(*client->node, false);
  CountingOwner lender;
  for (const RxMessage& held : server->sink.held) {
    server->endpoint().reply(held.reply_to, makeMessage(server->endpoint(), lender, kBytes, 4));
  }
  server->sink.held.clear();
  const int64_t lent_ns = world->nowNs();
  ASSERT_TRUE(stepUntil(*world, {server.get()}, [&] { return lender.releasedOnce() == lender.lentCount(); }));
  // Ten times the deadline, because the machine may be busy.
  EXPECT_LT(world->nowNs() - lent_ns, kSecond);
  EXPECT_GT(server->endpoint().lendingCounts().messages_copied_out, 0u);
  EXPECT_TRUE(server->sink.lost.empty()) << "nobody is dropped for being slow";
  world->setReading(*client->node, true);
  ASSERT_TRUE(until([&] {
    return std::all_of(calls.begin(), calls.end(), [](const TestCall& call) { return call.completions == 1; });
  }));
  for (const TestCall& call : calls) EXPECT_TRUE(hasPattern(call.response, kBytes, 4));
  EXPECT_FALSE(lender.isAnyReleasedTwice());
  EXPECT_EQ(server->endpoint().lendingCounts().sessions_dropped, 0u);
}

// Neither side may wait for the other one to read before it reads itself.
TEST_P(TransportContract, LongAnswersPassLongRequests) {
  connectBoth();
  constexpr uint32_t kBytes = 4'000'000;  // all of them are more than sockets hold, and less than is too much
  std::list<TestCall> calls(client->endpoint().limits().slots_per_session);
  for (TestCall& call : calls) ASSERT_EQ(start(call, kBytes, 3), Status::Ok);
  ASSERT_TRUE(until([&] {
    return std::all_of(calls.begin(), calls.end(), [](const TestCall& call) { return call.completions == 1; });
  }));
  for (const TestCall& call : calls) EXPECT_TRUE(hasPattern(call.response, kBytes, 3)) << name(call.status);
}

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
    // One that came after the sleep had ended for another reason counts for the next.
    sleeper.wake();
    sleeper.sleep(before_ns + 20 * kSecond);
  }
  EXPECT_LT(world->nowNs() - before_ns, 10 * kSecond);
}

std::vector<Subject> subjectsWith(bool Abilities::* ability) {
  std::vector<Subject> able;
  std::copy_if(subjects().begin(), subjects().end(), std::back_inserter(able),
               [ability](const Subject& subject) { return subject.abilities.*ability; });
  return able;
}

std::string nameOf(const ::testing::TestParamInfo<Subject>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(All, TransportContract, ::testing::ValuesIn(subjects()), nameOf);
INSTANTIATE_TEST_SUITE_P(Able, TransportSecrets, ::testing::ValuesIn(subjectsWith(&Abilities::has_secrets)), nameOf);
INSTANTIATE_TEST_SUITE_P(Able, TransportClusterNames, ::testing::ValuesIn(subjectsWith(&Abilities::has_cluster_name)),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Able, TransportThreads, ::testing::ValuesIn(subjectsWith(&Abilities::any_thread_release)),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Able, TransportSleep, ::testing::ValuesIn(subjectsWith(&Abilities::has_sleeper)), nameOf);

}  // namespace
}  // namespace ramcore::transport::contract
