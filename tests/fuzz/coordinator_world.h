#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/tablet_decoding.h"
#include "sim/cluster/rpc_process.h"
#include "sim/cluster/sim_cluster.h"
#include "wire/control.h"

namespace ramcore::fuzz {

/// A simulated cluster, and how processes of any kind ask its coordinator: the base of targets around it.
class CoordinatorWorld {
 protected:
  CoordinatorWorld() : cluster_(1, {}) {}

  std::unique_ptr<sim::RpcProcess> makeProcess(const std::string& name, transport::Role role, uint64_t id = 0) {
    return std::make_unique<sim::RpcProcess>(
        cluster_.scheduler, cluster_.trace, cluster_.network, name,
        sim::RpcProcess::Options{.role = role, .id = id, .cluster_name = sim::SimCluster::kClusterName});
  }
  /// Sends a good header with `body` behind it, and waits for the end of the call.
  std::unique_ptr<sim::NotedCall> send(sim::RpcProcess& from, wire::Opcode opcode, std::string_view body) {
    auto call = std::make_unique<sim::NotedCall>();
    call->request = from.caller->allocate(static_cast<uint32_t>(sizeof(wire::RequestHeader) + body.size()));
    call->request.appendHead(wire::RequestHeader{.opcode = opcode, .target = {}});
    call->request.appendHead(asBytes(body));
    from.onDispatch([&] { from.caller->connection(address_).start(*call); });
    RC_CHECK(runUntil([&] { return call->ended != 0; }));
    return call;
  }
  /// The answer of the coordinator to GetTablets, which clients have to accept.
  static std::vector<client::TableMap> tablesOf(const sim::NotedCall& call) {
    wire::control::GetTabletsResponse map;
    std::vector<client::TableMap> tables;
    const std::string text = call.text();
    RC_CHECK(call.outcome() == Status::Ok && wire::parseControl(asBytes(text), map));
    RC_CHECK(client::decodeTableMaps(map.tables(), map.tablets(), map.servers(), tables));
    return tables;
  }
  /// How the coordinator started, in place of the one before.
  Status startCoordinator() {
    cluster_.killCoordinator();
    cluster_.startCoordinator();
    RC_CHECK(runUntil([&] { return cluster_.coordinator->started().has_value(); }));
    return *cluster_.coordinator->started();
  }
  /// False after two minutes of simulated time.
  bool runUntil(const std::function<bool()>& done) {
    const int64_t give_up_ns = cluster_.scheduler.nowNs() + 120 * runtime::kNanosPerSecond;
    bool is_done = false;
    cluster_.scheduler.runUntil([&] { return (is_done = done()) || cluster_.scheduler.nowNs() > give_up_ns; },
                                100'000'000);
    return is_done;
  }
  void runFor(int64_t ns) { cluster_.scheduler.runUntil(cluster_.scheduler.nowNs() + ns, 10'000'000); }

  sim::SimCluster cluster_;
  const rpc::PeerAddress address_{.id = 0, .locators = {transport::Locator::parse("sim://coordinator").value()}};
};

}  // namespace ramcore::fuzz
