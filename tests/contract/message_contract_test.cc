// Messages that go, and those that must not: the contract of docs/transport.md.
#include <algorithm>
#include <deque>
#include <list>

#include "contract/contract_fixture.h"

namespace ramcore::transport::contract {
namespace {

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
    // The message arrives before the server looks.
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
  ASSERT_TRUE(until([&] { return owner.releasedOnce() == owner.borrowedCount(); }));
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
  // The requests do not arrive through the next session of the same peer either.
  session = connect(*client);
  ASSERT_TRUE(until([&] { return client->sink.opened.size() == 2; }));
  for (int round = 0; round < 1'000; ++round) {
    server->step();
    client->step();
    world->passTime();
  }
  EXPECT_EQ(server->sink.request_count, before);
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
  ASSERT_TRUE(until([&] { return answer_owner.releasedOnce() == answer_owner.borrowedCount(); }));
}

// Bytes that answers borrow from a server are given back in time, also when the client does not read the answers. The
// answers arrive all the same.
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
  const int64_t borrowed_ns = world->nowNs();
  ASSERT_TRUE(stepUntil(*world, {server.get()}, [&] { return lender.releasedOnce() == lender.borrowedCount(); }));
  // Ten times the deadline, because the machine may be busy.
  EXPECT_LT(world->nowNs() - borrowed_ns, kSecond);
  EXPECT_GT(server->endpoint().borrowedCounts().messages_copied_out, 0u);
  EXPECT_TRUE(server->sink.lost.empty()) << "nobody is dropped for being slow";
  world->setReading(*client->node, true);
  ASSERT_TRUE(until([&] {
    return std::all_of(calls.begin(), calls.end(), [](const TestCall& call) { return call.completions == 1; });
  }));
  for (const TestCall& call : calls) EXPECT_TRUE(hasPattern(call.response, kBytes, 4));
  EXPECT_FALSE(lender.isAnyReleasedTwice());
  EXPECT_EQ(server->endpoint().borrowedCounts().sessions_dropped, 0u);
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

}  // namespace
}  // namespace ramcore::transport::contract
