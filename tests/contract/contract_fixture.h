#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "contract/transport_suite.h"

namespace ramcore::transport::contract {

inline constexpr int64_t kSecond = 1'000'000'000;

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
    // No other session has been lost since.
    using Kind = OpenFailure::Kind;
    EXPECT_EQ(client->endpoint().openFailure().kind, reason == Status::Refused ? Kind::Refused : Kind::Unreachable);
    EXPECT_NE(client->endpoint().openFailure().text, "") << "a person has to be told why";
  }

  std::unique_ptr<World> world;
  CountingOwner owner;
  std::unique_ptr<Process> server;
  std::unique_ptr<Process> client;
  Locator place;
  SessionId session;
};

// Tests that need an ability are in a suite of their own, which is instantiated for the transports that have it.
class TransportSecrets : public TransportContract {};
class TransportClusterNames : public TransportContract {};
class TransportThreads : public TransportContract {};
class TransportBounds : public TransportContract {};
class TransportSleep : public TransportContract {};

}  // namespace ramcore::transport::contract
