#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "sim/cluster/rpc_process.h"
#include "sim/cluster/sim_server.h"
#include "sim/cluster/small_coordinator.h"
#include "wire/control.h"
#include "wire/master_messages.h"
#include "wire/migration_messages.h"

namespace ramcore::sim {

/// Servers under a small coordinator, and a client and the coordinator themselves as raw callers: requests of any
/// bytes can be sent.
class MasterWorld {
 public:
  explicit MasterWorld(uint64_t seed, transport::SimMode mode = transport::SimMode::Stream)
      : scheduler(seed),
        log(scheduler),
        network(scheduler, optionsOf(mode)),
        coordinator(scheduler, log, network, "coordinator",
                    {.role = transport::Role::Coordinator, .cluster_name = "sim"}),
        rules(coordinator),
        client(scheduler, log, network, "client", {.role = transport::Role::Client, .cluster_name = "sim"}),
        other_server(scheduler, log, network, "other",
                     {.role = transport::Role::Server, .id = 99, .cluster_name = "sim"}) {
    coordinator.listen();
    rules.valid_clients = {1, 2};
  }

  /// Starts one more server and waits until it serves. Returns its number.
  size_t addServer(const SimServer::Options& options = {}) {
    const std::string name = "server" + std::to_string(servers.size() + 1);
    servers.push_back(
        std::make_unique<SimServer>(scheduler, log, network, name, runtime::SimClock::Options{}, options));
    SimServer& server = *servers.back();
    RC_CHECK(runUntil([&] { return server.isServing(); }));
    addresses.push_back(
        {.id = server.master().id().value, .locators = {transport::Locator::parse("sim://" + name).value()}});
    return servers.size() - 1;
  }
  /// Runs until `done`, at most a minute of simulated time.
  bool runUntil(const std::function<bool()>& done) {
    const int64_t give_up_ns = scheduler.nowNs() + 60 * runtime::kNanosPerSecond;
    bool is_done = false;
    scheduler.runUntil([&] { return (is_done = done()) || scheduler.nowNs() > give_up_ns; }, 100'000'000);
    return is_done;
  }
  void runFor(int64_t ns) { scheduler.runUntil(scheduler.nowNs() + ns, 100'000'000); }

  /// Sends bytes to a server and waits for the end of the call.
  std::unique_ptr<NotedCall> send(RpcProcess& from, ByteSpan bytes, size_t contiguous, size_t server = 0) {
    std::unique_ptr<NotedCall> call = start(from, bytes, contiguous, server);
    RC_CHECK(runUntil([&] { return call->ended != 0; }));
    return call;
  }
  /// The caller waits until it has ended.
  std::unique_ptr<NotedCall> start(RpcProcess& from, ByteSpan bytes, size_t contiguous, size_t server = 0) {
    auto call = std::make_unique<NotedCall>();
    call->request = from.caller->allocate(static_cast<uint32_t>(bytes.size()));
    call->request.appendHead(bytes);
    call->request->contiguous_bytes = static_cast<uint32_t>(contiguous);
    from.onDispatch([&] { from.caller->connection(addresses[server]).start(*call); });
    return call;
  }
  std::unique_ptr<NotedCall> send(const std::vector<std::byte>& bytes, size_t server = 0) {
    return send(client, bytes, 0, server);
  }
  /// A control request from the coordinator.
  template <typename Message>
  std::unique_ptr<NotedCall> command(wire::Opcode opcode, const Message& message, size_t server = 0) {
    const wire::RequestHeader header{.opcode = opcode, .target = ServerId(addresses[server].id)};
    std::vector<std::byte> bytes(sizeof(header) + wire::controlBytes(message));
    storeAs(bytes.data(), header);
    wire::storeControl(message, bytes.data() + sizeof(header));
    return send(coordinator, bytes, 0, server);
  }

  runtime::SimScheduler scheduler;
  runtime::SimTraceLog log;
  transport::SimNetwork network;
  RpcProcess coordinator;
  SmallCoordinator rules;
  RpcProcess client;
  RpcProcess other_server;
  std::deque<std::unique_ptr<SimServer>> servers;
  std::vector<rpc::PeerAddress> addresses;

 private:
  static transport::SimNetworkOptions optionsOf(transport::SimMode mode) {
    transport::SimNetworkOptions options;
    options.mode = mode;
    return options;
  }
};

}  // namespace ramcore::sim
