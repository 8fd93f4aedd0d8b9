/// Backups whose storage is full while memory is not: removals go on, nothing is lost, and places come back by
/// themselves, again and again.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "backup/frame_file.h"
#include "sim/cluster/sim_cluster.h"

namespace ramcore::sim {
namespace {

using runtime::kNanosPerMilli;
using runtime::kNanosPerSecond;

/// Servers with memory for twice what their storage takes, and one client that knows what it was told.
class FullStorage {
 public:
  struct Plan {
    size_t cycles;
    size_t death_each = 0;  ///< in each so-manyth cycle a server dies; 0: in none
    size_t value_bytes = 6000;
    uint64_t keys = 3000;  ///< that there are: more than there is storage for
    uint64_t memory_bytes = 4u << 20;
  };
  FullStorage(uint64_t seed, const Plan& plan)
      : plan_(plan), cluster_(seed, options(plan)), random_(cluster_.scheduler.stream("full storage")) {}

  void run() {
    cluster_.startCoordinator();
    for (size_t i = 0; i < kServers; ++i) cluster_.addServer();
    client_ = std::make_unique<SimClient>(
        cluster_.scheduler, cluster_.trace, cluster_.network, "client", 0, SimCluster::kClusterName,
        SimCluster::kCoordinatorNode,
        SimClient::Shared{.generator = generator_, .history = history_, .scans = scans_, .tables = tables_});
    ASSERT_TRUE(runUntil([this] { return cluster_.allServe(); }));
    client_->dispatch().post(work_, runtime::Priority::Client);
    client_->wake();
    while (!done_ && !::testing::Test::HasFailure()) {
      ASSERT_TRUE(runUntil([this] { return done_ || death_is_due_ || ::testing::Test::HasFailure(); }))
          << "in cycle " << stored.size();
      if (death_is_due_) killOne();
    }
  }

  /// Of all backups together.
  uint64_t framesInUse() const {
    uint64_t frames = 0;
    for (const auto& server : cluster_.servers) {
      const backup::StoreStats& stats = server->backup()->store().stats();
      frames += stats.frames_total.load() - stats.frames_free.load();
    }
    return frames;
  }
  /// Of all masters together, each segment once.
  uint64_t segmentCount() const {
    uint64_t segments = 0;
    for (const auto& server : cluster_.servers) {
      const log::SegmentPool& pool = server->master().log()->pool();
      segments += pool.slotCount() - pool.freeSlotCount();
    }
    return segments;
  }

  std::vector<size_t> stored;     ///< objects when nothing was taken any more, by cycle
  std::vector<uint64_t> refused;  ///< replicas for which no backup had a frame, by then
  uint64_t deaths = 0;

  static constexpr uint64_t kReplicas = 3;

 private:
  static constexpr size_t kServers = 4;
  // An eighth of them is for small heads: four of each of the three other servers.
  static constexpr uint64_t kFrames = 96;

  static SimClusterOptions options(const Plan& plan) {
    SimClusterOptions options;
    options.durable = true;
    options.storage_bytes = backup::FrameFile::fileBytes(kFrames, log::LogConfig::forTest().segment_bytes);
    options.log.memory_bytes = plan.memory_bytes;
    options.verdict_after_ns = 3 * kNanosPerSecond;
    return options;
  }

  template <typename Done>
  bool runUntil(Done done) {
    constexpr uint64_t kEventsMax = 200'000'000;
    const int64_t give_up_ns = cluster_.scheduler.nowNs() + 36'000 * kNanosPerSecond;
    cluster_.scheduler.runUntil([&] { return done() || cluster_.scheduler.nowNs() > give_up_ns; }, kEventsMax);
    return done();
  }

  // Its tablets move to others, and it comes back as a new server with a storage that others fill.
  void killOne() {
    death_is_due_ = false;
    const size_t index = random_.below(kServers);
    cluster_.killServer(index, random_.chance(0.5));
    cluster_.scheduler.runUntil(cluster_.scheduler.nowNs() + 20 * kNanosPerSecond, kEventsOfAPause);
    cluster_.restartServer(index);
    ++deaths;
  }
  static constexpr uint64_t kEventsOfAPause = 100'000'000;

  struct Work : runtime::Job {
    explicit Work(FullStorage& owner)
        : Job([](runtime::Job& job) { static_cast<Work&>(job).owner.work().detach(); }), owner(owner) {}
    FullStorage& owner;
  };

  int64_t in(int64_t ns) { return client_->node().clock().nowNs() + ns; }
  static std::string keyOf(uint64_t number) { return "key" + std::to_string(number); }
  std::vector<std::byte> valueOf(uint64_t stamp) const {
    std::vector<std::byte> value(plan_.value_bytes, static_cast<std::byte>(stamp % 251));
    storeAs(value.data(), stamp);
    return value;
  }

  runtime::Task<void> work() {
    while (!table_) {
      const auto created = co_await client_->core().createTable("table", 8, in(5 * kNanosPerSecond));
      if (created.ok()) table_ = *created;
    }
    while (stored.size() < plan_.cycles && !::testing::Test::HasFailure()) {
      co_await fill();
      stored.push_back(model_.size());
      refused.push_back(cluster_.countAll().refused_full);
      co_await removeHalf();
      if (plan_.death_each != 0 && stored.size() % plan_.death_each == 0) death_is_due_ = true;
      if (stored.size() % 10 == 0 || stored.size() == plan_.cycles) co_await compareAll();
    }
    done_ = true;
  }

  // Until nothing is taken any more.
  runtime::Task<void> fill() {
    for (int refusals = 0; refusals < 8;) {
      const uint64_t number = random_.below(plan_.keys);
      const uint64_t stamp = ++stamp_;
      const std::string key = keyOf(number);
      const auto value = valueOf(stamp);
      const auto result = co_await client_->core().write(table_, asBytes(key), value, {}, in(3 * kNanosPerSecond));
      if (result.status == Status::Ok) {
        model_[number] = {stamp};
        refusals = 0;
        continue;
      }
      EXPECT_NE(result.status, Status::NoSpace) << "there is memory";
      ++refusals;
      if (result.status != Status::OutcomeUnknown) continue;
      const auto [at, is_new] = model_.try_emplace(number);
      if (is_new) at->second.insert(0);
      at->second.insert(stamp);
    }
  }

  runtime::Task<void> removeHalf() {
    for (size_t left = model_.size() / 2; left > 0 && !::testing::Test::HasFailure(); --left) {
      auto at = model_.lower_bound(random_.below(plan_.keys));
      if (at == model_.end()) at = model_.begin();
      const std::string key = keyOf(at->first);
      const auto result = co_await client_->core().remove(table_, asBytes(key), {}, in(60 * kNanosPerSecond));
      // The removal of an object that may not be there may count as a write (a removal of nothing), which may be
      // refused.
      EXPECT_TRUE(result.status == Status::Ok || at->second.contains(0))
          << name(result.status) << ": a full storage refuses removals, cycle " << stored.size();
      if (result.status == Status::Ok) model_.erase(at);
    }
  }

  runtime::Task<void> compareAll() {
    for (uint64_t number = 0; number < plan_.keys && !::testing::Test::HasFailure(); ++number) {
      const std::string key = keyOf(number);
      const auto result = co_await client_->core().read(table_, asBytes(key), in(60 * kNanosPerSecond));
      const auto known = model_.find(number);
      if (result.status == Status::NotFound) {
        EXPECT_TRUE(known == model_.end() || known->second.contains(0)) << key << " is lost, cycle " << stored.size();
        continue;
      }
      EXPECT_EQ(result.status, Status::Ok) << key;
      std::string value;
      if (result.status == Status::Ok) result.takeValue(value);
      if (value.size() != plan_.value_bytes) continue;
      const auto stamp = loadAs<uint64_t>(asBytes(value).data());
      EXPECT_TRUE(known != model_.end() && known->second.contains(stamp))
          << key << " came back, cycle " << stored.size();
      EXPECT_TRUE(std::ranges::equal(asBytes(value), valueOf(stamp))) << key;
    }
  }

  const Plan plan_;
  const SimTables tables_{{{.name = "table", .durability = Durability::Buffered}}};
  Work work_{*this};
  SimCluster cluster_;
  Generator generator_{{.client_count = 1}, 1};
  History history_;
  std::vector<ScanRecord> scans_;
  runtime::Random random_;
  std::unique_ptr<SimClient> client_;
  TableId table_;
  std::map<uint64_t, std::set<uint64_t>> model_;  ///< by key: the stamps that it may have, 0 for none
  uint64_t stamp_ = 0;
  bool death_is_due_ = false;
  bool done_ = false;
};

}  // namespace

TEST(FullStorage, FilledAndHalfRemovedAHundredTimes) {
  FullStorage full(1, {.cycles = 100});
  full.run();
  ASSERT_EQ(full.stored.size(), 100u);
  for (size_t cycle = 1; cycle < full.stored.size(); ++cycle) {
    EXPECT_GT(full.refused[cycle], full.refused[cycle - 1]) << "the storage was full in each cycle, " << cycle;
    EXPECT_GT(full.stored[cycle], full.stored[0] * 8 / 10) << "cycle " << cycle;
  }
  constexpr uint64_t kUnderWay = 16;  // replicas of segments that have been freed just now
  EXPECT_LE(full.framesInUse(), full.segmentCount() * FullStorage::kReplicas + kUnderWay);
}

TEST(FullStorage, AlsoWhenServersDieAndAreRecovered) {
  FullStorage full(2, {.cycles = 12, .death_each = 3});
  full.run();
  ASSERT_EQ(full.stored.size(), 12u);
  EXPECT_GE(full.deaths, 3u);
}

// A removal takes about as much as it frees, until whole segments are dead.
TEST(FullStorage, ObjectsNoLargerThanWhatRemovesThem) {
  FullStorage full(3, {.cycles = 2, .value_bytes = 16, .keys = 200'000, .memory_bytes = 16u << 20});
  full.run();
  ASSERT_EQ(full.stored.size(), 2u);
  EXPECT_GT(full.stored[1], full.stored[0] * 8 / 10);
}

}  // namespace ramcore::sim
