// ramcore: the command line of a Ramcore cluster.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "client/client_impl.h"
#include "tools/rc/commands.h"
#include "tools/support/command_line.h"
#include "tools/support/standard_output.h"

namespace ramcore::rc {

Outcome<Client*> Session::client() {
  if (client_) return &*client_;
  ClientOptions options;
  options.coordinators = cluster.coordinators;
  options.cluster_name = cluster.cluster_name;
  options.secret_file = cluster.secret_file;
  options.default_timeout = std::chrono::milliseconds(timeout_ms);
  options.connect_timeout = std::chrono::milliseconds(timeout_ms);
  options.administrator = true;
  options.rdma_device = cluster.rdma_device;
  options.rdma_traffic_class = cluster.rdma_class.traffic_class;
  options.rdma_service_level = cluster.rdma_class.service_level;
  const transport::DpdkChoice& dpdk = cluster.dpdk;
  options.dpdk = {.ports = dpdk.ports,
                  .address = dpdk.address,
                  .mtu = dpdk.mtu,
                  .memory_mb = dpdk.memory_mb,
                  .huge_pages = dpdk.huge_pages,
                  .arguments = dpdk.arguments,
                  .seal = dpdk.seal,
                  .faults = dpdk.faults};
  Outcome<Client> connected = Client::connect(options);
  if (!connected) return connected.error();
  client_.emplace(std::move(connected).value());
  return &*client_;
}

int Session::fail(const Failure& failure) { return tools::fail("ramcore", failure); }

// Calls wait until their deadlines for tablets of dead servers and for replicas. The message then says where to look.
std::optional<Failure> Session::explainUnavailable(Status status, const std::string& what) {
  if ((status != Status::DeadlineExceeded && status != Status::OutcomeUnknown) || !client_) return std::nullopt;
  const auto seen =
      client_->impl().runTask(std::chrono::milliseconds(500), [](client::ClusterClient& cluster, int64_t deadline_ns) {
        return cluster.coordinator().clusterStatus(deadline_ns);
      });
  if (!seen.ok()) return std::nullopt;
  const bool has_too_few = std::any_of(seen->servers.begin(), seen->servers.end(),
                                       [](const auto& server) { return server.is_alive && server.has_too_few; });
  if (has_too_few && (status == Status::OutcomeUnknown || seen->recoveries.empty())) {
    return tools::explainTooFew(status, what);
  }
  if (status == Status::OutcomeUnknown || seen->recoveries.empty()) return std::nullopt;
  uint64_t tablets = 0;
  for (const client::RecoveryProgress& recovery : seen->recoveries) tablets += recovery.tablets_left;
  return Failure{
      status, "no answer about " + what + " in time (" + std::string(name(status)) + "): " + std::to_string(tablets) +
                  " tablets of dead servers are not recovered; 'ramcore recover' " + "says what they wait for"};
}

int Session::fail(Status status, const std::string& what) {
  if (const auto unavailable = explainUnavailable(status, what)) return fail(*unavailable);
  return fail(tools::explain(status, what, client_->impl().cluster().coordinator()));
}

Outcome<Table> Session::table(const std::string& name) {
  const auto connected = client();
  if (!connected) return connected.error();
  const auto found = (*connected)->openTable(name);
  if (found) return *found;
  return tools::explain(found.error(), "table '" + name + "'", client_->impl().cluster().coordinator());
}

}  // namespace ramcore::rc

namespace {

using namespace ramcore;

int runCommand(int argc, char** argv) {
  rc::Session session;
  tools::CommandLine app("Talks to a Ramcore cluster: tables, objects, import and export, status, files of replicas.",
                         "ramcore");
  session.cluster.addTo(app);
  app.addOption("--timeout-ms", session.timeout_ms, "How long one call may take, in milliseconds, retries included")
      .environment("RAMCORE_TIMEOUT_MS")
      .showDefault()
      .inRange(uint64_t{1}, uint64_t{3'600'000});
  app.addConfigFile("TOML file with these flags; the command line and the environment take precedence over it")
      .environment("RAMCORE_CONFIG");
  app.requireCommand();
  app.takeOptionsBehindCommands();
  int exit_code = tools::kExitOk;
  rc::addTableCommands(app, session, exit_code);
  rc::addObjectCommands(app, session, exit_code);
  rc::addTransferCommands(app, session, exit_code);
  rc::addRecoverCommand(app, session, exit_code);
  rc::addInspectCommand(app, session, exit_code);
  rc::addStatusCommand(app, session, exit_code);
  tools::parseFlags(app, argc, argv, exit_code);
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  tools::StandardOutput output("ramcore");
  return output.finish(runCommand(argc, argv));
}
