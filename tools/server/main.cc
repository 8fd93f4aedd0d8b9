// ramcore-server: one master. Enlists at the coordinator, serves tablets, stops on SIGTERM.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <thread>

#include "master/master.h"
#include "runtime/real/urcu_epoch.h"
#include "tools/support/metrics_server.h"
#include "tools/support/process.h"

namespace ramcore::tools {
namespace {

constexpr const char* kProgram = "ramcore-server";

struct ServerSettings {
  ProcessSettings process;
  std::string coordinator = "tcp://127.0.0.1:11100";
  uint64_t memory_bytes = uint64_t{1} << 30;
  std::string name;
};

class Server final : private master::MasterObserver {
 public:
  explicit Server(const ServerSettings& settings) : settings_(settings), rcu_(runtime::makeUrcu()), threads_(*rcu_) {}

  int run() {
    auto locator = transport::Locator::parse(settings_.coordinator);
    if (!locator.ok()) return fail(kProgram, locator.error());
    auto process =
        Process::open(settings_.process, kProgram, transport::Role::Server, [this] { return threads_.add(); });
    if (!process.ok()) return fail(kProgram, process.error());
    process_ = std::move(process).value();
    threads_.bind(0, process_->dispatch());
    uint32_t index = 1;
    for (runtime::Executor* worker : process_->workers()) threads_.bind(index++, *worker);

    auto memory = openMemory();
    if (!memory.ok()) return fail(kProgram, memory.error());
    memory_ = std::move(memory).value();
    auto master = openMaster(std::move(locator).value());
    if (!master.ok()) return fail(kProgram, master.error());
    master_ = std::move(master).value();
    auto metrics = MetricsServer::openIfWanted(settings_.process.metrics, process_->dispatch(), process_->clock());
    if (!metrics.ok()) return fail(kProgram, metrics.error());
    metrics_ = std::move(metrics).value();
    process_->trace().warning("nothing this server holds survives its death: replication is not there yet");
    master_->start();
    process_->run([this] { master_->stop(true); }, [this] { return master_->stopped() && !master_->hasLentMemory(); });
    rcu_->drain();  // all other readers have ended
    return rejected_ ? 1 : 0;
  }

 private:
  Outcome<std::unique_ptr<log::LogMemory>> openMemory() {
    auto memory = log::LogMemory::open(settings_.memory_bytes);
    if (!memory.ok()) return memory;
    // First touch is slow; it is paid before the first request, with up to 4 threads.
    Trace& trace = process_->trace();
    trace.info("preparing " + formatBytes(settings_.memory_bytes) + " of log memory");
    const unsigned threads = std::min(4U, std::max(1U, std::thread::hardware_concurrency()));
    std::vector<std::thread> helpers;
    for (unsigned i = 1; i < threads; ++i) {
      helpers.emplace_back([&memory] {
        while ((*memory)->prefaultNext()) {
        }
      });
    }
    uint64_t told = 0;
    while ((*memory)->prefaultNext()) {
      const uint64_t quarter = (*memory)->prefaultedBytes() * 4 / settings_.memory_bytes;
      if (quarter > told && quarter < 4) trace.info("log memory is " + std::to_string(quarter * 25) + " % ready");
      told = quarter;
    }
    for (std::thread& helper : helpers) helper.join();
    return memory;
  }

  Outcome<std::unique_ptr<master::Master>> openMaster(transport::Locator coordinator) {
    master::MasterConfig config;
    config.log.memory_bytes = settings_.memory_bytes;
    config.index.initial_buckets_log2 = 16;
    config.index.reserve_bytes = std::max<uint64_t>(settings_.memory_bytes / 2, 64 << 20);
    config.self = {.locators = process_->locators(),
                   .name = settings_.name,
                   .memory_bytes = settings_.memory_bytes,
                   .nonce = process_->entropy().next()};
    config.coordinator = {.id = 0, .locators = {std::move(coordinator)}};
    return master::Master::open(config,
                                {.clock = process_->clock(),
                                 .trace = process_->trace(),
                                 .dispatch = process_->dispatch(),
                                 .caller = process_->caller(),
                                 .rcu = *rcu_,
                                 .threads = threads_,
                                 .memory = *memory_,
                                 .replicator = replicator_},
                                *this);
  }

  void onServing(ServerId id) override {
    process_->identity().id = id.value;
    if (metrics_ != nullptr) metrics_->setMaster(*master_);
    process_->trace().info("serving as server " + std::to_string(id.value));
    process_->ready();
  }
  void onRejected(const std::string& why) override {
    process_->trace().error(why);
    rejected_ = true;
    process_->requestStop();
  }

  const ServerSettings settings_;
  std::unique_ptr<runtime::Rcu> rcu_;
  master::Threads threads_;
  std::unique_ptr<Process> process_;
  std::unique_ptr<log::LogMemory> memory_;
  log::NoReplicator replicator_;
  std::unique_ptr<master::Master> master_;
  std::unique_ptr<MetricsServer> metrics_;
  bool rejected_ = false;
};

std::string hostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "server";
}

int main(int argc, char** argv) {
  ServerSettings settings;
  settings.process.listen = {"tcp://127.0.0.1:0"};
  settings.name = hostName();
  CLI::App app("A Ramcore server: holds tablets of the cluster's tables in memory", kProgram);
  addProcessFlags(app, settings.process);
  app.add_option("--coordinator", settings.coordinator, "Locator of the coordinator")->envname("RAMCORE_COORDINATOR");
  app.add_option("--memory", settings.memory_bytes, "Memory for the log, in bytes or with a unit (KiB, MiB, GiB)")
      ->envname("RAMCORE_MEMORY")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--name", settings.name, "Name of this server for people")->envname("RAMCORE_NAME");
  int exit_code = 0;
  if (!parseFlags(app, argc, argv, exit_code)) return exit_code;
  return Server(settings).run();
}

}  // namespace
}  // namespace ramcore::tools

int main(int argc, char** argv) { return ramcore::tools::main(argc, argv); }
