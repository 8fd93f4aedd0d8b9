#include <sys/wait.h>

#include "unit/transport/shm/shm_harness.h"

namespace ramcore::transport::shm {
namespace {

class ShmEndpoint : public ::testing::Test {
 protected:
  void connectBoth() {
    ASSERT_TRUE(server.endpoint->listen(folder.locator()).ok());
    server.sink.on_request = [this](RxMessage& request) { echo(*server.endpoint, request); };
    session = client.endpoint->connect(folder.locator(), 0, client.clock.nowNs() + 10 * runtime::kNanosPerSecond);
    ASSERT_TRUE(stepUntil({&server, &client}, [&] { return !client.sink.opened.empty(); }));
    ASSERT_EQ(client.sink.opened[0], session);
    ASSERT_EQ(server.sink.opened.size(), 1u);
  }
  // Sends `bytes` and expects them back.
  void exchange(uint32_t bytes, uint8_t seed) {
    TestCall call;
    TxMessage request = makeMessage(*client.endpoint, bytes, seed);
    ASSERT_EQ(client.endpoint->call(session, request, {}, call), Status::Ok);
    ASSERT_TRUE(stepUntil({&server, &client}, [&] { return call.completions != 0; }));
    EXPECT_EQ(call.status, Status::Ok);
    EXPECT_TRUE(hasPattern(call.response, bytes, seed)) << bytes;
  }

  SocketFolder folder;
  ShmOptions options{.ring_bytes = 16 * 1024};
  Side server{options, Role::Server, 7};
  Side client{options};
  SessionId session;
};

TEST_F(ShmEndpoint, CallIsAnswered) {
  connectBoth();
  exchange(100, 1);
  ASSERT_NE(client.endpoint->peer(session), nullptr);
  EXPECT_EQ(client.endpoint->peer(session)->id, 7u);
  EXPECT_EQ(client.endpoint->peer(session)->transport, "shm");
  EXPECT_EQ(client.endpoint->sessionCount(), 1u);
}

TEST_F(ShmEndpoint, MessagesOfEverySizeArrive) {
  connectBoth();
  for (uint32_t bytes : {0u, 1u, 7u, 8u, 9u, 61u, 62u, 4095u, 16'383u, 16'384u, 16'385u, 70'000u, 8'454'144u}) {
    exchange(bytes, static_cast<uint8_t>(bytes));
  }
  for (uint32_t bytes = 0; bytes < 3000; bytes += 13) exchange(bytes, static_cast<uint8_t>(bytes));
}

TEST_F(ShmEndpoint, LongerThanTheLimitIsTooLarge) {
  connectBoth();
  TestCall call;
  TxMessage request = makeMessage(*client.endpoint, client.endpoint->limits().message_bytes_max + 1, 0);
  EXPECT_EQ(client.endpoint->call(session, request, {}, call), Status::TooLarge);
  EXPECT_FALSE(call.in_flight);
}

TEST_F(ShmEndpoint, AllSlotsTakenGivesRetryLater) {
  connectBoth();
  server.sink.on_request = nullptr;
  std::vector<TestCall> calls(options.slots_per_session);
  for (TestCall& call : calls) {
    TxMessage request = makeMessage(*client.endpoint, 2000, 3);
    ASSERT_EQ(client.endpoint->call(session, request, {}, call), Status::Ok);
  }
  TestCall one_more;
  TxMessage request = makeMessage(*client.endpoint, 10, 3);
  EXPECT_EQ(client.endpoint->call(session, request, {}, one_more), Status::RetryLater);
  ASSERT_TRUE(stepUntil({&server, &client}, [&] { return server.sink.held.size() == calls.size(); }));
  for (RxMessage& held : server.sink.held) echo(*server.endpoint, held);
  ASSERT_TRUE(stepUntil({&server, &client}, [&] {
    return std::all_of(calls.begin(), calls.end(), [](const TestCall& call) { return call.completions == 1; });
  }));
  EXPECT_EQ(client.endpoint->call(session, request, {}, one_more), Status::Ok);
  ASSERT_TRUE(stepUntil({&server, &client}, [&] { return server.sink.held.size() == calls.size() + 1; }));
  client.endpoint->abandon(session, one_more);
  EXPECT_FALSE(one_more.in_flight);
}

TEST_F(ShmEndpoint, AbandonedRequestThatWaitsForRoomKeepsItsBytes) {
  connectBoth();
  server.sink.on_request = nullptr;
  std::vector<std::byte> bytes(100'000, std::byte{1});  // more than the ring holds
  TestCall call;
  TxMessage request = client.endpoint->allocate(8);
  request.appendHead(uint64_t{0x0101010101010101});
  request.appendChunk(Chunk{.address = bytes.data(), .bytes = 100'000});
  ASSERT_EQ(client.endpoint->call(session, request, {}, call), Status::Ok);
  client.endpoint->abandon(session, call);
  std::fill(bytes.begin(), bytes.end(), std::byte{2});
  ASSERT_TRUE(stepUntil({&server, &client}, [&] { return server.sink.held.size() == 1; }));
  const ByteSpan head = server.sink.held[0].head();
  EXPECT_EQ(head.size(), 100'008u);
  EXPECT_TRUE(std::all_of(head.begin(), head.end(), [](std::byte byte) { return byte == std::byte{1}; }));
}

TEST_F(ShmEndpoint, CloseIsToldInOrder) {
  connectBoth();
  TestCall call;
  server.sink.on_request = nullptr;
  TxMessage request = makeMessage(*client.endpoint, 10, 3);
  ASSERT_EQ(client.endpoint->call(session, request, {}, call), Status::Ok);
  ASSERT_TRUE(stepUntil({&server, &client}, [&] { return server.sink.held.size() == 1; }));
  server.endpoint->close(server.sink.opened[0]);
  ASSERT_TRUE(stepUntil({&server, &client}, [&] { return !client.sink.lost.empty() && !server.sink.lost.empty(); }));
  EXPECT_EQ(client.sink.lost[0], std::pair(session, Status::Shutdown));
  EXPECT_EQ(call.completions, 1);
  EXPECT_EQ(call.status, Status::SessionLost);
  EXPECT_EQ(client.endpoint->badSessionCount() + server.endpoint->badSessionCount(), 0u);
  EXPECT_EQ(client.endpoint->sessionCount(), 0u);
  EXPECT_EQ(client.endpoint->call(session, request, {}, call), Status::SessionLost);
}

TEST_F(ShmEndpoint, NobodyListensGivesUnreachable) {
  const SessionId nowhere = client.endpoint->connect(folder.locator(), 0, runtime::kNever);
  EXPECT_TRUE(client.sink.lost.empty());
  client.step();
  ASSERT_EQ(client.sink.lost.size(), 1u);
  EXPECT_EQ(client.sink.lost[0], std::pair(nowhere, Status::Unreachable));
}

TEST_F(ShmEndpoint, AnotherServerIdIsRefusedByTheClient) {
  ASSERT_TRUE(server.endpoint->listen(folder.locator()).ok());
  client.endpoint->connect(folder.locator(), 8, client.clock.nowNs() + 10 * runtime::kNanosPerSecond);
  ASSERT_TRUE(stepUntil({&server, &client}, [&] { return !client.sink.lost.empty(); }));
  EXPECT_EQ(client.sink.lost[0].second, Status::WrongServerId);
}

// Only root can give a file away.
TEST_F(ShmEndpoint, APathOfAnotherUserThatAServerListsIsNotTouched) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_TRUE(server.endpoint->listen(folder.locator()).ok());
  ASSERT_EQ(::chown(folder.socketPath().c_str(), 65534, 65534), 0);
  const auto session_to = [&](uint64_t id) {
    return client.endpoint->connect(folder.locator(), id, client.clock.nowNs() + 10 * runtime::kNanosPerSecond);
  };
  const SessionId listed = session_to(7);
  client.step();
  ASSERT_EQ(client.sink.lost.size(), 1u);
  EXPECT_EQ(client.sink.lost[0], std::pair(listed, Status::Unreachable));
  // A path that a person has named (no expected id) is tried: the kernel has the last word on who listens there.
  session_to(0);
  ASSERT_TRUE(stepUntil({&server, &client}, [&] { return !client.sink.opened.empty(); }));
  EXPECT_EQ(server.sink.opened.size(), 1u);
}

TEST_F(ShmEndpoint, SecondListenerGetsInUse) {
  ASSERT_TRUE(server.endpoint->listen(folder.locator()).ok());
  auto second = client.endpoint->listen(folder.locator());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().status, Status::InUse);
}

TEST_F(ShmEndpoint, SocketOfADeadProcessIsReplaced) {
  const pid_t child = ::fork();
  if (child == 0) {
    Side dying(options, Role::Server, 9);
    ::_exit(dying.endpoint->listen(folder.locator()).ok() ? 0 : 1);  // leaves socket and lock file behind
  }
  int exit_status = 0;
  ASSERT_EQ(::waitpid(child, &exit_status, 0), child);
  ASSERT_EQ(exit_status, 0);
  ASSERT_EQ(::access(folder.socketPath().c_str(), F_OK), 0);
  connectBoth();
  exchange(10, 0);
}

TEST_F(ShmEndpoint, SleepersAreWoken) {
  ASSERT_TRUE(server.endpoint->listen(folder.locator()).ok());
  server.sink.on_request = [this](RxMessage& request) { echo(*server.endpoint, request); };
  std::atomic<bool> stop = false;
  std::thread serving([&] {
    while (!stop.load()) {
      if (server.step() != 0 || !server.endpoint->prepareSleep()) continue;
      server.sleeper.sleep(runtime::kNever);
      server.endpoint->awake();
    }
  });
  session = client.endpoint->connect(folder.locator(), 0, client.clock.nowNs() + 10 * runtime::kNanosPerSecond);
  const auto sleepUntil = [&](const std::function<bool()>& condition) {
    const int64_t deadline_ns = client.clock.nowNs() + 20 * runtime::kNanosPerSecond;
    while (!condition()) {
      ASSERT_LT(client.clock.nowNs(), deadline_ns);
      if (client.step() != 0 || condition() || !client.endpoint->prepareSleep()) continue;
      client.sleeper.sleep(deadline_ns);
      client.endpoint->awake();
    }
  };
  sleepUntil([&] { return !client.sink.opened.empty(); });
  for (uint32_t i = 0; i < 2000; ++i) {
    TestCall call;
    TxMessage request = makeMessage(*client.endpoint, i % 50 == 0 ? 100'000 : i, static_cast<uint8_t>(i));
    ASSERT_EQ(client.endpoint->call(session, request, {}, call), Status::Ok);
    client.endpoint->flush();
    sleepUntil([&] { return call.completions != 0; });
    ASSERT_TRUE(hasPattern(call.response, i % 50 == 0 ? 100'000 : i, static_cast<uint8_t>(i)));
  }
  stop.store(true);
  server.sleeper.wake();
  serving.join();
}

TEST_F(ShmEndpoint, ManySessionsAreAllServed) {
  ASSERT_TRUE(server.endpoint->listen(folder.locator()).ok());
  server.sink.on_request = [this](RxMessage& request) { echo(*server.endpoint, request); };
  constexpr size_t kSessions = 200;
  std::vector<SessionId> sessions;
  for (size_t i = 0; i < kSessions; ++i) {
    sessions.push_back(
        client.endpoint->connect(folder.locator(), 0, client.clock.nowNs() + 20 * runtime::kNanosPerSecond));
    ASSERT_TRUE(stepUntil({&server, &client}, [&] { return client.sink.opened.size() == i + 1; }));
  }
  for (int round = 0; round < 20; ++round) {
    std::vector<TestCall> calls(kSessions);
    for (size_t i = 0; i < kSessions; ++i) {
      TxMessage request = makeMessage(*client.endpoint, 100, static_cast<uint8_t>(i));
      ASSERT_EQ(client.endpoint->call(sessions[i], request, {}, calls[i]), Status::Ok);
    }
    ASSERT_TRUE(stepUntil({&server, &client}, [&] {
      return std::all_of(calls.begin(), calls.end(), [](const TestCall& call) { return call.completions == 1; });
    }));
    for (size_t i = 0; i < kSessions; ++i) ASSERT_TRUE(hasPattern(calls[i].response, 100, static_cast<uint8_t>(i)));
  }
}

}  // namespace
}  // namespace ramcore::transport::shm
