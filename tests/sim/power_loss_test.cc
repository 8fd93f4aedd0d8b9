/// A server dies, and the machines that keep its log lose their power: what has to be there before its tablets are
/// served again (docs/durability.md).

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/checkers/linearizability.h"
#include "sim/cluster/sim_cluster.h"

namespace ramcore::sim {
namespace {

using runtime::kNanosPerSecond;

/// Four servers, each with copies of all others, and clients whose work is done.
class PowerFailure : public ::testing::TestWithParam<uint64_t> {
 protected:
  static constexpr size_t kServers = 4;
  static constexpr size_t kDead = 0;    // whose log this is about
  static constexpr size_t kAbsent = 3;  // has a copy of it
  // Longer than all that a recovery waits for and that ends by itself.
  static constexpr int64_t kForGoodNs = 120 * kNanosPerSecond;

  void SetUp() override {
    cluster_.startCoordinator();
    for (size_t i = 0; i < kServers; ++i) cluster_.addServer();
    for (uint32_t i = 0; i < kClients; ++i) {
      clients_.push_back(std::make_unique<SimClient>(
          cluster_.scheduler, cluster_.trace, cluster_.network, "client" + std::to_string(i), i,
          SimCluster::kClusterName, SimCluster::kCoordinatorNode,
          SimClient::Shared{.generator = generator_, .history = history_, .scans = scans_, .tables = tables_}));
    }
    ASSERT_TRUE(runUntil([&] { return cluster_.allServe(); }));
    clients_.front()->dispatch().post(create_, runtime::Priority::Client);
    clients_.front()->wake();
    ASSERT_TRUE(runUntil([&] { return created_; })) << "the table is not created";
    for (auto& client : clients_) client->start(kCalls);
    ASSERT_TRUE(runUntil([&] {
      return std::all_of(clients_.begin(), clients_.end(), [](const auto& client) { return client->isDone(); });
    })) << "the clients' work does not end";
    dead_ = cluster_.servers[kDead]->master().id();
    absent_ = cluster_.servers[kAbsent]->master().id();
    ASSERT_EQ(cluster_.servers[kDead]->master().replicas()->counts().least, kServers - 1);
  }

  /// All at one instant. Those in `with_power` lose only their processes.
  void killAll(std::vector<size_t> with_power) {
    for (size_t i = 0; i < kServers; ++i) {
      cluster_.killServer(i, std::find(with_power.begin(), with_power.end(), i) == with_power.end());
    }
  }
  void restartAllButAbsent() {
    for (size_t i = 0; i < kServers; ++i) {
      if (i != kAbsent) cluster_.restartServer(i);
    }
  }
  bool isRecovered() const {
    const coordinator::Coordinator& coordinator = cluster_.coordinator->coordinator();
    return coordinator.isServing() && coordinator.isReleased(dead_);
  }
  /// Asks for the state that `ramcore status` shows.
  void askStatus() {
    status_.reset();
    clients_.front()->dispatch().post(ask_, runtime::Priority::Client);
    clients_.front()->wake();
    ASSERT_TRUE(runUntil([&] { return status_.has_value(); }));
  }
  void readEverything() {
    clients_.front()->readAll();
    ASSERT_TRUE(runUntil([&] { return clients_.front()->isDone(); })) << "the end state cannot be read";
    EXPECT_EQ(checkLinearizability(history_).text(), "");
  }
  void runFor(int64_t ns) { cluster_.scheduler.runUntil(cluster_.scheduler.nowNs() + ns, kEventsMax); }
  template <typename Done>
  bool runUntil(Done done) {
    const int64_t give_up_ns = cluster_.scheduler.nowNs() + 600 * kNanosPerSecond;
    cluster_.scheduler.runUntil([&] { return done() || cluster_.scheduler.nowNs() > give_up_ns; }, kEventsMax);
    return done();
  }

  ServerId dead_;
  ServerId absent_;
  std::optional<client::ClusterStatus> status_;

 private:
  static constexpr uint32_t kClients = 3;
  static constexpr uint64_t kCalls = 80;
  static constexpr uint64_t kEventsMax = 10'000'000;

  static SimClusterOptions options() {
    SimClusterOptions options;
    options.durable = true;
    options.verdict_after_ns = 3 * kNanosPerSecond;
    return options;
  }

  struct Act : runtime::Job {
    using What = runtime::Task<void> (PowerFailure::*)();
    Act(PowerFailure& test, What does)
        : Job([](runtime::Job& job) {
            auto& self = static_cast<Act&>(job);
            (self.owner.*self.what)().detach();
          }),
          owner(test),
          what(does) {}
    PowerFailure& owner;
    const What what;
  };
  int64_t soon() { return clients_.front()->node().clock().nowNs() + 60 * kNanosPerSecond; }
  runtime::Task<void> create() {
    created_ = (co_await clients_.front()->core().createTable("table", kServers, soon(), Durability::Sync)).ok();
  }
  runtime::Task<void> ask() {
    auto status = co_await clients_.front()->core().coordinator().clusterStatus(soon());
    if (status.ok()) status_ = *std::move(status);
  }

  const SimTables tables_{std::vector<SimTable>{{.name = "table", .durability = Durability::Sync}}};
  SimCluster cluster_{GetParam(), options()};
  Generator generator_{{.client_count = kClients}, GetParam()};
  History history_;
  std::vector<ScanRecord> scans_;
  std::vector<std::unique_ptr<SimClient>> clients_;
  Act create_{*this, &PowerFailure::create};
  Act ask_{*this, &PowerFailure::ask};
  bool created_ = false;

 protected:
  SimCluster& cluster() { return cluster_; }
};

TEST_P(PowerFailure, OfEveryHolderWaitsForAllStorageAndThenEverythingIsThere) {
  killAll({});
  restartAllButAbsent();
  runFor(kForGoodNs);
  EXPECT_FALSE(isRecovered()) << "the one that is away may have more of the log's end than those that are there";
  askStatus();
  const auto waits = std::ranges::find(status_->recoveries, dead_, &client::RecoveryProgress::server);
  ASSERT_NE(waits, status_->recoveries.end());
  EXPECT_EQ(waits->away, std::vector{absent_});
  EXPECT_NE(waits->text.find("came through a loss of power and may be short"), std::string::npos) << waits->text;

  cluster().restartServer(kAbsent);
  ASSERT_TRUE(runUntil([&] { return isRecovered(); }));
  readEverything();
}

TEST_P(PowerFailure, OfAllButOneHolderWaitsForNobodyElse) {
  killAll({1});
  restartAllButAbsent();
  ASSERT_TRUE(runUntil([&] { return isRecovered(); })) << "server 2 has all of it and did not lose its power";
  askStatus();
  EXPECT_EQ(std::ranges::find(status_->recoveries, dead_, &client::RecoveryProgress::server),
            status_->recoveries.end());
  cluster().restartServer(kAbsent);
  readEverything();
}

INSTANTIATE_TEST_SUITE_P(Seeds, PowerFailure, ::testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace ramcore::sim
