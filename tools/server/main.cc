// ramcore-server: a master and a backup. Enlists at the coordinator, serves tablets, keeps replicas of what other
// servers hold, stops on SIGTERM.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "backup/backup.h"
#include "coordinator/tablets/table_manager.h"
#include "master/master.h"
#include "runtime/real/file_storage.h"
#include "runtime/real/numa_node.h"
#include "runtime/real/private_directory.h"
#include "runtime/real/process_limits.h"
#include "runtime/real/processors.h"
#include "runtime/real/urcu_epoch.h"
#include "tools/server/memory_choice.h"
#include "tools/server/sizing.h"
#include "tools/support/cluster_flags.h"
#include "tools/support/command_line.h"
#include "tools/support/display.h"
#include "tools/support/frame_gauge.h"
#include "tools/support/metrics_server.h"
#include "tools/support/process.h"
#include "tools/support/standard_output.h"

namespace ramcore::tools {
namespace {

constexpr const char* kProgram = "ramcore-server";
constexpr uint64_t kMegabyte = uint64_t{1} << 20;
constexpr uint32_t kScrubEverySecondsMax = 366 * 24 * 3600;

struct ServerSettings {
  ProcessSettings process;
  std::vector<std::string> coordinators = {"tcp://127.0.0.1:11100"};
  uint64_t memory_bytes = uint64_t{1} << 30;
  bool memory_is_auto = false;
  std::string name;
  std::string storage = "ramcore-server";
  std::optional<uint64_t> storage_bytes;  // not given: what --memory and --replicas need
  std::string storage_writes = "auto";
  uint64_t scrub_bytes_per_s = uint64_t{16} << 20;
  uint32_t scrub_every_s = 24 * 3600;
  uint64_t scrub_memory_bytes_per_s = uint64_t{16} << 20;
  uint32_t scrub_memory_every_s = 3600;
  std::string failure_domain;
  master::ReplicationOptions replication;
  master::PinningOptions borrowing;
  uint32_t cleaners_max = 0;
  bool reserved_huge_pages = false;
  std::optional<uint32_t> numa_node;
};

class Server final : private master::MasterObserver {
 public:
  /// @param memory  of an earlier server in this process, used in place of new memory; nullptr: this is the first one
  Server(const ServerSettings& settings, std::unique_ptr<log::LogMemory> memory)
      : settings_(settings), rcu_(runtime::makeUrcu()), threads_(*rcu_), memory_(std::move(memory)) {}

  int run() {
    const auto parsed = parseLocators(settings_.coordinators);
    if (!parsed.ok()) return fail(kProgram, parsed.error());
    const rpc::PeerAddress coordinator = rpc::coordinatorAt(*parsed);
    const auto named = checkName();
    if (!named.ok()) return fail(kProgram, named.error());
    const auto replicated = checkReplication();
    if (!replicated.ok()) return fail(kProgram, replicated.error());
    const auto roomy = checkStorage();
    if (!roomy.ok()) return fail(kProgram, roomy.error());
    const auto bound = bindToNode();
    if (!bound.ok()) return fail(kProgram, bound.error());
    ProcessSettings process_settings = settings_.process;
    process_settings.coordinators = *parsed;
    auto process =
        Process::open(process_settings, kProgram, transport::Role::Server, [this] { return threads_.add(); });
    if (!process.ok()) return fail(kProgram, process.error());
    process_ = std::move(process).value();
    threads_.bind(0, process_->dispatch());
    uint32_t index = 1;
    for (runtime::Executor* worker : process_->workers()) threads_.bind(index++, *worker);

    if (storageBytes() != 0) {
      const auto kept = openBackup(coordinator);
      if (!kept.ok()) return fail(kProgram, kept.error());
    }
    if (memory_ == nullptr) {
      auto memory = openMemory();
      if (!memory.ok()) return fail(kProgram, memory.error());
      memory_ = std::move(memory).value();
    }
    const auto registered =
        process_->transports().registerMemory(memory_->base(), memory_->bytes(), transport::Access::Local);
    if (!registered.ok()) return fail(kProgram, registered.error());
    region_ = *registered;
    auto master = openMaster(coordinator);
    if (!master.ok()) return fail(kProgram, master.error());
    master_ = std::move(master).value();
    auto metrics = MetricsServer::openIfWanted(settings_.process.metrics, process_->dispatch(), process_->clock());
    if (!metrics.ok()) return fail(kProgram, metrics.error());
    metrics_ = std::move(metrics).value();
    if (settings_.replication.replicas == 0) {
      process_->trace().warning("nothing this server holds survives its death, because of --replicas 0");
    }
    master_->start();
    process_->run([this] { stop(); }, [this] { return hasStopped(); });
    rcu_->drain();  // all other readers have ended
    return rejected_ ? 1 : 0;
  }
  /// To be asked after run(): whether the process goes on as a new server, because the coordinator has declared this
  /// server dead and no signal has asked the process to end. The new server has another id and nothing in its memory,
  /// and offers the replicas in its storage to recoveries.
  bool goesOn() const { return fenced_ && !process_->wasSignalled(); }
  std::unique_ptr<log::LogMemory> takeMemory() {
    metrics_.reset();  // its threads look at the master
    master_.reset();   // its log is in that memory
    return std::move(memory_);
  }

 private:
  Outcome<bool> checkName() const {
    if (coordinator::TableManager::isTableName(settings_.name)) return true;
    return Failure{Status::BadConfig, "--name of " + std::to_string(settings_.name.size()) +
                                          " bytes; names are UTF-8 of 1 to 255 bytes without control characters, for "
                                          "example --name server1"};
  }

  Outcome<bool> checkReplication() const {
    const master::ReplicationOptions& wanted = settings_.replication;
    if (wanted.local_replica && settings_.storage_bytes == 0U) {
      return Failure{Status::BadConfig, "--local-replica needs storage; leave out --storage-bytes 0"};
    }
    if (wanted.local_replica && wanted.replicas == 0) {
      return Failure{Status::BadConfig,
                     "--local-replica keeps one copy and --replicas 0 keeps none; leave out one of the two"};
    }
    if (wanted.replicas != 0 && wanted.min_replicas > wanted.replicas) {
      return Failure{Status::BadConfig, "--min-replicas " + std::to_string(wanted.min_replicas) +
                                            " is more than --replicas " + std::to_string(wanted.replicas) +
                                            "; writes would be refused for ever: lower it"};
    }
    return true;
  }

  uint32_t copies() const { return settings_.replication.local_replica ? 1 : settings_.replication.replicas; }
  uint64_t storageBytes() const {
    return settings_.storage_bytes.value_or(storageBytesDefault(logConfigOf(settings_.memory_bytes), copies()));
  }

  Outcome<bool> checkStorage() const {
    const uint64_t least = backup::FrameFile::fileBytes(backup::FrameFile::kFrameCountMin, log::LogConfig::kFrameBytes);
    if (storageBytes() == 0 || storageBytes() >= least) return true;
    return Failure{Status::BadConfig, "--storage-bytes " + formatSize(storageBytes()) +
                                          " is too little; give at least " + formatSize(alignUp(least, kMegabyte)) +
                                          ", or 0 to keep no replicas"};
  }

  // Adds a remedy that names flags: the code that has found the cause knows no flags.
  static Failure withFlags(Failure failure) {
    if (failure.status == Status::InUse) failure.message += ", or name another --storage";
    if (failure.status == Status::NoSpace) failure.message += "; give a smaller --storage-bytes, or another --storage";
    if (failure.status == Status::IoError) failure.message += "; name another --storage";
    return failure;
  }

  backup::WriteThread writeThread() const {
    if (settings_.storage_writes == "inline") return backup::WriteThread::Dispatch;
    return settings_.storage_writes == "handoff" ? backup::WriteThread::Disk : backup::WriteThread::Auto;
  }

  Outcome<bool> openBackup(const rpc::PeerAddress& coordinator) {
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
    process_->trace().info("preparing " + formatBytes(storageBytes()) + " of storage for replicas in " +
                           settings_.storage);
    auto backup = backup::Backup::open({.storage_bytes = storageBytes(),
                                        .segment_bytes = log::LogConfig::kFrameBytes,
                                        .scrub = {.bytes_per_second = settings_.scrub_bytes_per_s,
                                                  .pass_ns = settings_.scrub_every_s * runtime::kNanosPerSecond},
                                        .write_thread = writeThread()},
                                       {.storage = *storage_,
                                        .clock = process_->clock(),
                                        .trace = process_->trace(),
                                        .dispatch = process_->dispatch(),
                                        .disk = *disk_,
                                        .caller = process_->caller(),
                                        .coordinator = coordinator,
                                        .on_fence = [this] { master_->refreshMembers(); },
                                        .obeys = [this](uint64_t start) { return master_->obeys(start); }});
    if (!backup.ok()) return withFlags(std::move(backup).error());
    backup_ = std::move(backup).value();
    backup_->addTo(process_->dispatch().services());
    gauge_.emplace(backup_->store(), storageBytesNeeded(logConfigOf(settings_.memory_bytes), copies()));
    process_->identity().cluster = backup_->store().cluster().value;
    return true;
  }

  void stop() {
    master_->stop(true);
    if (backup_ != nullptr) backup_->stop();
  }
  bool hasStopped() const {
    return master_->stopped() && !master_->hasPinnedMemory() && (backup_ == nullptr || backup_->stopped());
  }

  // Has to be called before there are threads, and before memory is touched.
  Outcome<bool> bindToNode() const {
    if (!settings_.numa_node) return true;
    const std::string given = "--numa-node " + std::to_string(*settings_.numa_node) + ": ";
    const auto node = runtime::NumaNode::find(*settings_.numa_node);
    if (!node.ok()) return Failure{node.error().status, given + node.error().message};
    if (node->memoryBytes() != 0 && settings_.memory_bytes > node->memoryBytes()) {
      return Failure{Status::BadConfig, given + "--memory " + formatSize(settings_.memory_bytes) +
                                            " is more than the node has, " + formatBytes(node->memoryBytes()) +
                                            "; give less, or start one server on each node"};
    }
    auto bound = node->bindThread();
    if (!bound.ok()) return Failure{bound.error().status, given + bound.error().message + "; or leave the flag out"};
    return true;
  }

  Outcome<std::unique_ptr<log::LogMemory>> openMemory() {
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

  Outcome<std::unique_ptr<master::Master>> openMaster(const rpc::PeerAddress& coordinator) {
    master::MasterConfig config;
    config.log = logConfigOf(settings_.memory_bytes);
    config.index.initial_buckets_log2 = 16;
    config.index.reserve_bytes = std::max<uint64_t>(settings_.memory_bytes / 2, 64 << 20);
    config.self = {.locators = process_->locators(),
                   .name = settings_.name,
                   .memory_bytes = config.log.memory_bytes,
                   .former = backup_ != nullptr ? backup_->formerServer() : ServerId(),
                   .former_cluster = backup_ != nullptr ? backup_->store().cluster() : ClusterId(),
                   .keeps_replicas = backup_ != nullptr,
                   .failure_domain = settings_.failure_domain,
                   .drawn_storage = process_->entropy().next(),
                   .nonce = process_->entropy().next()};
    config.coordinator = coordinator;
    config.replication = settings_.replication;
    config.borrowing = settings_.borrowing;
    config.borrowing.region = region_;
    config.cleaners_max = settings_.cleaners_max;
    config.scrub = {.bytes_per_second = settings_.scrub_memory_bytes_per_s,
                    .pass_ns = settings_.scrub_memory_every_s * runtime::kNanosPerSecond};
    return master::Master::open(config,
                                {.clock = process_->clock(),
                                 .trace = process_->trace(),
                                 .dispatch = process_->dispatch(),
                                 .caller = process_->caller(),
                                 .rcu = *rcu_,
                                 .threads = threads_,
                                 .memory = *memory_,
                                 .seed = process_->entropy().next(),
                                 .backup = gauge_ ? &*gauge_ : nullptr,
                                 .storage = storage_.get(),
                                 .has_one_processor = &runtime::hasOneProcessor},
                                *this);
  }

  runtime::Task<Status> prepareServing(ServerId id, ClusterId cluster) override {
    // Others address this process as `id` from now on, its backup included.
    process_->identity().id = id.value;
    process_->identity().cluster = cluster.value;
    if (backup_ == nullptr) co_return Status::Ok;
    co_return co_await backup_->begin(id, cluster);
  }
  void onServing(ServerId id) override {
    if (metrics_ != nullptr) {
      metrics_->setMaster(*master_);
      if (backup_ != nullptr) metrics_->setBackup(*backup_);
    }
    process_->trace().info("serving as server " + std::to_string(id.value));
    process_->ready();
  }
  void onRejected(const std::string& why) override {
    process_->trace().error(why);
    rejected_ = true;
    process_->requestStop();
  }

  void onFenced(const std::string& why) override {
    process_->trace().warning(why + "; going on as a new server, from nothing");
    fenced_ = true;
    process_->requestStop();
  }

  const ServerSettings settings_;
  std::unique_ptr<runtime::Rcu> rcu_;
  master::Threads threads_;
  std::unique_ptr<Process> process_;
  std::unique_ptr<runtime::FileStorage> storage_;
  std::unique_ptr<runtime::ThreadExecutor> disk_;  // waits for the disk under writes
  std::unique_ptr<backup::Backup> backup_;
  std::optional<FrameGauge> gauge_;
  std::unique_ptr<log::LogMemory> memory_;
  transport::RegionId region_ = 0;  // of memory_
  std::unique_ptr<master::Master> master_;
  std::unique_ptr<MetricsServer> metrics_;
  bool rejected_ = false;
  bool fenced_ = false;
};

std::string hostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "server";
}

int main(int argc, char** argv) {
  StandardOutput output(kProgram);
  ServerSettings settings;
  settings.process.listen = {"all://127.0.0.1:0"};
  settings.name = hostName();
  CommandLine app("A Ramcore server: holds tablets of the cluster's tables in memory", kProgram);
  addProcessFlags(app, settings.process);
  addCoordinatorFlag(app, settings.coordinators);
  app.addOption("--memory", settings.memory_bytes,
                "Memory for objects, in bytes or with a unit (KiB, MiB, GiB), in steps of 64KiB; auto: what fits into "
                "the free memory of the machine and its control group. On top of it come the index, about 13 bytes for "
                "each object (at most half of --memory, or 64MiB if that is more), and some bookkeeping")
      .environment("RAMCORE_MEMORY")
      .asSizeOrAuto(settings.memory_is_auto)
      .showDefault(formatSize(settings.memory_bytes));
  app.addFlag(
         "--hugetlb", settings.reserved_huge_pages,
         "Take --memory from the huge pages of 2 MiB that the machine has set aside (vm.nr_hugepages), and not from "
         "those that the kernel happens to have at that moment: their number is certain, and nothing else can use them")
      .environment("RAMCORE_HUGETLB");
  app.addOption("--numa-node", settings.numa_node,
                "Run on the processors of this NUMA node, with all memory there; best the node of the network card. "
                "Not given: anywhere. On a machine with several nodes start one server for each")
      .environment("RAMCORE_NUMA_NODE")
      .inRange(0, 1023);
  app.addOption("--pin-deadline-ms", settings.process.pin_deadline_ms,
                "How long an answer may hold memory of the log, in milliseconds; what its reader has not taken by then "
                "is copied")
      .environment("RAMCORE_PIN_DEADLINE_MS")
      .inRange(1, 10000);
  app.addOption("--pinned-bytes", settings.borrowing.pinned_bytes_max,
                "Memory of the log that answers may hold, in bytes or with a unit; beyond it values are copied. Never "
                "more than an eighth of --memory")
      .environment("RAMCORE_PINNED_BYTES")
      .asSize()
      .showDefault(formatSize(settings.borrowing.pinned_bytes_max));
  app.addOption(
         "--cleaners-max", settings.cleaners_max,
         "Workers that may clean memory at the same time when it runs short, never all of them; 0: half of --workers")
      .environment("RAMCORE_CLEANERS_MAX")
      .inRange(0, 32);
  app.addOption("--storage", settings.storage,
                "Directory for replicas of what other servers hold; made if it is not there. It belongs to one server")
      .environment("RAMCORE_STORAGE");
  app.addOption("--storage-bytes", settings.storage_bytes,
                "Space for such replicas, in bytes or with a unit, taken at the first start; 0: keep none. Not given: "
                "an eighth more than is needed where all servers are alike, some 4.5 times --memory for --replicas 3, "
                "1.5 times for --replicas 1")
      .environment("RAMCORE_STORAGE_BYTES")
      .asSize()
      .showDefault("what --memory and --replicas need");
  app.addOption("--storage-writes", settings.storage_writes,
                "Which thread writes replicas into the page cache: auto (the dispatch thread while the disk is quick), "
                "inline (always the dispatch thread), handoff (always a thread of its own: no read ever waits for the "
                "disk, and each write takes longer by two changes of threads)")
      .environment("RAMCORE_STORAGE_WRITES")
      .oneOf({"auto", "inline", "handoff"});
  app.addOption("--scrub-bytes-per-s", settings.scrub_bytes_per_s,
                "How fast the replicas are read again to find out whether the disk has kept them, in bytes or with a "
                "unit; 0: never")
      .environment("RAMCORE_SCRUB_BYTES_PER_S")
      .asSize()
      .showDefault(formatSize(settings.scrub_bytes_per_s));
  app.addOption(
         "--scrub-every-s", settings.scrub_every_s,
         "Seconds from the beginning of one such pass over the replicas to that of the next, unless it takes longer")
      .environment("RAMCORE_SCRUB_EVERY_S")
      .inRange(1U, kScrubEverySecondsMax);
  app.addOption("--scrub-memory-bytes-per-s", settings.scrub_memory_bytes_per_s,
                "How fast the objects in --memory are verified, in bytes or with a unit; what is damaged is restored "
                "from its replicas; 0: never")
      .environment("RAMCORE_SCRUB_MEMORY_BYTES_PER_S")
      .asSize()
      .showDefault(formatSize(settings.scrub_memory_bytes_per_s));
  app.addOption("--scrub-memory-every-s", settings.scrub_memory_every_s,
                "Seconds from the beginning of one pass over --memory to that of the next, unless it takes longer")
      .environment("RAMCORE_SCRUB_MEMORY_EVERY_S")
      .inRange(1U, kScrubEverySecondsMax);
  app.addOption(
         "--replicas", settings.replication.replicas,
         "Number of other servers on which everything that this one holds is kept; 0: nothing survives this server")
      .environment("RAMCORE_REPLICAS")
      .inRange(0, 8);
  const Option min_replicas = app.addOption("--min-replicas", settings.replication.min_replicas,
                                            "Writes are refused while fewer other servers than this live to keep "
                                            "replicas; not given: 1 with --replicas 1")
                                  .environment("RAMCORE_MIN_REPLICAS")
                                  .inRange(1, 8);
  app.addFlag(
         "--local-replica", settings.replication.local_replica,
         "Keep one replica, in the storage of this very server: it survives a restart, not the loss of the machine")
      .environment("RAMCORE_LOCAL_REPLICA");
  app.addOption("--failure-domain", settings.failure_domain,
                "Name of the rack, power supply or machine: replicas go to different ones where there are several")
      .environment("RAMCORE_FAILURE_DOMAIN");
  app.addOption("--name", settings.name, "Name of this server for people").environment("RAMCORE_NAME");
  int exit_code = 0;
  if (!parseFlags(app, argc, argv, exit_code)) return output.finish(exit_code);
  if (!min_replicas.isGiven() && settings.replication.replicas == 1) settings.replication.min_replicas = 1;
  const auto chosen =
      chooseMemory(settings.memory_is_auto ? std::nullopt : std::optional<uint64_t>(settings.memory_bytes),
                   runtime::MemoryLimit::ofThisProcess());
  if (!chosen.ok()) return fail(kProgram, chosen.error());
  settings.memory_bytes = *chosen;
  std::unique_ptr<log::LogMemory> memory;
  while (true) {
    Server server(settings, std::move(memory));
    exit_code = server.run();
    if (!server.goesOn()) return exit_code;
    memory = server.takeMemory();
  }
}

}  // namespace
}  // namespace ramcore::tools

int main(int argc, char** argv) { return ramcore::tools::main(argc, argv); }
