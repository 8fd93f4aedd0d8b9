/// One server alone that keeps the one copy of its log in its own storage (--local-replica).

#include <gtest/gtest.h>

#include "sim/checkers/linearizability.h"
#include "sim/cluster/sim_cluster.h"

namespace ramcore::sim {
namespace {

using runtime::kNanosPerMilli;
using runtime::kNanosPerSecond;

struct Death {
  const char* name;
  bool power;  ///< its machine loses it; otherwise the process is killed
  Durability durability;
};

/// A server under load that dies again and again, and its coordinator now and then.
class Alone {
 public:
  Alone(uint64_t seed, const Death& kind)
      : kind_(kind),
        tables_({{.name = "table", .durability = kind.durability}}),
        cluster_(seed, options()),
        generator_({.client_count = kClients}, seed),
        random_(cluster_.scheduler.stream("deaths")) {}

  void run() {
    cluster_.startCoordinator();
    cluster_.addServer();
    for (uint32_t i = 0; i < kClients; ++i) {
      clients_.push_back(std::make_unique<SimClient>(
          cluster_.scheduler, cluster_.trace, cluster_.network, "client" + std::to_string(i), i,
          SimCluster::kClusterName, SimCluster::kCoordinatorNode,
          SimClient::Shared{.generator = generator_, .history = history_, .scans = scans_, .tables = tables_}));
    }
    SimClient& first = *clients_.front();
    first.dispatch().post(create_, runtime::Priority::Client);
    first.wake();
    ASSERT_TRUE(runUntil([&] { return created_; })) << "the table is not created";
    dieLater();
    for (auto& client : clients_) client->start(kCalls);
    ASSERT_TRUE(runUntil([&] {
      return std::all_of(clients_.begin(), clients_.end(), [](const auto& client) { return client->isDone(); });
    })) << "the clients' work does not end";
    is_over_ = true;
    ASSERT_TRUE(runUntil([&] { return !cluster_.isDown(0) && !is_coordinator_down_; }));
    first.readAll();
    ASSERT_TRUE(runUntil([&] { return first.isDone(); })) << "the end state cannot be read";
    EXPECT_EQ(checkLinearizability(history_).text(), "");
    for (const Operation& operation : history_.operations()) answered += operation.outcome == Outcome::Ok ? 1 : 0;
    sectors_lost = cluster_.disks.front()->counts().lost_sectors;
  }

  uint64_t deaths = 0;
  uint64_t coordinator_deaths = 0;
  uint64_t answered = 0;
  uint64_t sectors_lost = 0;

 private:
  static constexpr uint32_t kClients = 3;
  static constexpr uint64_t kCalls = 150;

  static SimClusterOptions options() {
    SimClusterOptions options;
    options.durable = true;
    options.replicas.local_replica = true;
    options.verdict_after_ns = 3 * kNanosPerSecond;
    return options;
  }

  template <typename Done>
  bool runUntil(Done done) {
    constexpr uint64_t kEventsMax = 10'000'000;
    const int64_t give_up_ns = cluster_.scheduler.nowNs() + 600 * kNanosPerSecond;
    cluster_.scheduler.runUntil([&] { return done() || cluster_.scheduler.nowNs() > give_up_ns; }, kEventsMax);
    return done();
  }

  int64_t soon(int64_t ns_max) {
    return cluster_.scheduler.nowNs() + static_cast<int64_t>(random_.below(static_cast<uint64_t>(ns_max)));
  }

  void dieLater() {
    cluster_.scheduler.call(soon(3 * kNanosPerSecond), [this] {
      if (is_over_) return;
      ++deaths;
      cluster_.killServer(0, kind_.power);
      if (random_.below(3) == 0) restartCoordinator();
      cluster_.scheduler.call(soon(500 * kNanosPerMilli), [this] {
        cluster_.restartServer(0);
        dieLater();
      });
    });
  }

  void restartCoordinator() {
    if (is_coordinator_down_) return;
    is_coordinator_down_ = true;
    ++coordinator_deaths;
    cluster_.killCoordinator();
    cluster_.scheduler.call(soon(300 * kNanosPerMilli), [this] {
      cluster_.startCoordinator();
      is_coordinator_down_ = false;
    });
  }

  struct Create : runtime::Job {
    explicit Create(Alone& owner)
        : Job([](runtime::Job& job) { static_cast<Create&>(job).owner.create().detach(); }), owner(owner) {}
    Alone& owner;
  };
  runtime::Task<void> create() {
    SimClient& client = *clients_.front();
    const int64_t deadline_ns = client.node().clock().nowNs() + 60 * kNanosPerSecond;
    const auto table = co_await client.core().createTable("table", 2, deadline_ns, kind_.durability);
    created_ = table.ok();
  }

  const Death kind_;
  const SimTables tables_;
  SimCluster cluster_;
  Generator generator_;
  runtime::Random random_;
  History history_;
  std::vector<ScanRecord> scans_;
  std::vector<std::unique_ptr<SimClient>> clients_;
  Create create_{*this};
  bool created_ = false;
  bool is_over_ = false;
  bool is_coordinator_down_ = false;
};

class LocalReplica : public ::testing::TestWithParam<Death> {};

TEST_P(LocalReplica, WhatWasAcknowledgedIsThereAfterEveryDeath) {
  uint64_t deaths = 0;
  uint64_t coordinator_deaths = 0;
  uint64_t answered = 0;
  uint64_t sectors_lost = 0;
  for (uint64_t seed = 1; seed <= 100 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Alone alone(seed, GetParam());
    alone.run();
    deaths += alone.deaths;
    coordinator_deaths += alone.coordinator_deaths;
    answered += alone.answered;
    sectors_lost += alone.sectors_lost;
  }
  EXPECT_GT(deaths, 150u);
  EXPECT_GT(coordinator_deaths, 50u);
  EXPECT_GT(answered, 20'000u);
  EXPECT_EQ(sectors_lost > 20, GetParam().power) << sectors_lost;
}

INSTANTIATE_TEST_SUITE_P(Kinds, LocalReplica,
                         ::testing::Values(Death{"Killed", false, Durability::Buffered},
                                           Death{"KilledSync", false, Durability::Sync},
                                           Death{"WithoutPower", true, Durability::Sync}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ramcore::sim
