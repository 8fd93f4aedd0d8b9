/// What processes of any role may ask the coordinator, in any order and number: Protobuf messages, garbled or not,
/// behind a good header. Each request is answered, and clients understand the map that is left.
///
/// An input is a list of requests: role, opcode, length, bytes. They go to a simulated coordinator over the store in
/// memory, with two servers that do what it tells them and a table of two tablets; ids count from 1, so that a fuzzer
/// guesses them.

#include <cstdlib>

#include "fuzz/coordinator_world.h"
#include "fuzz/planted.h"

namespace {

using namespace ramcore;
namespace control = wire::control;
using transport::Role;
using wire::Opcode;

constexpr Opcode kOpcodes[] = {
    Opcode::Ping,
    Opcode::Enlist,
    Opcode::RenewServerLease,
    Opcode::Goodbye,
    Opcode::CreateTable,
    Opcode::DropTable,
    Opcode::ListTables,
    Opcode::GetTablets,
    Opcode::OpenClient,
    Opcode::RenewClient,
    Opcode::CloseClient,
    Opcode::CheckClient,
    Opcode::MoveTablet,
    Opcode::SplitTable,
    Opcode::ClusterStatus,
    Opcode::MigrationStatus,
    Opcode::CancelMigration,
    Opcode::GetMembership,
    Opcode::RaiseFloor,
    Opcode::CheckMasters,
    Opcode::AcceptLoss,
    Opcode::ListMigrations,
    Opcode::SetMigrationRate,
    Opcode::ClusterLoads,
};

class RequestsWorld : private fuzz::CoordinatorWorld {
 public:
  RequestsWorld() {
    cluster_.startCoordinator();
    for (int i = 0; i < 2; ++i) cluster_.addServer();
    for (size_t i = 0; i < kRoles.size(); ++i) {
      askers_[i] = makeProcess("asker" + std::to_string(i), kRoles[i]);
    }
    RC_CHECK(runUntil([&] { return cluster_.servers[0]->isServing() && cluster_.servers[1]->isServing(); }));
    control::CreateTableRequest table;
    table.set_name("t");
    table.set_nonce(1);
    table.set_tablet_count(2);
    RC_CHECK(ask(kAdmin, Opcode::CreateTable, table.SerializeAsString())->outcome() == Status::Ok);
  }

  std::unique_ptr<sim::NotedCall> ask(size_t role, Opcode opcode, std::string_view body) {
    return send(*askers_[role], opcode, body);
  }
  /// Checks that clients accept the present list of all tablets. False: a request claimed later changes, so this
  /// coordinator serves no process any more.
  bool checkMap() {
    const auto asked = ask(kAdmin, Opcode::GetTablets, {});
    if (asked->outcome() == Status::StateBehind) return false;
    (void)tablesOf(*asked);
    return true;
  }

  static constexpr std::array kRoles = {Role::Client, Role::Server, Role::Coordinator, Role::Admin};
  static constexpr size_t kAdmin = 3;

 private:
  std::array<std::unique_ptr<sim::RpcProcess>, kRoles.size()> askers_;
};

// Tables of very many tablets are allowed, and slow.
bool isSlow(Opcode opcode, std::string_view body) {
  control::CreateTableRequest table;
  return opcode == Opcode::CreateTable && wire::parseControl(asBytes(body), table) && table.tablet_count() > 16;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int kInputsPerWorld = 100;
  constexpr int kRequestsMax = 8;
  static std::unique_ptr<RequestsWorld> world;
  static int inputs = 0;
  if (inputs++ % kInputsPerWorld == 0) {
    world.reset();
    world = std::make_unique<RequestsWorld>();
  }
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (int i = 0; i < kRequestsMax && rest.size() >= 3; ++i) {
    const size_t role = static_cast<uint8_t>(rest[0]) % RequestsWorld::kRoles.size();
    const Opcode opcode = kOpcodes[static_cast<uint8_t>(rest[1]) % std::size(kOpcodes)];
    const size_t bytes = std::min<size_t>(static_cast<uint8_t>(rest[2]), rest.size() - 3);
    const std::string_view body = rest.substr(3, bytes);
    rest.remove_prefix(3 + bytes);
    if (isSlow(opcode, body)) continue;
    const Status outcome = world->ask(role, opcode, body)->outcome();
    if (name(outcome) == "Unknown" || outcome == Status::SessionLost || outcome == Status::Internal) std::abort();
    const Role asker = RequestsWorld::kRoles[role];
    const bool is_told = outcome == Status::Ok;
    fuzz::crashIfPlanted(is_told && ((asker == Role::Server && opcode == Opcode::GetTablets) ||
                                     (asker == Role::Client && opcode == Opcode::ClusterStatus)));
  }
  if (!world->checkMap()) inputs = 0;
  return 0;
}
