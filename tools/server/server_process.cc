#include "tools/server/server_process.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/real/numa_node.h"
#include "runtime/real/private_directory.h"
#include "runtime/real/process_limits.h"
#include "runtime/real/processors.h"
#include "runtime/real/urcu_epoch.h"
#include "tools/server/memory_choice.h"
#include "tools/server/sizing.h"
#include "tools/support/cluster_flags.h"
#include "tools/support/display.h"

namespace ramcore::tools {
namespace {

// Adds a remedy that names flags: the code that has found the cause knows no flags.
Failure withFlags(Failure failure) {
  if (failure.status == Status::InUse) failure.message += ", or name another --storage";
  if (failure.status == Status::NoSpace) failure.message += "; give a smaller --storage-bytes, or another --storage";
  if (failure.status == Status::IoError) failure.message += "; name another --storage";
  return failure;
}

// Has to be called before there are threads, and before memory is touched.
Outcome<bool> bindToNode(const ServerSettings& settings) {
  if (!settings.numa_node) return true;
  const std::string given = "--numa-node " + std::to_string(*settings.numa_node) + ": ";
  const auto node = runtime::NumaNode::find(*settings.numa_node);
  if (!node.ok()) return Failure{node.error().status, given + node.error().message};
  if (node->memoryBytes() != 0 && settings.memory_bytes > node->memoryBytes()) {
    return Failure{Status::BadConfig, given + "--memory " + formatSize(settings.memory_bytes) +
                                          " is more than the node has, " + formatBytes(node->memoryBytes()) +
                                          "; give less, or start one server on each node"};
  }
  auto bound = node->bindThread();
  if (!bound.ok()) return Failure{bound.error().status, given + bound.error().message + "; or leave the flag out"};
  return true;
}

}  // namespace

ServerProcess::ServerProcess(const ServerSettings& settings, std::unique_ptr<log::LogMemory> memory)
    : settings_(settings), rcu_(runtime::makeUrcu()), threads_(*rcu_), memory_(std::move(memory)) {}

int ServerProcess::run() {
  const auto opened = openProcess();
  if (!opened.ok()) return fail(kServerProgram, opened.error());
  if (settings_.storageBytes() != 0) {
    const auto kept = openBackup();
    if (!kept.ok()) return fail(kServerProgram, kept.error());
  }
  const auto filled = openMemory();
  if (!filled.ok()) return fail(kServerProgram, filled.error());
  const auto master = openMaster();
  if (!master.ok()) return fail(kServerProgram, master.error());
  const auto shown = openMetrics();
  if (!shown.ok()) return fail(kServerProgram, shown.error());
  if (settings_.replication.replicas == 0) {
    process_->trace().warning("nothing this server holds survives its death, because of --replicas 0");
  }
  server_->start();
  process_->run([this] { server_->stop(true); }, [this] { return server_->stopped(); });
  rcu_->drain();  // all other readers have ended
  return rejected_ ? 1 : 0;
}

std::unique_ptr<log::LogMemory> ServerProcess::takeMemory() {
  metrics_.reset();  // its threads look at the master
  server_.reset();   // its log is in that memory
  return std::move(memory_);
}

Outcome<bool> ServerProcess::openProcess() {
  auto parsed = parseLocators(settings_.coordinators);
  if (!parsed.ok()) return std::move(parsed).error();
  auto checked = settings_.check();
  if (!checked.ok()) return std::move(checked).error();
  auto bound = bindToNode(settings_);
  if (!bound.ok()) return std::move(bound).error();
  ProcessSettings process_settings = settings_.process;
  process_settings.coordinators = *parsed;
  auto process =
      Process::open(process_settings, kServerProgram, transport::Role::Server, [this] { return threads_.add(); });
  if (!process.ok()) return std::move(process).error();
  process_ = std::move(process).value();
  const server::Server::Environment environment{.clock = process_->clock(),
                                                .entropy = process_->entropy(),
                                                .trace = process_->trace(),
                                                .identity = process_->identity(),
                                                .dispatch = process_->dispatch(),
                                                .caller = process_->caller(),
                                                .rcu = *rcu_,
                                                .threads = threads_,
                                                .coordinator = rpc::coordinatorAt(*parsed),
                                                .observer = *this};
  server_ = std::make_unique<server::Server>(environment);
  return true;
}

Outcome<bool> ServerProcess::openBackup() {
  const std::error_code failed = runtime::makePrivateDirectory(settings_.storage);
  if (failed) {
    return Failure{Status::IoError, "cannot make --storage " + settings_.storage + ": " + failed.message() +
                                        "; name a directory that can be written"};
  }
  auto storage = runtime::FileStorage::open(settings_.storage, process_->trace());
  if (!storage.ok()) return withFlags(std::move(storage).error());
  storage_ = std::move(storage).value();
  auto disk = runtime::makeThreaded<runtime::ThreadExecutor>(process_->clock(), "disk");
  if (!disk.ok()) return std::move(disk).error();
  disk_ = std::move(disk).value();
  const uint64_t storage_bytes = settings_.storageBytes();
  process_->trace().info("preparing " + formatBytes(storage_bytes) + " of storage for replicas in " +
                         settings_.storage);
  auto kept = server_->openBackup({.storage_bytes = storage_bytes,
                                   .segment_bytes = log::LogConfig::kFrameBytes,
                                   .scrub = {.bytes_per_second = settings_.scrub_bytes_per_s,
                                             .pass_ns = settings_.scrub_every_s * runtime::kNanosPerSecond},
                                   .write_thread = settings_.writeThread()},
                                  *storage_, *disk_,
                                  storageBytesNeeded(logConfigOf(settings_.memory_bytes), settings_.copies()));
  if (!kept.ok()) return withFlags(std::move(kept).error());
  return true;
}

Outcome<bool> ServerProcess::openMemory() {
  if (memory_ == nullptr) {
    auto memory = prepareMemory();
    if (!memory.ok()) return std::move(memory).error();
    memory_ = std::move(memory).value();
  }
  auto registered = process_->transports().registerMemory(memory_->base(), memory_->bytes(), transport::Access::Local);
  if (!registered.ok()) return std::move(registered).error();
  region_ = *registered;
  return true;
}

Outcome<std::unique_ptr<log::LogMemory>> ServerProcess::prepareMemory() {
  const uint64_t bytes = logConfigOf(settings_.memory_bytes).memory_bytes;
  auto memory =
      log::LogMemory::open(bytes, settings_.reserved_huge_pages ? log::Pages::Reserved : log::Pages::Transparent);
  if (!memory.ok()) {
    Failure failure = std::move(memory).error();
    if (settings_.reserved_huge_pages) failure.message += ", give less --memory, or leave out --hugetlb";
    return failure;
  }
  // The first touch of memory is slow, so it happens before the first request, with up to 4 threads.
  Trace& trace = process_->trace();
  trace.info("preparing " + formatBytes(bytes) + " of log memory");
  const unsigned threads = std::min(4U, std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < threads; ++i) {
    auto helper = runtime::makeThreaded<std::thread>([&memory] {
      while ((*memory)->prefaultNext()) {
      }
    });
    if (!helper.ok()) break;  // it only takes longer
    helpers.push_back(std::move(**helper));
  }
  uint64_t told = 0;
  while ((*memory)->prefaultNext()) {
    const uint64_t quarter = (*memory)->prefaultedBytes() * 4 / bytes;
    if (quarter > told && quarter < 4) trace.info("log memory is " + std::to_string(quarter * 25) + " % ready");
    told = quarter;
  }
  for (std::thread& helper : helpers) helper.join();
  auto filled = (*memory)->prefaulted();
  if (!filled.ok()) return std::move(filled).error();
  return memory;
}

Outcome<bool> ServerProcess::openMaster() {
  master::MasterConfig config;
  config.log = logConfigOf(settings_.memory_bytes);
  config.index.initial_buckets_log2 = 16;
  config.index.reserve_bytes = std::max<uint64_t>(settings_.memory_bytes / 2, 64 << 20);
  config.self = {.locators = process_->locators(), .name = settings_.name, .failure_domain = settings_.failure_domain};
  config.replication = settings_.replication;
  config.pinning = settings_.pinning;
  config.pinning.region = region_;
  config.cleaners_max = settings_.cleaners_max;
  config.scrub = {.bytes_per_second = settings_.scrub_memory_bytes_per_s,
                  .pass_ns = settings_.scrub_memory_every_s * runtime::kNanosPerSecond};
  return server_->openMaster(
      config, {.memory = *memory_, .storage = storage_.get(), .has_one_processor = &runtime::hasOneProcessor});
}

Outcome<bool> ServerProcess::openMetrics() {
  auto metrics = MetricsServer::openIfWanted(settings_.process.metrics, process_->dispatch(), process_->clock());
  if (!metrics.ok()) return std::move(metrics).error();
  metrics_ = std::move(metrics).value();
  return true;
}

void ServerProcess::onServing(ServerId id) {
  if (metrics_ != nullptr) {
    metrics_->setMaster(server_->master());
    if (server_->backup() != nullptr) metrics_->setBackup(*server_->backup());
  }
  process_->trace().info("serving as server " + std::to_string(id.value));
  process_->ready();
}

void ServerProcess::onRejected(const std::string& why) {
  process_->trace().error(why);
  rejected_ = true;
  process_->requestStop();
}

void ServerProcess::onFenced(const std::string& why) {
  process_->trace().warning(why + "; going on as a new server, from nothing");
  fenced_ = true;
  process_->requestStop();
}

}  // namespace ramcore::tools
