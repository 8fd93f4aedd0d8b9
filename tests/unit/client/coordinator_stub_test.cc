// Tests which coordinator is asked, and for how long.
#include "client/coordinator_stub.h"

#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "rpc/control_call.h"
#include "unit/rpc/rpc_fixture.h"

namespace ramcore::client {
namespace {

using runtime::kNanosPerSecond;
using transport::Role;

constexpr int64_t kPatienceNs = 20 * kNanosPerSecond;
constexpr int64_t kAtOnceNs = kNanosPerSecond / 2;

/// Answers pings, and refuses to drop tables and to move tablets.
class Answerer {
 public:
  void addTo(rpc::ServiceTable& table, Role of) {
    rpc::OpcodeRules rules;
    rules.roles = rpc::allow({of});
    table.add<&Answerer::answer>(wire::Opcode::Ping, *this, rules);
    table.add<&Answerer::answer>(wire::Opcode::DropTable, *this, rules);
    table.add<&Answerer::answer>(wire::Opcode::MoveTablet, *this, rules);
  }
  void answer(rpc::Request request) {
    if (++asked > answers_max) {
      kept.push_back(std::move(request));
      return;
    }
    request.reply(status);
  }
  Status status = Status::Ok;
  int asked = 0;
  int answers_max = std::numeric_limits<int>::max();
  std::vector<rpc::Request> kept = {};  ///< those that came after the last answer
};

class CoordinatorStubTest : public rpc::RpcTest {
 protected:
  CoordinatorStubTest() { client = &add("client", {}); }
  ~CoordinatorStubTest() override {
    client->onDispatch([this] { stub.reset(); });
  }

  rpc::RpcProcess& listening(const std::string& name, Role role, Answerer& answerer) {
    rpc::RpcProcess& process = add(name, {.role = role});
    process.listen();
    answerer.addTo(process.dispatch().services(), Role::Client);
    return process;
  }
  /// Makes the stub of a client that is given coordinators at these nodes.
  void make(std::initializer_list<const char*> nodes) {
    std::vector<rpc::PeerAddress> addresses;
    for (const char* node : nodes) {
      addresses.push_back(rpc::coordinatorAt({transport::Locator::parse(std::string("sim://") + node).value()}));
    }
    pacer.emplace(client->dispatch());
    stub.emplace(*client->caller, *pacer, std::move(addresses), RetrySettings{}, runtime::Random(1));
  }
  /// Sets took_ns.
  Status ping() {
    return ask([this](int64_t deadline_ns) { return stub->ping(deadline_ns); });
  }
  Status drop() {
    return ask([this](int64_t deadline_ns) { return stub->dropTable(TableId(1), deadline_ns); });
  }
  Status move() {
    return ask([this](int64_t deadline_ns) { return moved(*stub, deadline_ns); });
  }
  static runtime::Task<Status> moved(CoordinatorStub& stub, int64_t deadline_ns) {
    const Result<uint64_t> move = co_await stub.moveTablet(TabletId(1), ServerId(2), deadline_ns);
    co_return move.ok() ? Status::Ok : move.error();
  }
  Status ask(const std::function<runtime::Task<Status>(int64_t deadline_ns)>& call) {
    struct Asked {
      bool is_over = false;
      Status status = Status::Internal;
    } asked;
    const int64_t began_ns = client->node.clock().nowNs();
    client->onDispatch([&] { await(call(began_ns + kPatienceNs), asked.is_over, asked.status).detach(); });
    EXPECT_TRUE(runUntil([&] { return asked.is_over; }));
    took_ns = client->node.clock().nowNs() - began_ns;
    return asked.status;
  }
  static runtime::Task<void> await(runtime::Task<Status> call, bool& is_over, Status& status) {
    status = co_await call;
    is_over = true;
  }
  std::string why() {
    std::string text;
    client->onDispatch([&] { text = stub->whyNoAnswer(); });
    return text;
  }

  rpc::RpcProcess* client = nullptr;
  std::optional<Pacer> pacer;
  std::optional<CoordinatorStub> stub;
  int64_t took_ns = 0;
};

TEST_F(CoordinatorStubTest, GoesOnToTheNextWhenOneIsNotInCharge) {
  Answerer standby{.status = Status::NotLeader};
  Answerer leader;
  listening("standby", Role::Coordinator, standby);
  listening("leader", Role::Coordinator, leader);
  make({"standby", "leader"});
  EXPECT_EQ(name(ping()), "Ok");
  EXPECT_EQ(standby.asked, 1);
  EXPECT_EQ(name(ping()), "Ok");
  EXPECT_EQ(standby.asked, 1) << "it stays with the one that answers";
  // The other one takes over.
  leader.status = Status::NotLeader;
  standby.status = Status::Ok;
  EXPECT_EQ(name(ping()), "Ok");
  EXPECT_EQ(standby.asked, 2);
  EXPECT_LT(took_ns, kAtOnceNs);
}

TEST_F(CoordinatorStubTest, StaysWhereItIsAskedToComeBack) {
  Answerer busy{.status = Status::RetryLater};
  Answerer other{.status = Status::NotLeader};
  listening("busy", Role::Coordinator, busy);
  listening("other", Role::Coordinator, other);
  make({"busy", "other"});
  EXPECT_EQ(name(ping()), "DeadlineExceeded");
  EXPECT_GT(busy.asked, 10);
  EXPECT_EQ(why().find("no answer in time"), std::string::npos) << "it has answered: " << why();
  EXPECT_NE(why().find("the coordinator at sim://busy, sim://other answers, but does not serve yet: "),
            std::string::npos)
      << why();
  EXPECT_EQ(other.asked, 0);
}

// The cause is the older copy, whichever coordinator was asked last: that others do not answer is not what is wrong.
TEST_F(CoordinatorStubTest, AnOlderCopyIsTheReasonThoughOthersDoNotAnswer) {
  Answerer behind{.status = Status::StateBehind};
  listening("behind", Role::Coordinator, behind);
  for (const auto nodes : {std::initializer_list<const char*>{"behind", "nowhere"},
                           {"nowhere", "behind"},
                           {"nowhere", "behind", "gone"}}) {
    make(nodes);
    EXPECT_EQ(name(ping()), "StateBehind");
    EXPECT_GT(behind.asked, 2);
  }
}

// The time ends while an attempt is under way: it is the answer before that tells what to do.
TEST_F(CoordinatorStubTest, AFullDiskIsTheReasonThoughTheLastAttemptHasNoAnswer) {
  Answerer full{.status = Status::CoordinatorFull, .answers_max = 3};
  rpc::RpcProcess& process = listening("full", Role::Coordinator, full);
  make({"full"});
  EXPECT_EQ(name(drop()), "CoordinatorFull");
  EXPECT_GT(full.kept.size(), 1U);
  // A move that was asked for again without an answer may have begun.
  full.answers_max = full.asked + 3;
  EXPECT_EQ(name(move()), "OutcomeUnknown");
  full.answers_max = std::numeric_limits<int>::max();
  EXPECT_EQ(name(move()), "CoordinatorFull") << "the last answer says that nothing has";
  // Whatever else it answers takes its place.
  full.answers_max = full.asked + 1;
  full.status = Status::RetryLater;
  EXPECT_EQ(name(drop()), "OutcomeUnknown");
  process.onDispatch([&] {
    for (rpc::Request& request : full.kept) request.reply(Status::Ok);
  });
}

TEST_F(CoordinatorStubTest, EndsAtOnceWhereWaitingCannotHelp) {
  Answerer answerer;
  listening("one", Role::Server, answerer);
  listening("two", Role::Server, answerer);
  make({"one", "two"});
  EXPECT_EQ(name(ping()), "Refused");
  EXPECT_LT(took_ns, kAtOnceNs);
  EXPECT_EQ(answerer.asked, 0);
  EXPECT_NE(why().find("no coordinator at sim://one: a server listens there"), std::string::npos) << why();
  EXPECT_NE(why().find("no coordinator at sim://two: a server listens there"), std::string::npos) << why();
}

TEST_F(CoordinatorStubTest, WaitsWhileOneOfThemMayCome) {
  Answerer answerer;
  listening("server", Role::Server, answerer);
  make({"server", "nowhere"});
  EXPECT_NE(ping(), Status::Ok);
  EXPECT_GT(took_ns, kPatienceNs / 2);
  listening("nowhere", Role::Coordinator, answerer);
  EXPECT_EQ(name(ping()), "Ok");
  EXPECT_EQ(answerer.asked, 1);
}

}  // namespace
}  // namespace ramcore::client
