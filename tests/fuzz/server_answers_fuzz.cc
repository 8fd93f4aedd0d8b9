/// What hostile servers may answer to the commands of a coordinator: any status, and any bytes as the message.
/// Creations, moves, splits and drops end or go on, clients understand the map and the status meanwhile, and the next
/// coordinator can read what is stored.
///
/// An input is a list of answers: status, length, bytes; both servers take from it in turn. When it is used up, they
/// say BadRequest to everything.

#include <algorithm>
#include <cstdlib>

#include "client/coordinator_stub.h"
#include "fuzz/planted.h"
#include "fuzz/scripted_answers.h"
#include "sim/cluster/sim_cluster.h"
#include "wire/control.h"

namespace {

using namespace ramcore;
namespace control = wire::control;
using transport::Role;
using wire::Opcode;

class ServersWorld {
 public:
  explicit ServersWorld(std::string_view answers)
      : cluster_(1, {}),
        admin_(cluster_.scheduler, cluster_.trace, cluster_.network, "admin",
               {.role = Role::Admin, .cluster_name = sim::SimCluster::kClusterName}),
        hostile_(answers, Status::BadRequest) {
    cluster_.startCoordinator();
    RC_CHECK(runUntil([&] { return cluster_.coordinator->started().has_value(); }));
    for (uint64_t id = 1; id <= servers_.size(); ++id) addServer(id);
  }

  void run() {
    control::CreateTableRequest create;
    create.set_name("t");
    create.set_nonce(7);
    create.set_tablet_count(2);
    ask(Opcode::CreateTable, create);
    look();
    control::MoveTabletRequest move;
    move.set_tablet(1);
    move.set_destination(1);
    ask(Opcode::MoveTablet, move);
    move.set_tablet(2);
    move.set_destination(2);
    ask(Opcode::MoveTablet, move);
    runFor(runtime::kNanosPerSecond);
    look();
    control::SplitTableRequest split;
    split.set_table(1);
    split.set_at_hash(uint64_t{1} << 62);
    ask(Opcode::SplitTable, split);
    look();
    control::DropTableRequest drop;
    drop.set_table(1);
    ask(Opcode::DropTable, drop);
    look();
    cluster_.killCoordinator();
    cluster_.startCoordinator();
    RC_CHECK(runUntil([&] { return cluster_.coordinator->started().has_value(); }));
    RC_CHECK(*cluster_.coordinator->started() == Status::Ok);
  }

 private:
  void addServer(uint64_t id) {
    const std::string name = "server" + std::to_string(id);
    auto& server = servers_[id - 1];
    server = std::make_unique<sim::RpcProcess>(
        cluster_.scheduler, cluster_.trace, cluster_.network, name,
        sim::RpcProcess::Options{.role = Role::Server, .id = id, .cluster_name = sim::SimCluster::kClusterName});
    for (const Opcode opcode :
         {Opcode::TakeTablet, Opcode::DropTablet, Opcode::SplitTablet, Opcode::FreezeTablet, Opcode::UnfreezeTablet,
          Opcode::PullTablet, Opcode::PullProgress, Opcode::ServerState}) {
      hostile_.serve(*server, opcode, rpc::allow({Role::Coordinator}));
    }
    server->listen();
    control::EnlistRequest enlist;
    enlist.add_locators("sim://" + name);
    enlist.set_name(name);
    enlist.set_format_version(1);
    enlist.set_nonce(id);
    RC_CHECK(send(*server, Opcode::Enlist, enlist)->outcome() == Status::Ok);
  }

  template <typename Message>
  std::unique_ptr<sim::NotedCall> send(sim::RpcProcess& from, Opcode opcode, const Message& message) {
    auto call = std::make_unique<sim::NotedCall>();
    const uint32_t bytes = wire::controlBytes(message);
    call->request = from.caller->allocate(static_cast<uint32_t>(sizeof(wire::RequestHeader)) + bytes);
    call->request.appendHead(wire::RequestHeader{.opcode = opcode, .target = {}});
    wire::storeControl(message, call->request.extendHead(bytes));
    from.onDispatch([&] { from.caller->connection(address_).start(*call); });
    RC_CHECK(runUntil([&] { return call->ended != 0; }));
    return call;
  }
  template <typename Message>
  void ask(Opcode opcode, const Message& message) {
    renew();
    const Status outcome = send(admin_, opcode, message)->outcome();
    RC_CHECK(name(outcome) != "Unknown" && outcome != Status::Internal && outcome != Status::SessionLost);
  }
  void renew() {
    for (uint64_t id = 1; id <= servers_.size(); ++id) {
      control::RenewServerLeaseRequest renewal;
      renewal.set_id(id);
      (void)send(*servers_[id - 1], Opcode::RenewServerLease, renewal);
    }
  }

  /// Whatever the servers say, the coordinator's answers are ones that the client library takes.
  void look() {
    renew();
    client::Pacer pacer(admin_.dispatch());
    client::CoordinatorStub stub(*admin_.caller, pacer, {address_}, {}, runtime::Random(1));
    bool is_done = false;
    admin_.onDispatch([&] { readAll(stub, is_done).detach(); });
    RC_CHECK(runUntil([&] { return is_done; }));
  }
  runtime::Task<void> readAll(client::CoordinatorStub& stub, bool& is_done) {
    const int64_t deadline_ns = admin_.node.clock().nowNs() + 5 * runtime::kNanosPerSecond;
    const auto tablets = co_await stub.allTablets(deadline_ns);
    RC_CHECK(tablets.ok());
    const auto status = co_await stub.clusterStatus(deadline_ns);
    RC_CHECK(status.ok() && status->servers.size() == servers_.size());
    const auto answered = std::count_if(status->servers.begin(), status->servers.end(),
                                        [](const client::ServerStatus& server) { return server.objects != 0; });
    fuzz::crashIfPlanted(answered == 1);
    is_done = true;
  }

  void runFor(int64_t ns) { cluster_.scheduler.runUntil(cluster_.scheduler.nowNs() + ns, 10'000'000); }
  bool runUntil(const std::function<bool()>& done) {
    const int64_t give_up_ns = cluster_.scheduler.nowNs() + 120 * runtime::kNanosPerSecond;
    bool is_done = false;
    cluster_.scheduler.runUntil([&] { return (is_done = done()) || cluster_.scheduler.nowNs() > give_up_ns; },
                                10'000'000);
    return is_done;
  }

  sim::SimCluster cluster_;
  sim::RpcProcess admin_;
  fuzz::ScriptedAnswers hostile_;
  std::array<std::unique_ptr<sim::RpcProcess>, 2> servers_;
  const rpc::PeerAddress address_{.id = 0, .locators = {transport::Locator::parse("sim://coordinator").value()}};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ServersWorld(std::string_view(reinterpret_cast<const char*>(data), size)).run();
  return 0;
}
