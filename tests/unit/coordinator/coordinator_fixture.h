#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "coordinator/members/client_leases.h"
#include "coordinator/recovery/recovery_manager.h"
#include "coordinator/state/memory_state_store.h"
#include "coordinator/tablets/migration_manager.h"
#include "coordinator/tablets/split_manager.h"
#include "coordinator/tablets/table_manager.h"
#include "unit/coordinator/fake_masters.h"

namespace ramcore::coordinator {

inline constexpr int64_t kMilli = runtime::kNanosPerMilli;
inline constexpr int64_t kSecond = runtime::kNanosPerSecond;

/// A coordinator's parts over a simulated disk and fake servers, without a network. Can be crashed and started again at
/// any moment.
class Bench {
 public:
  struct Options {
    uint64_t seed = 1;
    MembershipOptions membership{.lease_ns = 2 * kSecond, .verdict_after_ns = 4 * kSecond, .together_ns = 4 * kSecond};
    int64_t client_lease_ns = 30 * kSecond;
    FakeMasterCalls::Faults faults{};
  };
  explicit Bench(const Options& options) : options_(options), scheduler_(options.seed), log_(scheduler_) { start(); }
  Bench() : Bench(Options{}) {}
  ~Bench() { crash(); }

  /// One life of the process.
  struct Life {
    Life(Bench& bench, int number)
        : node(bench.scheduler_, bench.log_, "coordinator#" + std::to_string(number), {.drift_ppm_max = 0}),
          executor(node.makeExecutor("dispatch")),
          store(bench.disk_, executor, node.stream("store"), {}),
          journal(store, executor, [this](Status status) { failed = status; }),
          membership(journal, node.trace(), bench.options_.membership),
          clients(journal, bench.options_.client_lease_ns),
          masters(bench.cluster_, journal, bench.scheduler_, node.stream("masters"), bench.options_.faults),
          map_lock(executor),
          tablet_ids(journal, "tablet"),
          migrations(parts()),
          splits(parts(), migrations),
          recoveries(parts()),
          tables(parts(), {&migrations, &splits, &recoveries}) {}
    Parts parts() { return {journal, node.trace(), map, map_lock, membership, masters, tablet_ids}; }

    runtime::SimNode node;
    runtime::SimExecutor& executor;
    MemoryStateStore store;
    Status failed = Status::Ok;
    Journal journal;
    Membership membership;
    ClientLeases clients;
    FakeMasterCalls masters;
    TabletMap map;
    AsyncMutex map_lock;
    IdAllocator tablet_ids;
    MigrationManager migrations;
    SplitManager splits;
    RecoveryManager recoveries;
    TableManager tables;
  };
  Life& life() { return *life_; }
  /// The options of the next start.
  void setMembership(const MembershipOptions& membership) { options_.membership = membership; }
  void setClientLeaseNs(int64_t lease_ns) { options_.client_lease_ns = lease_ns; }
  FakeCluster& cluster() { return cluster_; }
  MemoryDisk& disk() { return disk_; }
  runtime::SimScheduler& scheduler() { return scheduler_; }
  int64_t nowNs() { return life_->journal.nowNs(); }

  void start() { ASSERT_EQ(tryStart(), Status::Ok) << life_->journal.warning(); }
  /// The outcome of reading what is on the disk.
  Status tryStart() {
    crash();
    life_ = std::make_unique<Life>(*this, ++lives_);
    Status loaded = Status::Internal;
    run(load(*life_, loaded));
    return loaded;
  }
  /// kill -9: what is not on the disk is gone.
  void crash() {
    if (life_ == nullptr) return;
    // Everything that waits is told to end, out of simulated time, and nothing that it does reaches anybody.
    Ending ending(*life_);
    life_->executor.post(ending);
    for (int round = 0; round < 100 && !life_->journal.idle(); ++round) (void)life_->node.drain(10'000);
    (void)life_->node.drain(10'000);
    ASSERT_TRUE(life_->journal.idle());
    life_.reset();
  }
  void restart() {
    crash();
    start();
  }

  /// Runs simulated time until `task` is done.
  template <typename T>
  T run(runtime::Task<T> task) {
    const auto stop = scheduler_.runUntil([&] { return task.isDone(); }, 5'000'000);
    EXPECT_EQ(stop, runtime::SimScheduler::Stop::Done);
    return task.take();
  }
  void pass(int64_t duration_ns) {
    const auto stop = scheduler_.runUntil(scheduler_.nowNs() + duration_ns, 5'000'000);
    EXPECT_NE(stop, runtime::SimScheduler::Stop::EventLimit);
  }
  bool runUntil(const std::function<bool()>& done, uint64_t events_max = 1'000'000) {
    return scheduler_.runUntil(done, events_max) == runtime::SimScheduler::Stop::Done;
  }

  static Server serverOf(uint64_t nonce) {
    Server server;
    server.locators = {"tcp://127.0.0.1:" + std::to_string(1000 + nonce)};
    server.name = "s" + std::to_string(nonce);
    server.memory_bytes = 1 << 20;
    server.format_version = 1;
    server.replicas = 3;
    server.nonce = nonce;
    return server;
  }
  /// Calls on the coordinator's executor.
  Membership::Enlistment enlist(Server server, ServerId former = {}) {
    return run(enlistOn(*life_, std::move(server), former));
  }
  ServerId join(Server server, ServerId former = {}) {
    const Membership::Enlistment enlisted = enlist(std::move(server), former);
    EXPECT_EQ(enlisted.status, Status::Ok);
    cluster_.machine(enlisted.id).up = true;
    return enlisted.id;
  }
  ServerId addServer(uint64_t nonce) { return join(serverOf(nonce)); }
  /// Adds a server that keeps replicas, too.
  /// @param former   whose storage it has
  /// @param storage  the storage's name; 0: none
  ServerId addBackup(uint64_t nonce, ServerId former = {}, uint64_t storage = 0) {
    Server server = serverOf(nonce);
    server.keeps_replicas = true;
    server.storage = storage;
    return join(std::move(server), former);
  }
  Status raiseFloor(ServerId id, ReplicaFloor floor) { return run(raiseFloorOn(*life_, id, floor)); }
  /// Lets a server fall silent, until the verdict.
  void kill(ServerId id) {
    cluster_.machine(id).up = false;
    for (int i = 0; i < 40 && life_->membership.isAlive(id); ++i) passRenewing(200 * kMilli);
    EXPECT_FALSE(life_->membership.isAlive(id));
  }
  Status acceptLoss(ServerId dead, uint64_t token) { return run(acceptLossOn(*life_, dead, token)); }
  Status goodbye(ServerId id) { return run(goodbyeOn(*life_, id)); }
  /// @param nonce  0: one of its own
  TableManager::Created create(std::string name, uint32_t tablets, uint64_t nonce = 0,
                               Durability durability = Durability::Buffered) {
    return run(
        createOn(*life_, std::move(name), tablets, nonce != 0 ? nonce : ++last_nonce_, 60 * kSecond, durability));
  }
  Status drop(TableId table) { return run(dropOn(*life_, table)); }
  MigrationManager::Begun move(TabletId tablet, ServerId destination) {
    return run(moveOn(*life_, tablet, destination));
  }
  Status cancel(MigrationId id) { return run(cancelOn(*life_, id)); }
  void beginCancel(MigrationId id) { cancelOn(*life_, id).detach(); }
  SplitManager::Halves split(TableId table, KeyHash hash) { return run(splitOn(*life_, table, hash)); }
  ClientLeases::Opened openClient(uint64_t nonce) { return run(openOn(*life_, nonce)); }
  Status closeClient(ClientId id) { return run(closeOn(*life_, id)); }
  ClientLeases::Checked check(std::vector<ClientId> ids) { return run(checkOn(*life_, std::move(ids))); }

  /// All servers that are up renew, as they would by themselves.
  void renewAll() {
    for (auto& [id, machine] : cluster_.machines()) {
      if (!machine.up || life_->membership.renew(id) != Status::Ok) continue;
      const FakeCluster::Intakes intakes = machine.intakes();
      if (!intakes.empty() && life_->membership.isSettled()) review(id, intakes);
    }
  }
  /// Tells the coordinator what a server is fetching, as a renewal does.
  void review(ServerId server, FakeCluster::Intakes intakes) { run(reviewOn(*life_, server, std::move(intakes))); }
  /// Lets time pass while servers that are up renew their leases.
  void passRenewing(int64_t duration_ns) {
    const int64_t end_ns = scheduler_.nowNs() + duration_ns;
    while (scheduler_.nowNs() < end_ns) {
      renewAll();
      pass(std::min<int64_t>(500 * kMilli, end_ns - scheduler_.nowNs()));
    }
  }

  static runtime::Task<void> reviewOn(Life& life, ServerId server, FakeCluster::Intakes intakes) {
    co_await runtime::resumeOn(life.executor);
    Journal::Running running(life.journal);
    life.recoveries.reviewIntakes(server, intakes);
  }
  static runtime::Task<TableManager::Created> createOn(Life& life, std::string name, uint32_t tablets, uint64_t nonce,
                                                       int64_t wait_ns = 60 * kSecond,
                                                       Durability durability = Durability::Buffered) {
    co_await runtime::resumeOn(life.executor);
    Journal::Running running(life.journal);
    co_return co_await life.tables.create(std::move(name), tablets, durability, nonce, life.journal.nowNs() + wait_ns);
  }
  static runtime::Task<Status> dropOn(Life& life, TableId table, int64_t wait_ns = 60 * kSecond) {
    co_await runtime::resumeOn(life.executor);
    Journal::Running running(life.journal);
    co_return co_await life.tables.drop(table, life.journal.nowNs() + wait_ns);
  }
  static runtime::Task<MigrationManager::Begun> moveOn(Life& life, TabletId tablet, ServerId destination) {
    co_await runtime::resumeOn(life.executor);
    Journal::Running running(life.journal);
    co_return co_await life.migrations.begin(tablet, destination);
  }
  static runtime::Task<SplitManager::Halves> splitOn(Life& life, TableId table, KeyHash hash) {
    co_await runtime::resumeOn(life.executor);
    Journal::Running running(life.journal);
    co_return co_await life.splits.split(table, hash, life.journal.nowNs() + 60 * kSecond);
  }

  static runtime::Task<Membership::Enlistment> enlistOn(Life& life, Server server, ServerId former) {
    co_await runtime::resumeOn(life.executor);
    co_return co_await life.membership.enlist(std::move(server), former);
  }
  static runtime::Task<Status> raiseFloorOn(Life& life, ServerId id, ReplicaFloor floor) {
    co_await runtime::resumeOn(life.executor);
    co_return co_await life.membership.raiseFloor(id, floor);
  }
  static runtime::Task<Status> acceptLossOn(Life& life, ServerId dead, uint64_t token) {
    co_await runtime::resumeOn(life.executor);
    Journal::Running running(life.journal);
    co_return co_await life.recoveries.acceptLoss(dead, token);
  }
  static runtime::Task<Status> goodbyeOn(Life& life, ServerId id) {
    co_await runtime::resumeOn(life.executor);
    co_return co_await life.membership.goodbye(id);
  }

 private:
  struct Ending : runtime::Job {
    explicit Ending(Life& life) : Job([](runtime::Job& job) { static_cast<Ending&>(job).end(); }), life(life) {}
    void end() {
      life.journal.stop();
      life.membership.stop();
      life.clients.stop();
      life.tables.stop();
      life.migrations.stop();
      life.splits.stop();
      life.recoveries.stop();
    }
    Life& life;
  };
  static runtime::Task<void> load(Life& life, Status& loaded) {
    co_await runtime::resumeOn(life.executor);
    loaded = co_await life.membership.load();
    if (loaded == Status::Ok) loaded = co_await life.clients.load();
    if (loaded == Status::Ok) loaded = co_await life.tablet_ids.load();
    if (loaded == Status::Ok) loaded = co_await life.tables.load();
    if (loaded == Status::Ok) loaded = co_await life.migrations.load();
    if (loaded == Status::Ok) loaded = co_await life.splits.load();
    if (loaded == Status::Ok) loaded = co_await life.recoveries.load();
    if (loaded != Status::Ok) co_return;
    life.membership.start();
    life.clients.start();
    life.tables.resume();
    life.migrations.resume();
    life.splits.resume();
    life.recoveries.resume();
  }
  static runtime::Task<Status> cancelOn(Life& life, MigrationId id) {
    co_await runtime::resumeOn(life.executor);
    Journal::Running running(life.journal);
    co_return co_await life.migrations.cancel(id, life.journal.nowNs() + 60 * kSecond);
  }
  static runtime::Task<ClientLeases::Opened> openOn(Life& life, uint64_t nonce) {
    co_await runtime::resumeOn(life.executor);
    co_return co_await life.clients.open(nonce);
  }
  static runtime::Task<Status> closeOn(Life& life, ClientId id) {
    co_await runtime::resumeOn(life.executor);
    co_return co_await life.clients.close(id);
  }
  static runtime::Task<ClientLeases::Checked> checkOn(Life& life, std::vector<ClientId> ids) {
    co_await runtime::resumeOn(life.executor);
    co_return co_await life.clients.check(std::move(ids));
  }

  Options options_;
  runtime::SimScheduler scheduler_;
  runtime::SimTraceLog log_;
  MemoryDisk disk_{ClusterId(7), "ramcore"};
  FakeCluster cluster_;
  std::unique_ptr<Life> life_;
  int lives_ = 0;
  uint64_t last_nonce_ = 1'000;  // of the creations that named none
};

}  // namespace ramcore::coordinator
