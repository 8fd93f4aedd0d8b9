// ramcore-coordinator: membership, tables and leases of one cluster, stored in a directory. Stops on SIGTERM.
#include "coordinator/coordinator.h"

#include <CLI/CLI.hpp>

#include "coordinator/sqlite_state_store.h"
#include "tools/support/metrics_server.h"
#include "tools/support/process.h"
#include "wire/handshake_messages.h"

namespace ramcore::tools {
namespace {

constexpr const char* kProgram = "ramcore-coordinator";

struct CoordinatorSettings {
  ProcessSettings process;
  std::string storage = "./ramcore-coordinator";
  uint32_t lease_ms = 2'000;
  uint32_t verdict_ms = 3'000;
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
    auto store = coordinator::SqliteStateStore::open(settings_.storage, settings_.process.cluster, process_->entropy(),
                                                     *process_->workers().front(), process_->trace());
    if (!store.ok()) return fail(kProgram, store.error());
    store_ = std::move(store).value();
    coordinator_ = std::make_unique<coordinator::Coordinator>(
        coordinator::Coordinator::Environment{.dispatch = process_->dispatch(),
                                              .caller = process_->caller(),
                                              .store = *store_,
                                              .trace = process_->trace(),
                                              .on_failed = [this](Status status) { onFailed(status); }},
        options());
    auto metrics = MetricsServer::openIfWanted(settings_.process.metrics, process_->dispatch(), process_->clock());
    if (!metrics.ok()) return fail(kProgram, metrics.error());
    metrics_ = std::move(metrics).value();
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

  coordinator::CoordinatorOptions options() const {
    coordinator::CoordinatorOptions options;
    options.membership.lease_ns = settings_.lease_ms * runtime::kNanosPerMilli;
    options.membership.verdict_after_ns = settings_.verdict_ms * runtime::kNanosPerMilli;
    options.client_lease_ns = settings_.client_lease_ms * runtime::kNanosPerMilli;
    return options;
  }
  void start() {
    coordinator_->start([this](Status status) {
      if (status != Status::Ok) {
        if (status != Status::Shutdown) onFailed(status);
        return;
      }
      const coordinator::Coordinator::Counts counts = coordinator_->counts();
      process_->trace().info("coordinating cluster '" + settings_.process.cluster +
                             "': " + std::to_string(counts.servers_alive) + " servers, " +
                             std::to_string(counts.tables) + " tables, " + std::to_string(counts.tablets) + " tablets");
      process_->ready();
    });
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

int main(int argc, char** argv) {
  CoordinatorSettings settings;
  settings.process.listen = {"tcp://127.0.0.1:11100"};
  CLI::App app("The Ramcore coordinator: knows the servers, tables and clients of one cluster", kProgram);
  addProcessFlags(app, settings.process);
  // Everything runs on the dispatch thread; the one worker waits for the disk.
  for (const char* flag : {"--dispatch", "--workers"}) app.remove_option(app.get_option(flag));
  settings.process.hand_off = "inline";
  settings.process.workers = 1;
  app.set_version_flag("--version", std::string("ramcore ") + RAMCORE_VERSION + " (wire format " +
                                        std::to_string(wire::kProtocolVersion) + ", storage format " +
                                        std::to_string(coordinator::StateStore::kFormatVersion) + ")");
  app.add_option("--storage", settings.storage, "Directory for the coordinator's state; made if it is not there")
      ->envname("RAMCORE_STORAGE");
  app.add_option("--lease-ms", settings.lease_ms,
                 "For how many milliseconds a server may serve without hearing from the coordinator")
      ->envname("RAMCORE_LEASE_MS")
      ->check(CLI::Range(100, 600'000));
  app.add_option(
         "--death-after-ms", settings.verdict_ms,
         "After how many milliseconds of silence a server is declared dead, for good, and its tablets are recovered. "
         "At least --lease-ms")
      ->envname("RAMCORE_DEATH_AFTER_MS")
      ->check(CLI::Range(100, 3'600'000));
  app.add_option("--client-lease-ms", settings.client_lease_ms,
                 "After how many milliseconds of silence a client's identity ends")
      ->envname("RAMCORE_CLIENT_LEASE_MS")
      ->check(CLI::Range(1'000, 3'600'000));
  int exit_code = 0;
  if (!parseFlags(app, argc, argv, exit_code)) return exit_code;
  return CoordinatorProcess(settings).run();
}

}  // namespace
}  // namespace ramcore::tools

int main(int argc, char** argv) { return ramcore::tools::main(argc, argv); }
