// ramcore-coordinator: membership, tables and leases of one cluster, stored in a directory. Stops on SIGTERM.
#include "coordinator/coordinator.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "base/id_text.h"
#include "coordinator/state/sqlite_export.h"
#include "coordinator/state/sqlite_state_store.h"
#include "tools/support/command_line.h"
#include "tools/support/metrics_server.h"
#include "tools/support/process.h"
#include "tools/support/standard_output.h"
#include "wire/handshake_messages.h"

namespace ramcore::tools {
namespace {

constexpr const char* kProgram = "ramcore-coordinator";

struct CoordinatorSettings {
  ProcessSettings process;
  std::string storage = "./ramcore-coordinator";
  bool storage_is_given = false;
  bool new_cluster = false;
  uint64_t cluster_id = 0;
  std::string export_to;
  uint64_t given_up_change = 0;
  uint32_t lease_ms = 2'000;
  uint32_t verdict_ms = 3'000;
  uint32_t together_ms = 30'000;
  uint32_t client_lease_ms = 30'000;
};

class CoordinatorProcess {
 public:
  explicit CoordinatorProcess(const CoordinatorSettings& settings) : settings_(settings) {}

  int run() {
    if (settings_.verdict_ms < settings_.lease_ms) {
      return fail(kProgram, {Status::BadConfig, "--death-after-ms is shorter than --lease-ms; raise it"});
    }
    auto process = Process::open(settings_.process, kProgram, transport::Role::Coordinator, nullptr);
    if (!process.ok()) return fail(kProgram, process.error());
    process_ = std::move(process).value();
    auto store = coordinator::SqliteStateStore::open(directory(), process_->entropy(), *process_->workers().front(),
                                                     process_->trace());
    if (!store.ok()) return fail(kProgram, store.error());
    store_ = std::move(store).value();
    process_->identity().cluster = store_->cluster().value;
    process_->identity().id = process_->entropy().next() | 1;
    if (store_->madeCluster()) {
      process_->trace().warning(
          "made a new cluster, " + textOf(store_->cluster()) + ", in " + settings_.storage +
          "; if the cluster exists already, this is the wrong --storage, and the servers of the cluster will say so");
    }
    coordinator_ = std::make_unique<coordinator::Coordinator>(
        coordinator::Coordinator::Environment{.dispatch = process_->dispatch(),
                                              .caller = process_->caller(),
                                              .store = *store_,
                                              .trace = process_->trace(),
                                              .on_failed = [this](Status status) { onFailed(status); },
                                              .on_behind = [this] { tellRemedy(); },
                                              .start = process_->identity().id},
        options());
    auto metrics = MetricsServer::openIfWanted(settings_.process.metrics, process_->dispatch(), process_->clock());
    if (!metrics.ok()) return fail(kProgram, metrics.error());
    metrics_ = std::move(metrics).value();
    if (metrics_ != nullptr) metrics_->setCoordinator(*coordinator_);
    StartJob start(*this);
    process_->dispatch().post(start);
    process_->run([this] { coordinator_->stop(); }, [this] { return coordinator_->isIdle(); });
    return failed_ ? 1 : 0;
  }

 private:
  struct StartJob : runtime::Job {
    explicit StartJob(CoordinatorProcess& owner)
        : Job([](runtime::Job& job) { static_cast<StartJob&>(job).owner.start(); }), owner(owner) {}
    CoordinatorProcess& owner;
  };

  coordinator::StateDirectory directory() const {
    using Make = coordinator::StateDirectory::Make;
    // In the default directory no cluster is made without --new-cluster: the default is relative, and the directory may
    // be a volume that is not mounted.
    const Make unasked = settings_.storage_is_given ? Make::IfNone : Make::Never;
    return {.path = settings_.storage,
            .cluster_name = settings_.process.cluster,
            .cluster = ClusterId(settings_.cluster_id),
            .make = settings_.new_cluster ? Make::Always : unasked};
  }
  coordinator::CoordinatorOptions options() const {
    coordinator::CoordinatorOptions options;
    options.membership.lease_ns = settings_.lease_ms * runtime::kNanosPerMilli;
    options.membership.verdict_after_ns = settings_.verdict_ms * runtime::kNanosPerMilli;
    // If --death-after-ms is longer than --silent-together-ms, the longer time counts for many servers, too.
    options.membership.together_ns = std::max(settings_.together_ms, settings_.verdict_ms) * runtime::kNanosPerMilli;
    options.client_lease_ns = settings_.client_lease_ms * runtime::kNanosPerMilli;
    options.given_up_change = settings_.given_up_change;
    return options;
  }
  void start() {
    coordinator_->start([this](Status status) {
      if (status == Status::StateBehind) return tellRemedy();
      if (status != Status::Ok) {
        if (status != Status::Shutdown) onFailed(status);
        return;
      }
      const coordinator::Coordinator::Counts counts = coordinator_->counts();
      process_->trace().info("coordinating cluster '" + settings_.process.cluster + "' (" + textOf(store_->cluster()) +
                             "): " + std::to_string(counts.servers_alive) + " servers, " +
                             std::to_string(counts.tables) + " tables, " + std::to_string(counts.tablets) + " tablets");
      process_->ready();
    });
  }
  // The coordinator keeps running, and answers every request with StateBehind.
  void tellRemedy() {
    process_->trace().error(
        "put the newest copy of coordinator.sqlite into an empty directory, and name that directory with --storage in "
        "place of " +
        settings_.storage +
        ". If there is no newer copy: --accept-missing-changes NUMBER, with the number that the log of the last start "
        "names, goes on once without the missing changes. Tables that were made since are lost then. Tablets that were "
        "moved, split or recovered since may be incomplete or empty, also in what is older. The last writes to other "
        "tablets may be missing. All servers begin anew, from what their storages have");
  }
  void onFailed(Status status) {
    if (status == Status::NotLeader) process_->trace().error("another coordinator has taken over");
    failed_ = true;
    process_->requestStop();
  }

  const CoordinatorSettings settings_;
  std::unique_ptr<Process> process_;
  std::unique_ptr<coordinator::SqliteStateStore> store_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  std::unique_ptr<MetricsServer> metrics_;
  bool failed_ = false;
};

int exportState(const CoordinatorSettings& settings) {
  const auto exported = coordinator::exportState(settings.storage, settings.export_to);
  if (!exported.ok()) return fail(kProgram, exported.error());
  std::printf("%s: cluster %s up to change %llu; to use it, put it into an empty directory as coordinator.sqlite\n",
              settings.export_to.c_str(), textOf(exported->cluster).c_str(),
              static_cast<unsigned long long>(exported->change_number));
  return 0;
}

int main(int argc, char** argv) {
  StandardOutput output(kProgram);
  CoordinatorSettings settings;
  settings.process.listen = {"tcp://127.0.0.1:11100"};
  CommandLine app("The Ramcore coordinator: knows the servers, tables and clients of one cluster", kProgram);
  addProcessFlags(app, settings.process);
  // Everything runs on the dispatch thread; the one worker waits for the disk.
  for (const char* flag : {"--dispatch", "--workers"}) app.removeOption(flag);
  settings.process.hand_off = "inline";
  settings.process.workers = 1;
  app.setVersion(std::string("ramcore ") + RAMCORE_VERSION + " (wire format " + std::to_string(wire::kProtocolVersion) +
                 ", storage format " + std::to_string(coordinator::StateStore::kFormatVersion) + ")");
  const Option storage = app.addOption("--storage", settings.storage,
                                       "Directory of the coordinator's state. If the flag is given and the directory "
                                       "has no state, a new cluster is made there")
                             .environment("RAMCORE_STORAGE");
  app.addFlag("--new-cluster", settings.new_cluster,
              "Make a new cluster; refused where there is one. Only for the first start of a cluster")
      .environment("RAMCORE_NEW_CLUSTER");
  app.addOption("--cluster-id", settings.cluster_id,
                "Id of the cluster, as the log and 'ramcore status' show it, for example 0x1234abcd1234abcd: start "
                "with the state of this cluster and no other, and make no cluster")
      .showDefault("")
      .environment("RAMCORE_CLUSTER_ID");
  app.addOption(
      "--export", settings.export_to,
      "Write a copy of the state in --storage to this file, also while another coordinator runs there, and end");
  app.addOption("--accept-missing-changes", settings.given_up_change,
                "Go on with a state that is an older copy, without the changes up to this number, which the log names. "
                "What depends on them is lost")
      .showDefault("");
  app.addOption("--lease-ms", settings.lease_ms,
                "For how many milliseconds a server may serve without hearing from the coordinator")
      .environment("RAMCORE_LEASE_MS")
      .inRange(100, 600'000);
  app.addOption(
         "--death-after-ms", settings.verdict_ms,
         "After how many milliseconds of silence a server is declared dead, for good, and its tablets are recovered. "
         "At least --lease-ms")
      .environment("RAMCORE_DEATH_AFTER_MS")
      .inRange(100, 3'600'000);
  app.addOption("--silent-together-ms", settings.together_ms,
                "After how many milliseconds of silence a server is declared dead where half of the servers or more "
                "are silent together, which mostly means that the coordinator's own machine is cut off. Until then the "
                "servers may come back and go on with what they have. At least --death-after-ms")
      .environment("RAMCORE_SILENT_TOGETHER_MS")
      .inRange(100, 3'600'000);
  app.addOption("--client-lease-ms", settings.client_lease_ms,
                "After how many milliseconds of silence a client's identity ends")
      .environment("RAMCORE_CLIENT_LEASE_MS")
      .inRange(1'000, 3'600'000);
  int exit_code = 0;
  if (!parseFlags(app, argc, argv, exit_code)) return output.finish(exit_code);
  settings.storage_is_given = storage.isGiven();
  if (!settings.export_to.empty()) return output.finish(exportState(settings));
  return CoordinatorProcess(settings).run();
}

}  // namespace
}  // namespace ramcore::tools

int main(int argc, char** argv) { return ramcore::tools::main(argc, argv); }
