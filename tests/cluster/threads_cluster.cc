#include "tests/cluster/threads_cluster.h"

#include <stdlib.h>

#include <algorithm>

#include "base/check.h"

namespace ramcore::cluster {
namespace {

constexpr const char* kClusterName = "threads";
constexpr uint32_t kSegmentBytes = 128 << 10;
constexpr uint64_t kStorageBytes = 128 * kSegmentBytes;

// 2 MB in segments of 128 KB: a few thousand writes fill it.
master::MasterConfig smallMaster() {
  master::MasterConfig config;
  config.log.memory_bytes = 2 << 20;
  config.log.segment_bytes = kSegmentBytes;
  config.log.seglet_bytes = 8 << 10;
  config.log.entry_bytes_max = 16 << 10;
  config.log.poison_freed = true;
  config.index = {.initial_buckets_log2 = 4, .reserve_bytes = 16 << 20, .stripes_log2 = 4};
  return config;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "ramcore-threads-XXXXXX").string();
  RC_CHECK(mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

// ---- server

ServerOfThreads::ServerOfThreads(const NodeSettings& settings, const std::string& coordinator, uint32_t replicas,
                                 const std::string& directory, const StorageSettings& storage)
    : rcu_(runtime::makeUrcu()), threads_(*rcu_), node_(settings, [this] { return threads_.add(); }) {
  const transport::Locator where = transport::Locator::parse(coordinator).value();
  const server::Server::Environment environment{.clock = node_.clock(),
                                                .entropy = node_.entropy(),
                                                .trace = node_.trace(),
                                                .identity = node_.identity(),
                                                .dispatch = node_.dispatch(),
                                                .caller = node_.caller(),
                                                .rcu = *rcu_,
                                                .threads = threads_,
                                                .coordinator = {.id = 0, .locators = {where}},
                                                .observer = *this};
  server_ = std::make_unique<server::Server>(environment);
  if (!directory.empty()) openBackup(directory, storage);
  master::MasterConfig config = smallMaster();
  config.self = {.locators = node_.locators(), .name = settings.name};
  config.replication = {.replicas = replicas, .min_replicas = std::min(replicas, 1U)};
  memory_ = log::LogMemory::open(config.log.memory_bytes).value();
  // The master keeps what it hears in no file: its dispatch thread writes such a file itself, and tests have disks that
  // stand still.
  RC_CHECK(server_->openMaster(config, {.memory = *memory_}).ok());
  node_.start([this] { server_->start(); });
}

ServerOfThreads::~ServerOfThreads() {
  if (!is_stopped_) RC_CHECK(stop());
  rcu_->drain();
}

bool ServerOfThreads::stop() {
  is_stopped_ = true;
  return node_.stop([this] { server_->stop(true); }, [this] { return server_->stopped(); });
}

void ServerOfThreads::openBackup(const std::string& directory, const StorageSettings& storage) {
  std::filesystem::create_directories(directory);
  storage_ = runtime::FileStorage::open(directory, node_.trace()).value();
  if (storage.wrap_first) storage_ = storage.wrap_first(std::move(storage_));
  disk_ = std::make_unique<runtime::ThreadExecutor>(node_.clock(), "disk");
  const auto kept = server_->openBackup(
      {.storage_bytes = kStorageBytes, .segment_bytes = kSegmentBytes, .write_thread = storage.write_thread}, *storage_,
      *disk_, 0);
  RC_CHECK_MSG(kept.ok(), kept.ok() ? "" : kept.error().message.c_str());
}

void ServerOfThreads::onServing(ServerId id) {
  id_ = id;
  serving_.set();
}

void ServerOfThreads::onRejected(const std::string& why) {
  node_.trace().error(why);
  is_rejected_.store(true);
}

// ---- coordinator

CoordinatorOfThreads::CoordinatorOfThreads(const NodeSettings& settings, const std::string& directory, int64_t lease_ns)
    : node_(settings, nullptr) {
  store_ = coordinator::SqliteStateStore::open({.path = directory, .cluster_name = kClusterName}, node_.entropy(),
                                               *node_.workers().front(), node_.trace())
               .value();
  node_.identity().cluster = store_->cluster().value;
  node_.identity().id = node_.entropy().next() | 1;
  coordinator::CoordinatorOptions options;
  // A machine that does three other things as well must not look like a dead server.
  options.membership.lease_ns = lease_ns;
  options.membership.verdict_after_ns = 120 * runtime::kNanosPerSecond;
  options.membership.together_ns = 120 * runtime::kNanosPerSecond;
  options.client_lease_ns = 120 * runtime::kNanosPerSecond;
  coordinator_ = std::make_unique<coordinator::Coordinator>(
      coordinator::Coordinator::Environment{.dispatch = node_.dispatch(),
                                            .caller = node_.caller(),
                                            .store = *store_,
                                            .trace = node_.trace(),
                                            .on_failed = [this](Status) { has_failed_.store(true); },
                                            .start = node_.identity().id},
      options);
  node_.start([this] {
    coordinator_->start([this](Status status) {
      if (status == Status::Ok) serving_.set();
    });
  });
}

CoordinatorOfThreads::~CoordinatorOfThreads() {
  if (!is_stopped_) RC_CHECK(stop());
}

bool CoordinatorOfThreads::stop() {
  is_stopped_ = true;
  return node_.stop([this] { coordinator_->stop(); }, [this] { return coordinator_->isIdle(); });
}

// ---- cluster

ClusterOfThreads::ClusterOfThreads(uint32_t replicas, uint32_t workers, const StorageSettings& storage,
                                   int64_t lease_ns)
    : replicas_(replicas), workers_(workers), storage_(storage), lease_ns_(lease_ns) {
  const std::string shm = "shm://" + folder_.file("coordinator");
  coordinator_ = std::make_unique<CoordinatorOfThreads>(
      settingsOf("coord", transport::Role::Coordinator, {"tcp://127.0.0.1:0", shm}), folder_.file("state"), lease_ns_);
  coordinator_locators_ = coordinator_->node().locators();
  RC_CHECK(coordinator_->awaitServing());
  for (size_t i = 0; i < kServers; ++i) servers_.push_back(makeServer(i));
  for (auto& server : servers_) RC_CHECK(server->awaitServing());
}

std::unique_ptr<ServerOfThreads> ClusterOfThreads::makeServer(size_t index) const {
  const std::string name = "s" + std::to_string(index);
  std::vector<std::string> listen;
  if (index != 1) listen.push_back("shm://" + folder_.file(name));
  if (index != 2) listen.emplace_back("tcp://127.0.0.1:0");
  NodeSettings settings = settingsOf(name, transport::Role::Server, listen);
  if (index == 0) settings.hand_off = rpc::HandOff::Workers;
  StorageSettings storage = storage_;
  if (index != 0) storage.wrap_first = {};
  return std::make_unique<ServerOfThreads>(settings, coordinator_locators_[index % coordinator_locators_.size()],
                                           replicas_, replicas_ == 0 ? "" : folder_.file("storage-" + name), storage);
}

ClusterOfThreads::~ClusterOfThreads() = default;

NodeSettings ClusterOfThreads::settingsOf(const std::string& name, transport::Role role,
                                          std::vector<std::string> listen) const {
  return {.name = name,
          .cluster_name = kClusterName,
          .role = role,
          .listen = std::move(listen),
          .workers = role == transport::Role::Coordinator ? 1U : workers_,
          .hand_off = role == transport::Role::Coordinator ? rpc::HandOff::Inline : rpc::HandOff::Auto};
}

ClientOptions ClusterOfThreads::options(const std::string& scheme) const {
  ClientOptions options;
  for (const std::string& locator : coordinator_locators_) {
    if (locator.starts_with(scheme)) options.coordinators.push_back(locator);
  }
  options.cluster_name = kClusterName;
  options.default_timeout = std::chrono::minutes(1);
  options.connect_timeout = std::chrono::minutes(1);
  return options;
}

std::unique_ptr<Client> ClusterOfThreads::connect(const ClientOptions& options) const {
  auto client = Client::connect(options);
  RC_CHECK_MSG(client.ok(), client.ok() ? "" : client.error().message.c_str());
  return std::make_unique<Client>(std::move(client).value());
}

void ClusterOfThreads::restartCoordinator() {
  RC_CHECK(coordinator_->stop());
  coordinator_.reset();
  coordinator_ = std::make_unique<CoordinatorOfThreads>(
      settingsOf("coord", transport::Role::Coordinator, coordinator_locators_), folder_.file("state"), lease_ns_);
  RC_CHECK(coordinator_->awaitServing());
}

void ClusterOfThreads::restartServer(size_t index) {
  std::unique_ptr<ServerOfThreads> former;
  {
    std::lock_guard guard(mutex_);
    former = std::move(servers_[index]);
  }
  RC_CHECK(former->stop());
  former.reset();  // unlocks its storage
  std::unique_ptr<ServerOfThreads> next = makeServer(index);
  RC_CHECK(next->awaitServing());
  std::lock_guard guard(mutex_);
  servers_[index] = std::move(next);
}

ServerOfThreads& ClusterOfThreads::server(size_t index) {
  std::lock_guard guard(mutex_);
  return *servers_[index];
}

void ClusterOfThreads::breakSession(uint64_t random) {
  ThreadNode& node = server(random % kServers).node();
  (random / kServers % 2 == 0 ? node.tcp() : node.shm()).breakOne(random / kServers / 2);
}

bool ClusterOfThreads::stop() {
  bool in_order = true;
  for (auto& server : servers_) in_order &= server->stop();
  return coordinator_->stop() && in_order;
}

uint64_t ClusterOfThreads::cleanerPasses() const {
  return sum([](const ServerOfThreads& server) { return server.logStats().cleaner_passes.load(); });
}

uint64_t ClusterOfThreads::segmentsCleaned() const {
  return sum([](const ServerOfThreads& server) { return server.logStats().segments_cleaned.load(); });
}

uint64_t ClusterOfThreads::bytesShared() const {
  return sum([](const ServerOfThreads& server) { return server.logStats().cleaner_bytes_shared.load(); });
}

uint64_t ClusterOfThreads::sessionsBroken() const {
  return sum(
      [](ServerOfThreads& server) { return server.node().tcp().brokenCount() + server.node().shm().brokenCount(); });
}

uint64_t ClusterOfThreads::sessionsOpened(const std::string& scheme) const {
  return sum([&](ServerOfThreads& server) {
    return (scheme == "tcp" ? server.node().tcp() : server.node().shm()).openedCount();
  });
}

bool ClusterOfThreads::isHealthy() const {
  return sum([](const ServerOfThreads& server) { return uint64_t{server.isRejected()}; }) == 0 &&
         !coordinator_->hasFailed();
}

}  // namespace ramcore::cluster
