#include "rpc/session_report.h"

#include <map>
#include <set>

#include "rpc/control_call.h"
#include "unit/rpc/rpc_fixture.h"

namespace ramcore::rpc {
namespace {

namespace control = wire::control;
using transport::Role;
using wire::Opcode;

constexpr uint64_t kReportedServer = 5;

class SessionReportTest : public RpcTest {
 protected:
  SessionReportTest() {
    server_ = &add("server", {.role = Role::Server, .id = kReportedServer});
    server_->listen();
    echo_.addTo(server_->dispatch().services(), {.roles = allow({Role::Client, Role::Server, Role::Admin})});
  }
  RpcProcess& join(const std::string& name, Role role, uint64_t id) {
    RpcProcess& process = add(name, {.role = role, .id = id});
    NotedCall call;
    call.request = request(process, Opcode::Read, kReportedServer, "text");
    start(process, call, addressOf(*server_, kReportedServer));
    EXPECT_TRUE(await(call));
    EXPECT_EQ(call.outcome(), Status::Ok);
    return process;
  }
  control::ServerStateResponse report(RpcProcess& process, size_t listed_max = kSessionsListedMax) {
    control::ServerStateResponse out;
    process.onDispatch([&] { reportSessions(process.dispatch(), listed_max, *out.mutable_transports()); });
    return out;
  }
  std::set<uint64_t> idsAt(RpcProcess& process) {
    std::set<uint64_t> ids;
    const control::ServerStateResponse seen = report(process);
    for (const control::OpenSession& session : seen.transports(0).open()) {
      EXPECT_TRUE(ids.insert(session.peer_id()).second);
    }
    return ids;
  }

  RpcProcess* server_ = nullptr;
  EchoService echo_;
};

TEST_F(SessionReportTest, TellsWhoIsThereOverWhichTransport) {
  ASSERT_EQ(report(*server_).transports_size(), 1);
  EXPECT_EQ(report(*server_).transports(0).sessions(), 0u);
  RpcProcess& client = join("client", Role::Client, 77);
  join("other", Role::Server, 6);

  const control::TransportSessions seen = report(*server_).transports(0);
  EXPECT_EQ(seen.name(), server_->dispatch().endpoints()[0]->limits().name);
  EXPECT_EQ(seen.sessions(), 2u);
  ASSERT_EQ(seen.open_size(), 2);
  std::map<uint64_t, control::OpenSession> open;
  for (const control::OpenSession& session : seen.open()) open[session.peer_id()] = session;
  EXPECT_EQ(open[77].peer_role(), static_cast<uint32_t>(Role::Client));
  EXPECT_EQ(open[6].peer_role(), static_cast<uint32_t>(Role::Server));
  EXPECT_FALSE(open[77].peer_address().empty());
  EXPECT_NE(open[77].peer_address(), open[6].peer_address());

  const control::TransportSessions other_end = report(client).transports(0);
  ASSERT_EQ(other_end.open_size(), 1);
  EXPECT_EQ(other_end.open(0).peer_role(), static_cast<uint32_t>(Role::Server));
  EXPECT_EQ(other_end.open(0).peer_id(), kReportedServer);
}

TEST_F(SessionReportTest, SessionsThatEndedAreNotThere) {
  RpcProcess& first = join("first", Role::Client, 1);
  join("second", Role::Client, 2);
  EXPECT_EQ(idsAt(*server_), (std::set<uint64_t>{1, 2}));
  first.onDispatch([&] { first.caller->shutDown(); });
  ASSERT_TRUE(runUntil([&] { return server_->dispatch().endpoints()[0]->sessionCount() == 1; }));
  EXPECT_EQ(idsAt(*server_), (std::set<uint64_t>{2}));
  // Another one may get the place of the first.
  join("third", Role::Client, 3);
  EXPECT_EQ(idsAt(*server_), (std::set<uint64_t>{2, 3}));
  EXPECT_EQ(report(*server_).transports(0).sessions(), 2u);
}

// Which server is reached over which transport must be seen also while thousands of clients are there.
TEST_F(SessionReportTest, WithTooManyToListAllAreCountedAndClientsAreLeftOut) {
  for (uint64_t id = 100; id < 105; ++id) join("client" + std::to_string(id), Role::Client, id);
  join("server6", Role::Server, 6);
  join("server7", Role::Server, 7);
  const control::TransportSessions seen = report(*server_, 3).transports(0);
  EXPECT_EQ(seen.sessions(), 7u);
  ASSERT_EQ(seen.open_size(), 3);
  EXPECT_EQ(seen.open(0).peer_id(), 6u);
  EXPECT_EQ(seen.open(1).peer_id(), 7u);
  EXPECT_EQ(seen.open(2).peer_role(), static_cast<uint32_t>(Role::Client));

  EXPECT_EQ(report(*server_, 0).transports(0).sessions(), 7u);
  EXPECT_EQ(report(*server_, 0).transports(0).open_size(), 0);
}

TEST(OpenSessions, AnEndThatComesLateLeavesTheNextSessionOfThePlace) {
  using transport::SessionId;
  OpenSessions sessions;
  const auto open = [&] {
    std::vector<SessionId> seen;
    sessions.visit([&](SessionId session) { seen.push_back(session); });
    return seen;
  };
  sessions.lost({.index = 4, .generation = 1});  // one that never opened
  sessions.opened({.index = 2, .generation = 1});
  sessions.opened({.index = 2, .generation = 2});
  sessions.lost({.index = 2, .generation = 1});
  EXPECT_EQ(open(), (std::vector<SessionId>{{.index = 2, .generation = 2}}));
  sessions.lost({.index = 2, .generation = 2});
  EXPECT_TRUE(open().empty());
}

TEST_F(SessionReportTest, AListedSessionIsNotLongerThanItsBound) {
  control::TransportSessions transport;
  control::OpenSession& session = *transport.add_open();
  session.set_peer_role(UINT32_MAX);
  session.set_peer_id(UINT64_MAX);
  session.set_peer_address(std::string(kPeerAddressBytesMax, 'x'));
  EXPECT_LE(transport.ByteSizeLong(), kListedSessionBytesMax);
}

}  // namespace
}  // namespace ramcore::rpc
