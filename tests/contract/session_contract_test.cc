// How sessions begin and end.
#include <algorithm>
#include <deque>
#include <list>

#include "contract/contract_fixture.h"

namespace ramcore::transport::contract {
namespace {

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

/// A call that abandons and destroys all other calls when it ends.
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
  ASSERT_TRUE(until([&] { return answer_owner.releasedOnce() == answer_owner.borrowedCount(); }));
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

TEST_P(TransportContract, AServerWithoutAnIdMayBecomeTheExpectedOne) {
  server = std::make_unique<Process>(*world, Role::Server, 0);
  client = std::make_unique<Process>(*world, Role::Client, 0);
  place = server->endpoint().listen(world->placeToListen(*server->node, 0)).value();
  expectRefused(connect(*client, 6), Status::RetryLater);
  // A caller that expects no particular server id is let in.
  const SessionId to = connect(*client);
  ASSERT_TRUE(until([&] { return client->sink.opened.size() == 1; }));
  EXPECT_EQ(client->sink.opened[0], to);
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

// Servers that clients shut out of each other, or of the coordinator, would end with their leases.
TEST_P(TransportBounds, AnEighthOfTheSessionsIsKeptFromClients) {
  constexpr uint32_t kSessionsMax = 16;
  server = std::make_unique<Process>(*world, Role::Server, 7, "", 8, "contract", kSessionsMax);
  client = std::make_unique<Process>(*world, Role::Client, 0);
  place = server->endpoint().listen(world->placeToListen(*server->node, 0)).value();
  const auto isIn = [&](SessionId attempt) { return std::ranges::count(client->sink.opened, attempt) == 1; };
  const auto isOut = [&](SessionId attempt) {
    return std::ranges::count(client->sink.lost, attempt, &std::pair<SessionId, Status>::first) == 1;
  };
  const auto enters = [&] {
    const SessionId attempt = connect(*client);
    EXPECT_TRUE(until([&] { return isIn(attempt) || isOut(attempt); }));
    return isIn(attempt);
  };
  for (uint32_t i = 0; i < kSessionsMax - kSessionsMax / 8; ++i) ASSERT_TRUE(enters()) << i;
  EXPECT_FALSE(enters());
  ASSERT_FALSE(client->sink.lost.empty());
  EXPECT_EQ(client->sink.lost[0].second, Status::Unreachable) << "it tries again";
  EXPECT_NE(client->endpoint().openFailure().text.find("--sessions-max"), std::string::npos)
      << client->endpoint().openFailure().text;
  // The two that are left: for one of its own, and for another server.
  const Locator other = client->endpoint().listen(world->placeToListen(*client->node, 1)).value();
  const SessionId own = server->endpoint().connect(other, 0, world->nowNs() + 10 * kSecond);
  EXPECT_TRUE(until([&] { return std::ranges::count(server->sink.opened, own) == 1; }));
  client->identity.role = Role::Server;
  EXPECT_TRUE(enters());
  EXPECT_TRUE(until([&] { return server->endpoint().sessionCount() == kSessionsMax; }));
  // A client that leaves makes room for one.
  client->endpoint().close(client->sink.opened[0]);
  EXPECT_TRUE(until([&] { return server->endpoint().sessionCount() == kSessionsMax - 1; }));
  client->identity.role = Role::Client;
  EXPECT_TRUE(enters());
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

}  // namespace
}  // namespace ramcore::transport::contract
