#include "rpc/coordinators.h"

#include "unit/rpc/rpc_fixture.h"

namespace ramcore::rpc {
namespace {

using transport::Role;
using wire::Opcode;
using Kind = transport::OpenFailure::Kind;

std::vector<transport::Locator> parsed(std::initializer_list<const char*> texts) {
  std::vector<transport::Locator> locators;
  for (const char* text : texts) locators.push_back(transport::Locator::parse(text).value());
  return locators;
}

TEST(Coordinators, TakesTheNextWhenOneIsAway) {
  Coordinators coordinators(coordinatorAt(parsed({"sim://a", "sim://b", "sim://c"})));
  for (const Status status : {Status::Unreachable, Status::DeadlineExceeded, Status::SessionLost, Status::NotLeader,
                              Status::Refused, Status::WrongCluster, Status::StateBehind}) {
    const PeerAddress& asked = coordinators.current();
    coordinators.note(asked, status);
    EXPECT_NE(coordinators.current(), asked) << name(status);
    EXPECT_TRUE(coordinators.current().is_coordinator);
    EXPECT_EQ(coordinators.current().locators.size(), 1u);
  }
  EXPECT_EQ(coordinators.current().locators[0].host, "b") << "twice round, and one";
}

TEST(Coordinators, StaysWhereItIsAnswered) {
  Coordinators coordinators(coordinatorAt(parsed({"sim://a", "sim://b"})));
  for (const Status status : {Status::Ok, Status::RetryLater, Status::NoSpace, Status::BadRequest, Status::Fenced,
                              Status::OutcomeUnknown, Status::NoSuchTable}) {
    coordinators.note(coordinators.current(), status);
    EXPECT_EQ(coordinators.current().locators[0].host, "a") << name(status);
  }
}

// Several calls wait for a coordinator that dies, and all of them note its end: only one step to the next is made.
TEST(Coordinators, GoesOnOnceForAllWhoAskedTheSame) {
  Coordinators coordinators(coordinatorAt(parsed({"sim://a", "sim://b", "sim://c"})));
  const PeerAddress& asked = coordinators.current();
  for (int i = 0; i < 3; ++i) coordinators.note(asked, Status::SessionLost);
  EXPECT_EQ(coordinators.current().locators[0].host, "b");
}

class CoordinatorsTest : public RpcTest {
 protected:
  RpcProcess& listening(const std::string& name, Role role, uint64_t id = 0) {
    RpcProcess& process = add(name, {.role = role, .id = id});
    process.listen();
    echo.addTo(process.dispatch().services(), {.roles = allow({Role::Client})});
    return process;
  }
  Status ask(RpcProcess& client, const PeerAddress& address) {
    NotedCall call;
    call.request = request(client, Opcode::Read, 0, "text");
    start(client, call, address);
    EXPECT_TRUE(await(call));
    return call.status;
  }
  EchoService echo;
};

TEST_F(CoordinatorsTest, AServerIsNoCoordinator) {
  RpcProcess& client = add("client", {});
  listening("server", Role::Server, 5);
  listening("coordinator", Role::Coordinator);
  Coordinators coordinators(coordinatorAt(parsed({"sim://server", "sim://coordinator"})));
  const PeerAddress& wrong = coordinators.current();
  EXPECT_EQ(name(ask(client, wrong)), "Refused");
  EXPECT_EQ(echo.heard.size(), 0u) << "it hears no request that is meant for a coordinator";
  client.onDispatch([&] {
    const transport::OpenFailure& why = client.caller->connection(wrong).openFailure();
    EXPECT_EQ(why.kind, Kind::WrongRole);
    EXPECT_EQ(why.text, "a server listens there, and no coordinator; name the locator of the coordinator");
    EXPECT_FALSE(coordinators.areHopeless(*client.caller)) << "nobody has asked the other one";
    EXPECT_FALSE(coordinators.isAnyOpen(*client.caller));
  });
  coordinators.note(wrong, Status::Refused);
  EXPECT_EQ(name(ask(client, coordinators.current())), "Ok");
  client.onDispatch([&] {
    EXPECT_EQ(client.caller->connection(coordinators.current()).openFailure().kind, Kind::None);
    EXPECT_TRUE(coordinators.isAnyOpen(*client.caller));
  });
}

// A locator that is asked as a coordinator and as a server: the two are different connections.
TEST_F(CoordinatorsTest, WhoeverListensIsAskedByThoseWhoDoNotMind) {
  RpcProcess& client = add("client", {});
  RpcProcess& server = listening("server", Role::Server, 5);
  EXPECT_EQ(name(ask(client, coordinatorAt({server.locator()}))), "Refused");
  EXPECT_EQ(name(ask(client, addressOf(server, 0))), "Ok");
}

TEST_F(CoordinatorsTest, AreHopelessWhenEachOneIs) {
  RpcProcess& client = add("client", {});
  listening("one", Role::Server, 5);
  listening("two", Role::Server, 6);
  Coordinators coordinators(coordinatorAt(parsed({"sim://one", "sim://two"})));
  for (int i = 0; i < 2; ++i) {
    const PeerAddress& asked = coordinators.current();
    const Status status = ask(client, asked);
    coordinators.note(asked, status);
  }
  client.onDispatch([&] {
    EXPECT_TRUE(coordinators.areHopeless(*client.caller));
    EXPECT_TRUE(coordinators.haveRefused(*client.caller));
    EXPECT_EQ(
        coordinators.explain(*client.caller, "client"),
        "no coordinator at sim://one: a server listens there, and no coordinator; name the locator of the "
        "coordinator; no coordinator at sim://two: a server listens there, and no coordinator; name the locator of "
        "the coordinator");
  });
}

}  // namespace
}  // namespace ramcore::rpc
