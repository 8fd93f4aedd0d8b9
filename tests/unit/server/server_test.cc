// A server under a small coordinator, in simulated time: in which order its two roles begin and end, and what the
// process is told.
#include "server/server.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "runtime/sim/sim_epoch.h"
#include "runtime/sim/sim_node.h"
#include "runtime/sim/sim_storage.h"
#include "sim/cluster/rpc_process.h"
#include "sim/cluster/sim_dispatch.h"
#include "sim/cluster/small_coordinator.h"
#include "transport/sim/sim_transport.h"

namespace ramcore::server {
namespace {

constexpr uint64_t kEventsMax = 10'000'000;
constexpr uint64_t kStorageBytes = 16u << 20;

/// One process with a server, and notes of what it was told. The caller stops it or not; what is left is unwound.
class ServingProcess final : private ServerObserver {
 public:
  /// @param disk  nullptr: the process has no storage
  ServingProcess(runtime::SimScheduler& scheduler, runtime::SimTraceLog& log, transport::SimNetwork& network,
                 const std::string& name, runtime::SimDisk* disk)
      : node_(scheduler, log, name, {}),
        threads_(rcu_),
        identity_{.role = transport::Role::Server, .id = 0, .cluster_name = "sim", .secret = {}},
        transport_(network, node_.clock(), name, [this] { driver_.wake(); }),
        endpoint_(transport_.makeEndpoint(identity_)),
        driver_(node_, {}),
        caller_(driver_.dispatch()) {
    driver_.dispatch().setHooks(threads_.add());
    runtime::SimExecutor& worker = node_.makeExecutor("worker");
    worker.setHooks(threads_.add());
    driver_.dispatch().setWorkers({&worker});
    const transport::Locator here = transport::Locator::parse("sim://" + name).value();
    RC_CHECK(endpoint_->listen(here).ok());
    driver_.dispatch().addEndpoint(*endpoint_);
    const transport::Locator coordinator = transport::Locator::parse("sim://coordinator").value();
    const Server::Environment environment{.clock = node_.clock(),
                                          .entropy = node_.entropy(),
                                          .trace = node_.trace(),
                                          .identity = identity_,
                                          .dispatch = driver_.dispatch(),
                                          .caller = caller_,
                                          .rcu = rcu_,
                                          .threads = threads_,
                                          .coordinator = {.id = 0, .locators = {coordinator}},
                                          .observer = *this};
    server_ = std::make_unique<Server>(environment);
    const log::LogConfig log_config = log::LogConfig::forTest();
    if (disk != nullptr) {
      storage_ = std::move(disk->open()).value();
      runtime::SimExecutor& disk_thread = node_.makeExecutor("disk");
      disk->occupy(disk_thread);
      RC_CHECK(server_
                   ->openBackup({.storage_bytes = kStorageBytes, .segment_bytes = log_config.segment_bytes}, *storage_,
                                disk_thread, 0)
                   .ok());
    }
    cluster_when_opened_ = identity_.cluster;
    memory_ = std::move(log::LogMemory::open(log_config.memory_bytes)).value();
    master::MasterConfig config;
    config.log = log_config;
    config.index = index::IndexConfig::forTest();
    config.self = {.locators = {here.toString()}, .name = name};
    config.replication.replicas = 0;
    RC_CHECK(server_->openMaster(config, {.memory = *memory_, .storage = storage_.get()}).ok());
    server_->start();
    driver_.wake();
  }
  ~ServingProcess() override {
    driver_.runNow([this] {
      server_->stop(false);
      caller_.shutDown();
    });
    const auto ended = [this] { return server_->stopped() && !driver_.dispatch().hasRequests(); };
    node_.scheduler().runUntil(ended, kEventsMax);
    RC_CHECK(ended());
    RC_CHECK(driver_.drain(kEventsMax) && node_.drain(kEventsMax) && driver_.drain(kEventsMax));
    driver_.end();
    node_.kill();
    server_.reset();
    rcu_.drain();
  }

  Server& server() { return *server_; }
  const transport::Identity& identity() const { return identity_; }
  /// Stops the server on its dispatch, in simulated time.
  void stop() {
    driver_.dispatch().post(stop_, runtime::Priority::Membership);
    driver_.wake();
  }
  bool isStopping() const { return is_stopping_; }

  /// The state of the process when it was told that it serves.
  struct Serving {
    ServerId id;
    transport::Identity identity;
    bool has_log = false;
    bool storage_has_begun = false;
  };
  const std::optional<Serving>& serving() const { return serving_; }
  uint64_t clusterWhenOpened() const { return cluster_when_opened_; }
  const std::string& rejected() const { return rejected_; }
  const std::string& fenced() const { return fenced_; }

 private:
  struct Stop : runtime::Job {
    explicit Stop(ServingProcess& process)
        : Job([](runtime::Job& job) { static_cast<Stop&>(job).owner.beginToStop(); }), owner(process) {}
    ServingProcess& owner;
  };
  void beginToStop() {
    is_stopping_ = true;
    server_->stop(true);
  }
  void onServing(ServerId id) override {
    const backup::Backup* backup = server_->backup();
    serving_ = {.id = id,
                .identity = identity_,
                .has_log = server_->master().log() != nullptr,
                .storage_has_begun = backup != nullptr && backup->store().hasBegun()};
  }
  void onRejected(const std::string& why) override { rejected_ = why; }
  void onFenced(const std::string& why) override { fenced_ = why; }

  runtime::SimNode node_;
  runtime::SimRcu rcu_;
  store::Threads threads_;
  transport::Identity identity_;
  transport::SimTransport transport_;
  std::unique_ptr<transport::Endpoint> endpoint_;  // outlives the messages that wait in the dispatch
  sim::SimDispatch driver_;
  rpc::Caller caller_;
  std::unique_ptr<log::LogMemory> memory_;
  std::unique_ptr<runtime::Storage> storage_;
  std::unique_ptr<Server> server_;
  Stop stop_{*this};
  bool is_stopping_ = false;
  std::optional<Serving> serving_;
  uint64_t cluster_when_opened_ = 0;
  std::string rejected_;
  std::string fenced_;
};

class ServerTest : public testing::Test {
 protected:
  ServerTest()
      : scheduler(7),
        log(scheduler),
        network(scheduler, streams()),
        disk(scheduler, "disk", {}),
        coordinator(scheduler, log, network, "coordinator",
                    {.role = transport::Role::Coordinator, .cluster_name = "sim"}),
        rules(coordinator) {
    coordinator.listen();
  }

  static transport::SimNetworkOptions streams() {
    transport::SimNetworkOptions options;
    options.mode = transport::SimMode::Stream;
    return options;
  }
  /// Each process has a name of its own.
  std::unique_ptr<ServingProcess> makeProcess(runtime::SimDisk* storage) {
    return std::make_unique<ServingProcess>(scheduler, log, network, "server" + std::to_string(++process_count),
                                            storage);
  }
  /// At most a minute of simulated time.
  bool runUntil(const std::function<bool()>& done) {
    const int64_t give_up_ns = scheduler.nowNs() + 60 * runtime::kNanosPerSecond;
    bool is_done = false;
    scheduler.runUntil([&] { return (is_done = done()) || scheduler.nowNs() > give_up_ns; }, kEventsMax);
    return is_done;
  }
  bool awaitServing(const ServingProcess& process) {
    return runUntil([&] { return process.serving().has_value(); });
  }
  bool stopInOrder(ServingProcess& process) {
    process.stop();
    return runUntil([&] { return process.isStopping() && process.server().stopped(); });
  }

  runtime::SimScheduler scheduler;
  runtime::SimTraceLog log;
  transport::SimNetwork network;
  runtime::SimDisk disk;
  sim::RpcProcess coordinator;
  sim::SmallCoordinator rules;
  int process_count = 0;
};

TEST_F(ServerTest, ItServesWhenMasterAndBackupHaveBegun) {
  const auto process = makeProcess(&disk);
  EXPECT_EQ(process->identity().id, 0u);
  ASSERT_TRUE(awaitServing(*process));
  const ServingProcess::Serving& serving = *process->serving();
  EXPECT_EQ(serving.id.value, rules.last_id);
  EXPECT_EQ(serving.id, process->server().master().id());
  EXPECT_EQ(serving.identity.id, serving.id.value);
  EXPECT_EQ(serving.identity.cluster, rules.cluster);
  EXPECT_TRUE(serving.has_log);
  EXPECT_TRUE(serving.storage_has_begun);
  ASSERT_EQ(rules.enlistments.size(), 1u);
  EXPECT_TRUE(rules.enlistments[0].keeps_replicas());
  EXPECT_EQ(rules.enlistments[0].former_id(), 0u);
}

TEST_F(ServerTest, WithoutStorageItKeepsNoReplicas) {
  const auto process = makeProcess(nullptr);
  ASSERT_TRUE(awaitServing(*process));
  EXPECT_EQ(process->server().backup(), nullptr);
  EXPECT_TRUE(process->serving()->has_log);
  EXPECT_EQ(process->identity().id, process->serving()->id.value);
  ASSERT_EQ(rules.enlistments.size(), 1u);
  EXPECT_FALSE(rules.enlistments[0].keeps_replicas());
  EXPECT_TRUE(stopInOrder(*process));
}

TEST_F(ServerTest, ItHasStoppedWhenItHasSaidGoodbyeAndFlushed) {
  auto process = makeProcess(&disk);
  ASSERT_TRUE(awaitServing(*process));
  EXPECT_FALSE(process->server().stopped());
  process->stop();
  ASSERT_TRUE(runUntil([&] { return process->isStopping(); }));
  EXPECT_FALSE(process->server().stopped());
  EXPECT_TRUE(stopInOrder(*process));  // a repetition has no effect
  EXPECT_EQ(rules.goodbyes, 1);
  EXPECT_TRUE(process->server().master().stopped());
  EXPECT_TRUE(process->server().backup()->stopped());
}

TEST_F(ServerTest, ItEnlistsAsTheSuccessorOfTheServerThatHadItsStorage) {
  auto process = makeProcess(&disk);
  EXPECT_EQ(process->clusterWhenOpened(), 0u);
  ASSERT_TRUE(awaitServing(*process));
  const ServerId former = process->serving()->id;
  ASSERT_TRUE(stopInOrder(*process));
  process.reset();

  process = makeProcess(&disk);
  EXPECT_EQ(process->clusterWhenOpened(), rules.cluster) << "its handshakes name the cluster of its storage at once";
  ASSERT_TRUE(awaitServing(*process));
  EXPECT_NE(process->serving()->id, former);
  ASSERT_EQ(rules.enlistments.size(), 2u);
  EXPECT_EQ(rules.enlistments[1].former_id(), former.value);
  EXPECT_EQ(rules.enlistments[1].former_cluster(), rules.cluster);
  EXPECT_NE(rules.enlistments[1].nonce(), rules.enlistments[0].nonce());
}

TEST_F(ServerTest, AStorageOfAnotherClusterIsNotBegun) {
  auto process = makeProcess(&disk);
  ASSERT_TRUE(awaitServing(*process));
  ASSERT_TRUE(stopInOrder(*process));
  process.reset();

  rules.cluster = 78;
  process = makeProcess(&disk);
  ASSERT_TRUE(runUntil([&] { return !process->rejected().empty(); }));
  EXPECT_FALSE(process->serving().has_value());
  EXPECT_TRUE(process->fenced().empty());
}

TEST_F(ServerTest, ItIsToldThatItWasFenced) {
  const auto process = makeProcess(&disk);
  ASSERT_TRUE(awaitServing(*process));
  rules.fenced.insert(process->serving()->id.value);
  ASSERT_TRUE(runUntil([&] { return !process->fenced().empty(); }));
  EXPECT_TRUE(process->rejected().empty());
  EXPECT_TRUE(stopInOrder(*process));
}

}  // namespace
}  // namespace ramcore::server
