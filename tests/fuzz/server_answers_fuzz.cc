/// What hostile servers may answer to the commands of a coordinator: any status, and any bytes as the message.
/// Creations, moves, splits, recoveries and drops end or go on, clients understand the map and the status meanwhile,
/// and the next coordinator can read what is stored.
///
/// An input is a list of answers: status, length, bytes; both servers take from it in turn. When it is used up, they
/// say BadRequest to everything.

#include <algorithm>
#include <cstdlib>

#include "client/coordinator_stub.h"
#include "fuzz/coordinator_world.h"
#include "fuzz/planted.h"
#include "fuzz/scripted_answers.h"

namespace {

using namespace ramcore;
namespace control = wire::control;
using transport::Role;
using wire::Opcode;

class ServersWorld : private fuzz::CoordinatorWorld {
 public:
  explicit ServersWorld(std::string_view answers) : hostile_(answers, Status::BadRequest) {
    RC_CHECK(startCoordinator() == Status::Ok);
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
    // The other server recovers the tablets of this one, if its answers allow that.
    control::GoodbyeRequest goodbye;
    goodbye.set_id(1);
    goodbye.set_cluster(cluster_.disk.cluster().value);
    RC_CHECK(send(*servers_[0], Opcode::Goodbye, goodbye.SerializeAsString())->outcome() == Status::Ok);
    runFor(runtime::kNanosPerSecond);
    look();
    control::DropTableRequest drop;
    drop.set_table(1);
    ask(Opcode::DropTable, drop);
    look();
    RC_CHECK(startCoordinator() == Status::Ok);
  }

 private:
  void addServer(uint64_t id) {
    const std::string name = "server" + std::to_string(id);
    auto& server = servers_[id - 1];
    server = makeProcess(name, Role::Server, id);
    for (const Opcode opcode :
         {Opcode::TakeTablet, Opcode::DropTablet, Opcode::SplitTablet, Opcode::FreezeTablet, Opcode::UnfreezeTablet,
          Opcode::PullTablet, Opcode::PullProgress, Opcode::ServerState, Opcode::FenceServer, Opcode::RecoverTablets,
          Opcode::AdoptTablet, Opcode::LendTablet, Opcode::TabletLoads}) {
      hostile_.serve(*server, opcode, rpc::allow({Role::Coordinator}));
    }
    server->listen();
    control::EnlistRequest enlist;
    enlist.add_locators("sim://" + name);
    enlist.set_name(name);
    enlist.set_format_version(1);
    enlist.set_nonce(id);
    enlist.set_keeps_replicas(true);
    RC_CHECK(send(*server, Opcode::Enlist, enlist.SerializeAsString())->outcome() == Status::Ok);
  }

  template <typename Message>
  void ask(Opcode opcode, const Message& message) {
    renew();
    const int64_t asked_ns = cluster_.scheduler.nowNs();
    const Status outcome = send(*admin_, opcode, message.SerializeAsString())->outcome();
    RC_CHECK(name(outcome) != "Unknown" && outcome != Status::Internal);
    // A caller closes a session that was silent for seconds while it waited for an answer. The coordinator closes none.
    const bool was_silent = cluster_.scheduler.nowNs() >= asked_ns + 2 * runtime::kNanosPerSecond;
    RC_CHECK(outcome != Status::SessionLost || was_silent);
  }
  void renew() {
    for (uint64_t id = 1; id <= servers_.size(); ++id) {
      control::RenewServerLeaseRequest renewal;
      renewal.set_id(id);
      renewal.set_nonce(id);
      renewal.set_cluster(cluster_.disk.cluster().value);
      (void)send(*servers_[id - 1], Opcode::RenewServerLease, renewal.SerializeAsString());
    }
  }

  /// Whatever the servers say, the coordinator's answers are ones that the client library takes.
  void look() {
    renew();
    client::Pacer pacer(admin_->dispatch());
    client::CoordinatorStub stub(*admin_->caller, pacer, {address_}, {}, runtime::Random(1));
    bool is_done = false;
    admin_->onDispatch([&] { readAll(stub, is_done).detach(); });
    RC_CHECK(runUntil([&] { return is_done; }));
  }
  runtime::Task<void> readAll(client::CoordinatorStub& stub, bool& is_done) {
    const int64_t deadline_ns = admin_->node.clock().nowNs() + 5 * runtime::kNanosPerSecond;
    const auto tablets = co_await stub.allTablets(deadline_ns);
    RC_CHECK(tablets.ok());
    const auto status = co_await stub.clusterStatus(deadline_ns, true);
    RC_CHECK(status.ok() && status->servers.size() == servers_.size());
    const auto answered = std::count_if(status->servers.begin(), status->servers.end(),
                                        [](const client::ServerStatus& server) { return server.objects != 0; });
    fuzz::crashIfPlanted(answered == 1);
    is_done = true;
  }

  const std::unique_ptr<sim::RpcProcess> admin_ = makeProcess("admin", Role::Admin);
  fuzz::ScriptedAnswers hostile_;
  std::array<std::unique_ptr<sim::RpcProcess>, 2> servers_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ServersWorld(std::string_view(reinterpret_cast<const char*>(data), size)).run();
  return 0;
}
