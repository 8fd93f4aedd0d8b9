/// What a hostile coordinator may answer, to a server and to the client library: any status, and any bytes as the
/// message. The server enlists and serves or says why not; the client's calls end before long, and what they hand out
/// is sound.
///
/// An input begins with who asks and for what, then come the answers: status, length, bytes. When they are used up, the
/// answer is BadRequest. Everything is answered in this way, also what the client asks of the owner that it was told
/// of.

#include <cstdlib>
#include <optional>
#include <set>

#include "base/histogram.h"
#include "client/cluster_client.h"
#include "fuzz/planted.h"
#include "fuzz/scripted_answers.h"
#include "rpc/control_call.h"
#include "sim/cluster/rpc_process.h"
#include "sim/cluster/sim_server.h"
#include "wire/master_messages.h"

namespace {

using namespace ramcore;
using wire::Opcode;

constexpr int64_t kPatienceNs = 3 * runtime::kNanosPerSecond;

class AnswersWorld {
 public:
  explicit AnswersWorld(std::string_view answers)
      : scheduler_(1),
        log_(scheduler_),
        network_(scheduler_, {}),
        coordinator_(scheduler_, log_, network_, "coordinator",
                     {.role = transport::Role::Coordinator, .cluster_name = "sim"}),
        client_(scheduler_, log_, network_, "client", {.role = transport::Role::Admin, .cluster_name = "sim"}),
        hostile_(answers, Status::BadRequest) {
    const uint32_t roles = rpc::allow({transport::Role::Server, transport::Role::Admin});
    for (const Opcode opcode :
         {Opcode::Enlist,        Opcode::RenewServerLease, Opcode::Goodbye,         Opcode::CheckClient,
          Opcode::CreateTable,   Opcode::DropTable,        Opcode::ListTables,      Opcode::GetTablets,
          Opcode::OpenClient,    Opcode::RenewClient,      Opcode::CloseClient,     Opcode::MoveTablet,
          Opcode::SplitTable,    Opcode::ClusterStatus,    Opcode::MigrationStatus, Opcode::CancelMigration,
          Opcode::GetMembership, Opcode::RaiseFloor,       Opcode::CheckMasters,    Opcode::Read,
          Opcode::Write,         Opcode::AcceptLoss,       Opcode::ListMigrations,  Opcode::SetMigrationRate,
          Opcode::ClusterLoads}) {
      hostile_.serve(coordinator_, opcode, roles);
    }
    coordinator_.listen();
  }

  void runServer() {
    sim::SimServer server(scheduler_, log_, network_, "server", {}, {});
    runUntil([&] { return server.isServing() || !server.rejected().empty(); });
    if (!server.isServing()) return;
    fuzz::crashIfPlanted(server.master().id().value > 0xffff);
    const rpc::PeerAddress address{.id = server.master().id().value,
                                   .locators = {transport::Locator::parse("sim://server").value()}};
    wire::control::TakeTabletRequest take;
    take.mutable_tablet()->set_id(1);
    take.mutable_tablet()->set_table(3);
    take.mutable_tablet()->set_last_hash(~uint64_t{0});
    take.mutable_tablet()->set_epoch(1);
    take.set_created_empty(true);
    std::vector<std::byte> body(wire::controlBytes(take));
    wire::storeControl(take, body.data());
    send(coordinator_, address, wire::RequestHeader{.opcode = Opcode::TakeTablet, .target = ServerId(address.id)},
         body);
    // The server does not know this client, and asks.
    const std::string_view key = "k";
    wire::Write::Request write{};
    write.header = {.opcode = Opcode::Write, .target = ServerId(address.id)};
    write.identity = {.client = ClientId(5), .sequence = Sequence(1), .acknowledged = Sequence(0)};
    write.table = TableId(3);
    write.epoch = TabletEpoch(1);
    write.key_bytes = static_cast<uint16_t>(key.size());
    send(client_, address, write, asBytes(key));
    const int64_t end_ns = scheduler_.nowNs() + kPatienceNs;
    runUntil([&] { return scheduler_.nowNs() >= end_ns; });
  }

  void runClient(uint8_t what) {
    const rpc::PeerAddress address{.id = 0, .locators = {coordinator_.locator()}};
    client::ClusterClient core(*client_.caller, client_.node.entropy(), {address}, {});
    bool is_done = false;
    client_.onDispatch([&] { ask(core, what, is_done).detach(); });
    RC_CHECK(runUntil([&] { return is_done; }));
    client_.onDispatch([&] { core.stop(); });
    RC_CHECK(runUntil([&] { return core.isIdle(); }));
  }

 private:
  static void check(const std::vector<client::TableMap>& tables) {
    for (const client::TableMap& table : tables) {
      RC_CHECK(table.table);
      for (size_t i = 1; i < table.tablets.size(); ++i) {
        RC_CHECK(table.tablets[i - 1].range.last < table.tablets[i].range.first);
      }
    }
  }

  runtime::Task<void> ask(client::ClusterClient& core, uint8_t what, bool& is_done) {
    client::CoordinatorStub& stub = core.coordinator();
    const int64_t deadline_ns = client_.node.clock().nowNs() + kPatienceNs;
    switch (what % 10) {
      case 0: {
        const auto table = co_await stub.createTable("t", 1, deadline_ns);
        RC_CHECK(!table.ok() || *table);
        [[maybe_unused]] const Status dropped = co_await core.dropTable("t", deadline_ns);
        break;
      }
      case 1: {
        const auto tables = co_await stub.listTables(deadline_ns);
        if (tables.ok()) {
          for (const TableInfo& table : *tables) {
            RC_CHECK(table.table.id != 0);
            fuzz::crashIfPlanted(!table.name.empty() && table.name != "a table with a name that is long");
          }
        }
        break;
      }
      case 2: {
        const auto table = co_await core.openTable("t", deadline_ns);
        if (!table.ok()) break;
        const client::PointResult read = co_await core.read(*table, asBytes(std::string_view("k")), deadline_ns);
        RC_CHECK(read.version <= kVersionMax);
        break;
      }
      case 3: {
        const auto table = co_await core.openTable("t", deadline_ns);
        if (!table.ok()) break;
        const client::PointResult written = co_await core.write(*table, asBytes(std::string_view("k")),
                                                                asBytes(std::string_view("v")), {}, deadline_ns);
        RC_CHECK(written.version <= kVersionMax);
        co_await core.close(deadline_ns);
        break;
      }
      case 4: {
        const auto tables = co_await stub.allTablets(deadline_ns);
        if (tables.ok()) check(*tables);
        break;
      }
      case 5: {
        const auto lease = co_await stub.openClient(7, deadline_ns);
        RC_CHECK(!lease.ok() || (lease->client && lease->lease_ns > 0));
        const auto renewed = co_await stub.renewClient(ClientId(1), Sequence(1), deadline_ns);
        RC_CHECK(!renewed.ok() || renewed->lease_ns > 0);
        break;
      }
      case 6: {
        const auto move = co_await stub.moveTablet(TabletId(1), ServerId(2), deadline_ns);
        RC_CHECK(!move.ok() || *move != 0);
        [[maybe_unused]] const Status cancelled = co_await stub.cancelMigration(1, deadline_ns);
        [[maybe_unused]] const Status accepted = co_await stub.acceptLoss(ServerId(1), 7, deadline_ns);
        break;
      }
      case 7: {
        const auto halves = co_await stub.splitTable(TableId(1), 1, deadline_ns);
        RC_CHECK(!halves.ok() || (halves->lower && halves->upper));
        break;
      }
      case 8: {
        const auto status = co_await stub.migrationStatus(1, deadline_ns);
        RC_CHECK(!status.ok() || (status->fraction >= 0 && status->fraction <= 1));
        const auto moves = co_await stub.listMigrations(deadline_ns);
        if (!moves.ok()) break;
        for (const client::MigrationRecord& move : *moves) RC_CHECK(move.age_ns >= -1 && move.over_for_ns >= -1);
        const auto loads = co_await stub.clusterLoads(deadline_ns);
        if (loads.ok()) {
          for (const client::TabletLoad& load : loads->tablets) RC_CHECK(std::ranges::is_sorted(load.called));
          for (const client::ServerCalls& calls : loads->calls) {
            RC_CHECK(calls.counts.empty() || calls.counts.rbegin()->first < LogLinearHistogram::kBucketCount);
          }
        }
        [[maybe_unused]] const Status changed = co_await stub.setMigrationRate(1, 2, deadline_ns);
        break;
      }
      default: {
        const auto status = co_await stub.clusterStatus(deadline_ns, true);
        if (!status.ok()) break;
        check(status->tables);
        std::set<ServerId> servers;
        for (const client::ServerStatus& server : status->servers) RC_CHECK(servers.insert(server.id).second);
      }
    }
    is_done = true;
  }

  template <typename Head>
  void send(sim::RpcProcess& from, const rpc::PeerAddress& address, const Head& head, ByteSpan body) {
    sim::NotedCall call;
    call.request = from.caller->allocate(static_cast<uint32_t>(sizeof(head) + body.size()));
    call.request.appendHead(head);
    call.request.appendHead(body);
    from.onDispatch([&] { from.caller->connection(address).start(call); });
    RC_CHECK(runUntil([&] { return call.ended != 0; }));
    RC_CHECK(name(call.outcome()) != "Unknown" && call.outcome() != Status::Internal);
  }

  bool runUntil(const std::function<bool()>& done) {
    const int64_t give_up_ns = scheduler_.nowNs() + 60 * runtime::kNanosPerSecond;
    bool is_done = false;
    scheduler_.runUntil([&] { return (is_done = done()) || scheduler_.nowNs() > give_up_ns; }, 10'000'000);
    return is_done;
  }

  runtime::SimScheduler scheduler_;
  runtime::SimTraceLog log_;
  transport::SimNetwork network_;
  sim::RpcProcess coordinator_;
  sim::RpcProcess client_;
  fuzz::ScriptedAnswers hostile_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  AnswersWorld world(std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
  if (data[0] % 4 == 0) {
    world.runServer();
  } else {
    world.runClient(data[0] / 4);
  }
  return 0;
}
