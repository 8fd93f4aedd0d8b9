#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "coordinator/coordinator.h"
#include "coordinator/state/memory_state_store.h"
#include "rpc/control_call.h"
#include "sim/cluster/rpc_process.h"

namespace ramcore::coordinator {

namespace control = wire::control;
using transport::Role;
using wire::Opcode;

// A coordinator on the simulated network, and one process of each role that asks it.
class CoordinatorServiceBench : public testing::Test {
 protected:
  CoordinatorServiceBench() {
    process_.listen();
    for (sim::RpcProcess* asker : {&server_, &client_, &admin_}) {
      asker->caller->connection({.id = 0, .locators = {process_.locator()}});
    }
  }
  ~CoordinatorServiceBench() override {
    process_.driver.runNow([this] {
      coordinator_.stop();
      process_.caller->shutDown();
    });
    for (int i = 0; i < 100 && !coordinator_.isIdle(); ++i) (void)process_.driver.drain(10'000);
  }

  void start() {
    Status started = Status::Internal;
    bool done = false;
    process_.onDispatch([&] {
      coordinator_.start([&](Status status) {
        started = status;
        done = true;
      });
    });
    ASSERT_EQ(scheduler_.runUntil([&] { return done; }, 1'000'000), runtime::SimScheduler::Stop::Done);
    ASSERT_EQ(started, Status::Ok);
  }

  template <typename RequestMessage, typename ResponseMessage>
  Status ask(sim::RpcProcess& asker, Opcode opcode, const RequestMessage& request, ResponseMessage& response) {
    Asked asked;
    asker.onDispatch([&] { askOn(asker, address_, opcode, request, response, asked).detach(); });
    EXPECT_EQ(scheduler_.runUntil([&] { return asked.done; }, 10'000'000), runtime::SimScheduler::Stop::Done);
    return asked.status;
  }
  /// Sends `bytes` behind a header.
  Status askRaw(sim::RpcProcess& asker, Opcode opcode, std::string_view bytes) {
    sim::NotedCall call;
    call.request = asker.caller->allocate(static_cast<uint32_t>(sizeof(wire::RequestHeader) + bytes.size()));
    call.request.appendHead(wire::RequestHeader{.opcode = opcode, .target = {}});
    call.request.appendHead(asBytes(bytes));
    asker.onDispatch([&] { asker.caller->connection(address_).start(call); });
    EXPECT_EQ(scheduler_.runUntil([&] { return call.ended == 1; }, 10'000'000), runtime::SimScheduler::Stop::Done);
    return call.outcome();
  }
  /// Sends a call and awaits nothing.
  template <typename RequestMessage>
  void begin(sim::RpcProcess& asker, Opcode opcode, const RequestMessage& request, sim::NotedCall& call) {
    const std::string bytes = request.SerializeAsString();
    call.request = asker.caller->allocate(static_cast<uint32_t>(sizeof(wire::RequestHeader) + bytes.size()));
    call.request.appendHead(wire::RequestHeader{.opcode = opcode, .target = {}});
    call.request.appendHead(asBytes(bytes));
    asker.onDispatch([&] { asker.caller->connection(address_).start(call); });
  }
  Status enlist(uint64_t nonce, control::EnlistResponse& response) {
    control::EnlistRequest request;
    request.add_locators("sim://server");
    request.set_name("s");
    request.set_format_version(1);
    request.set_nonce(nonce);
    return ask(server_, Opcode::Enlist, request, response);
  }

  int64_t linesWith(std::string_view words) const {
    return std::count_if(log_.lines().begin(), log_.lines().end(),
                         [&](const std::string& line) { return line.find(words) != std::string::npos; });
  }

  runtime::SimScheduler scheduler_{3};
  runtime::SimTraceLog log_{scheduler_};
  transport::SimNetwork network_{scheduler_, {}};
  MemoryDisk disk_{ClusterId(7), "rpc"};
  sim::RpcProcess process_{scheduler_, log_, network_, "coordinator", {.role = Role::Coordinator}};
  sim::RpcProcess server_{scheduler_, log_, network_, "server", {.role = Role::Server}};
  sim::RpcProcess client_{scheduler_, log_, network_, "client", {.role = Role::Client}};
  sim::RpcProcess admin_{scheduler_, log_, network_, "admin", {.role = Role::Admin}};
  MemoryStateStore store_{disk_, process_.dispatch(), process_.node.stream("store"), {}};
  Coordinator coordinator_{{.dispatch = process_.dispatch(),
                            .caller = *process_.caller,
                            .store = store_,
                            .trace = process_.node.trace(),
                            .on_failed = nullptr,
                            .start = 41},
                           {}};
  const rpc::PeerAddress address_{.id = 0, .locators = {process_.locator()}};

 private:
  struct Asked {
    bool done = false;
    Status status = Status::Ok;
  };
  template <typename RequestMessage, typename ResponseMessage>
  static runtime::Task<void> askOn(sim::RpcProcess& asker, const rpc::PeerAddress& address, Opcode opcode,
                                   const RequestMessage& request, ResponseMessage& response, Asked& asked) {
    const rpc::CallSettings settings{.deadline_ns = asker.node.clock().nowNs() + 30 * runtime::kNanosPerSecond};
    const rpc::ControlOutcome outcome =
        co_await rpc::callControl(*asker.caller, asker.dispatch(), address, opcode, request, response, settings);
    asked.status = outcome.status;
    asked.done = true;
  }
};

inline constexpr Opcode kServerOpcodes[] = {Opcode::Enlist,      Opcode::RenewServerLease, Opcode::Goodbye,
                                            Opcode::CheckClient, Opcode::GetMembership,    Opcode::RaiseFloor,
                                            Opcode::CheckMasters};
inline constexpr Opcode kUserOpcodes[] = {Opcode::CreateTable, Opcode::DropTable,     Opcode::ListTables,
                                          Opcode::GetTablets,  Opcode::OpenClient,    Opcode::RenewClient,
                                          Opcode::CloseClient, Opcode::ClusterStatus, Opcode::MigrationStatus};
inline constexpr Opcode kAdminOpcodes[] = {Opcode::MoveTablet,  Opcode::SplitTable,     Opcode::CancelMigration,
                                           Opcode::AcceptLoss,  Opcode::ListMigrations, Opcode::SetMigrationRate,
                                           Opcode::ClusterLoads};

/// The renewal of the first server that enlists, with the nonce 5.
inline control::RenewServerLeaseRequest renewalThatHasHeard(uint64_t start, uint64_t number) {
  control::RenewServerLeaseRequest renew;
  renew.set_nonce(5);
  renew.set_id(1);
  renew.set_cluster(7);
  renew.mutable_heard()->set_start(start);
  renew.mutable_heard()->set_number(number);
  return renew;
}

}  // namespace ramcore::coordinator
