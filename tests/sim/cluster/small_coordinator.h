#pragma once

#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "rpc/request.h"
#include "rpc/service_table.h"
#include "runtime/clock.h"
#include "sim/cluster/rpc_process.h"
#include "wire/control.h"

namespace ramcore::sim {

/// The least a master needs of a coordinator: ids, leases and an opinion about clients.
class SmallCoordinator {
 public:
  explicit SmallCoordinator(RpcProcess& process) {
    const rpc::OpcodeRules rules{.roles = rpc::allow({transport::Role::Server})};
    rpc::ServiceTable& table = process.dispatch().services();
    table.add<&SmallCoordinator::enlist>(wire::Opcode::Enlist, *this, rules);
    table.add<&SmallCoordinator::renew>(wire::Opcode::RenewServerLease, *this, rules);
    table.add<&SmallCoordinator::checkClients>(wire::Opcode::CheckClient, *this, rules);
    table.add<&SmallCoordinator::goodbye>(wire::Opcode::Goodbye, *this, rules);
    table.add<&SmallCoordinator::ping>(wire::Opcode::Ping, *this, rules);
  }

  int64_t lease_ns = runtime::kNanosPerSecond;
  bool renews = true;
  std::set<uint64_t> fenced;
  std::set<uint64_t> valid_clients;
  uint64_t last_id = 10;
  uint64_t cluster = 77;
  int checks = 0;
  std::vector<wire::control::EnlistRequest> enlistments;
  int goodbyes = 0;

 private:
  template <typename Message>
  static Message parse(const rpc::Request& request) {
    Message message;
    RC_CHECK(wire::parseControl(request.head().subspan(sizeof(wire::RequestHeader)), message));
    return message;
  }
  template <typename Message>
  static void answer(rpc::Request request, const Message& message) {
    const uint32_t bytes = wire::controlBytes(message);
    transport::TxMessage response = request.allocate(static_cast<uint32_t>(sizeof(wire::ResponseHeader)) + bytes);
    response.appendHead(wire::ResponseHeader{.status = Status::Ok});
    wire::storeControl(message, response.extendHead(bytes));
    request.reply(std::move(response));
  }
  void enlist(rpc::Request request) {
    enlistments.push_back(parse<wire::control::EnlistRequest>(request));
    wire::control::EnlistResponse response;
    response.set_id(++last_id);
    response.set_cluster(cluster);
    response.set_lease_ns(lease_ns);
    answer(std::move(request), response);
  }
  void renew(rpc::Request request) {
    const auto ask = parse<wire::control::RenewServerLeaseRequest>(request);
    if (fenced.contains(ask.id())) return request.reply(Status::Fenced);
    if (!renews) return request.reply(Status::RetryLater);
    wire::control::RenewServerLeaseResponse response;
    response.set_lease_ns(lease_ns);
    answer(std::move(request), response);
  }
  void checkClients(rpc::Request request) {
    ++checks;
    wire::control::CheckClientResponse response;
    const auto ask = parse<wire::control::CheckClientRequest>(request);
    for (const uint64_t client : ask.clients()) {
      response.add_valid(valid_clients.contains(client));
    }
    response.set_checked_for_ns(lease_ns);
    answer(std::move(request), response);
  }
  void ping(rpc::Request request) { answer(std::move(request), wire::control::Empty()); }
  void goodbye(rpc::Request request) {
    ++goodbyes;
    answer(std::move(request), wire::control::Empty());
  }
};

}  // namespace ramcore::sim
