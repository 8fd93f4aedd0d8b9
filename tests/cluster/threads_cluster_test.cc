// A whole cluster in one process on real threads: mainly for ThreadSanitizer.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/frame_pool.h"
#include "tests/cluster/threads_cluster.h"
#include "tests/cluster/threads_workload.h"

namespace ramcore::cluster {
namespace {

struct LoadSettings {
  uint64_t steps_min = 0;  ///< of each thread; they go on until the floors are reached too
  uint64_t moves_min = 0;
  uint64_t pairs_min = 0;  ///< of moves that are under way together; 0: one move at a time
  uint64_t cleaner_passes_min = 0;
  bool breaks_sessions = false;
  uint32_t coordinator_restarts = 0;
  uint32_t replicas = 0;         ///< of each log
  uint32_t server_restarts = 0;  ///< what they had is recovered by the others
};

constexpr const char* kTableName = "objects";
// A move stops the writes of its tablet: without a pause there would be little but stopped writes to test.
constexpr uint64_t kStepsBetweenMoves = 50;
constexpr uint64_t kSessionsBrokenMin = 10;

/// Threads that write, read, add and scan while tablets move, and the comparison at the end.
class Load {
 public:
  static constexpr uint32_t kThreads = 5;

  explicit Load(ClusterOfThreads& cluster) : cluster_(cluster) {
    ClientOptions tcp = cluster.options("tcp");
    ClientOptions shm = cluster.options("shm");
    clients_.push_back(cluster.connect(tcp));
    clients_.push_back(cluster.connect(shm));
    shm.background_thread = true;
    clients_.push_back(cluster.connect(shm));
    tcp.administrator = true;
    administrator_ = cluster.connect(tcp);
    table_ = administrator_->createTable(kTableName, 4).value();
    for (uint32_t i = 0; i < kThreads; ++i) {
      threads_.push_back(std::make_unique<WorkloadThread>(i, *clients_[i % clients_.size()], table_, totals_));
    }
  }

  void run(const LoadSettings& settings) {
    std::vector<ServerId> servers;
    for (size_t i = 0; i < ClusterOfThreads::kServers; ++i) servers.push_back(cluster_.server(i).id());
    AdministratorThread mover(*administrator_, kTableName, servers, totals_.steps, 7);
    std::atomic<uint32_t> running{kThreads};
    const uint64_t steps_max = 20 * settings.steps_min;
    const auto reached = [&] {
      return mover.movesDone() >= settings.moves_min && mover.pairsDone() >= settings.pairs_min &&
             mover.splitsDone() >= 1 && cluster_.cleanerPasses() >= settings.cleaner_passes_min &&
             restarts_.load() >= settings.coordinator_restarts && server_restarts_.load() >= settings.server_restarts &&
             (!settings.breaks_sessions || cluster_.sessionsBroken() >= kSessionsBrokenMin);
    };
    std::vector<std::thread> threads;
    for (auto& thread : threads_) {
      threads.emplace_back([&, workload = thread.get()] {
        for (uint64_t i = 0; i < settings.steps_min || (i < steps_max && !reached()); ++i) {
          if (!workload->step()) break;
        }
        if (running.fetch_sub(1) == 1) totals_.steps.end();
      });
    }
    threads.emplace_back([&] {
      while (running.load() > 0 && !::testing::Test::HasFailure()) {
        if (settings.pairs_min != 0) mover.stepOfTwo();
        if (settings.pairs_min == 0) mover.step();
        totals_.steps.await(totals_.steps.load() + kStepsBetweenMoves);
      }
    });
    disturb(settings);
    for (std::thread& thread : threads) thread.join();

    EXPECT_GE(mover.movesDone(), settings.moves_min);
    EXPECT_GE(mover.pairsDone(), settings.pairs_min);
    EXPECT_GE(mover.splitsDone(), 1u);
    EXPECT_GE(cluster_.cleanerPasses(), settings.cleaner_passes_min);
    EXPECT_GE(totals_.scans.load(), 5u);
    EXPECT_GE(totals_.increments.load(), settings.steps_min / 10);
    EXPECT_TRUE(cluster_.isHealthy());
    std::printf(
        "%lu steps, %lu items of multi-operations, %lu futures, %lu scans; %lu moves, %lu pairs at once, %lu splits; "
        "%lu cleaner passes, %lu segments; %lu sessions broken, %u coordinator and %u server restarts\n",
        totals_.steps.load(), totals_.multi_items.load(), totals_.futures.load(), totals_.scans.load(),
        mover.movesDone(), mover.pairsDone(), mover.splitsDone(), cluster_.cleanerPasses(), cluster_.segmentsCleaned(),
        cluster_.sessionsBroken(), restarts_.load(), server_restarts_.load());
  }

  /// Everything that was acknowledged is there, and nothing else.
  void verify() {
    const auto client = cluster_.connect(cluster_.options("tcp"));
    size_t expected = 0;
    for (const auto& thread : threads_) {
      thread->verify(*client);
      expected += thread->objectCount();
    }
    for (uint32_t counter = 0; counter < WorkloadThread::kSharedCounters; ++counter) {
      uint64_t sum = 0;
      bool touched = false;
      for (const auto& thread : threads_) {
        sum += thread->addedTo(counter);
        touched |= thread->hasTouched(counter);
      }
      if (!touched) continue;
      ++expected;
      const auto result = client->increment(table_, WorkloadThread::counterName(counter), 0);
      EXPECT_EQ(result.status, Status::Ok);
      EXPECT_EQ(static_cast<uint64_t>(result.value), sum) << counter;
    }
    size_t found = 0;
    Scan scan = client->scan(table_);
    while (scan.next() != nullptr) ++found;
    EXPECT_EQ(scan.status(), Status::Ok);
    EXPECT_EQ(found, expected);
  }

  /// Ends all clients.
  void close() {
    clients_.clear();
    administrator_.reset();
  }

 private:
  // From the test's own thread, while the others work.
  void disturb(const LoadSettings& settings) {
    if (settings.server_restarts != 0) return restartServers(settings);
    if (!settings.breaks_sessions) return;
    std::mt19937_64 random(5);
    uint64_t next_break = 100;
    uint64_t next_restart = settings.steps_min;
    while (totals_.steps.await(std::min(next_break, next_restart))) {
      const uint64_t steps = totals_.steps.load();
      if (steps >= next_break) {
        cluster_.breakSession(random());
        next_break = steps + 50 + random() % 100;
      }
      if (steps >= next_restart) {
        if (restarts_.load() < settings.coordinator_restarts) {
          cluster_.restartCoordinator();
          restarts_.fetch_add(1);
        }
        next_restart = steps + settings.steps_min;
      }
    }
  }

  // One after the other, as an operator would. The load goes on meanwhile.
  void restartServers(const LoadSettings& settings) {
    uint64_t next = settings.steps_min;
    while (server_restarts_.load() < settings.server_restarts && totals_.steps.await(next)) {
      cluster_.restartServer(server_restarts_.load() % ClusterOfThreads::kServers);
      server_restarts_.fetch_add(1);
      next = totals_.steps.load() + settings.steps_min / 2;
    }
  }

  ClusterOfThreads& cluster_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::unique_ptr<Client> administrator_;
  Table table_;
  WorkloadTotals totals_;
  std::vector<std::unique_ptr<WorkloadThread>> threads_;
  std::atomic<uint32_t> restarts_{0};
  std::atomic<uint32_t> server_restarts_{0};
};

void runLoad(const LoadSettings& settings) {
  const int64_t frames_before = runtime::framesAlive();
  {
    ClusterOfThreads cluster(settings.replicas);
    {
      Load load(cluster);
      load.run(settings);
      load.verify();
      load.close();
    }
    EXPECT_GE(cluster.sessionsOpened("tcp"), 4u);
    EXPECT_GE(cluster.sessionsOpened("shm"), 4u);
    if (settings.breaks_sessions) EXPECT_GE(cluster.sessionsBroken(), kSessionsBrokenMin);
    EXPECT_TRUE(cluster.stop());
  }
  EXPECT_EQ(runtime::framesAlive(), frames_before);
}

TEST(ThreadsCluster, LoadWhileTabletsMoveAndTheLogIsCleaned) {
  runLoad({.steps_min = 4000, .moves_min = 20, .cleaner_passes_min = 20});
}

// Two hand-overs share the threads, the side logs and the room of their servers; in one direction, in opposite ones, or
// one server is the source of the one and the destination of the other.
TEST(ThreadsCluster, LoadWhileTwoTabletsMoveAtOnce) {
  runLoad({.steps_min = 1000, .moves_min = 20, .pairs_min = 8, .cleaner_passes_min = 5});
}

TEST(ThreadsCluster, LoadWhileSessionsBreakAndTheCoordinatorRestarts) {
  runLoad(
      {.steps_min = 1500, .moves_min = 6, .cleaner_passes_min = 3, .breaks_sessions = true, .coordinator_restarts = 2});
}

TEST(ThreadsCluster, LoadWhileLogsAreReplicatedAndServersAreRecovered) {
  runLoad({.steps_min = 800, .moves_min = 3, .cleaner_passes_min = 3, .replicas = 2, .server_restarts = 4});
}

/// Overwrites keys of its own, and knows what each of them holds.
class Overwriter {
 public:
  /// The keys of four overwriters take about four fifths of the live bytes that one server may have.
  static constexpr uint32_t kKeys = 240;

  Overwriter(uint32_t number, Client& client, Table table)
      : number_(number), client_(client), table_(table), random_(number + 1) {}

  /// One write: to begin with, of each key once.
  void step() {
    const uint64_t number = writes_ < kKeys ? writes_ : random_() % kKeys;
    const std::string key = std::to_string(number_) + "/" + std::to_string(number);
    const std::string value =
        std::to_string(writes_) + ":" + std::string(200 + random_() % 1500, static_cast<char>('a' + writes_ % 26));
    ++writes_;
    const MutateResult result = client_.write(table_, key, value);
    ASSERT_EQ(result.status, Status::Ok) << key << ": " << name(result.status);
    values_[key] = value;
  }
  void verify(Client& client) const {
    EXPECT_EQ(values_.size(), kKeys);
    for (const auto& [key, value] : values_) {
      std::string found;
      const Result<uint64_t> version = client.read(table_, key, found);
      ASSERT_EQ(version.status(), Status::Ok) << key << ": " << name(version.status());
      EXPECT_TRUE(found == value) << key << ": " << found.substr(0, 40) << " instead of " << value.substr(0, 40);
    }
  }

 private:
  const uint32_t number_;
  Client& client_;
  const Table table_;
  std::mt19937_64 random_;
  uint64_t writes_ = 0;
  std::map<std::string, std::string> values_;
};

// All is in one tablet, so in the memory of one server. That is so full that a pass has more than one survivor to fill,
// and what is free between passes is soon used up.
TEST(ThreadsCluster, WorkersOfAServerShareItsCleaning) {
  constexpr uint32_t kThreads = 4;
  constexpr uint64_t kWritesMin = 1200;
  const int64_t frames_before = runtime::framesAlive();
  {
    ClusterOfThreads cluster(0, 4);
    std::vector<std::unique_ptr<Client>> clients;
    for (const char* scheme : {"shm", "tcp"}) clients.push_back(cluster.connect(cluster.options(scheme)));
    const Table table = clients[0]->createTable(kTableName, 1).value();
    std::vector<std::unique_ptr<Overwriter>> overwriters;
    for (uint32_t i = 0; i < kThreads; ++i) {
      overwriters.push_back(std::make_unique<Overwriter>(i, *clients[i % clients.size()], table));
    }
    // On a busy machine the second worker may join late; then the load goes on for longer.
    const auto isGoingOn = [&](uint64_t writes) {
      return writes < kWritesMin || (writes < 20 * kWritesMin && cluster.bytesShared() == 0);
    };
    std::vector<std::thread> threads;
    for (auto& overwriter : overwriters) {
      threads.emplace_back([&, writer = overwriter.get()] {
        for (uint64_t i = 0; isGoingOn(i) && !::testing::Test::HasFailure(); ++i) writer->step();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(cluster.cleanerPasses(), 5u);
    EXPECT_GT(cluster.bytesShared(), 0u);
    EXPECT_TRUE(cluster.isHealthy());
    for (const auto& overwriter : overwriters) overwriter->verify(*clients[1]);
    clients.clear();
    EXPECT_TRUE(cluster.stop());
  }
  EXPECT_EQ(runtime::framesAlive(), frames_before);
}

// Clients that do not mind errors: the servers leave while requests are in service.
void useUntil(const std::atomic<bool>& stop, Client& client, Table table, uint32_t number, StepCount& done) {
  for (uint64_t i = 0; !stop.load(); ++i) {
    const std::string key = std::to_string(number) + "/" + std::to_string(i % 200);
    if (client.write(table, key, std::string(i * 37 % 8000, 'v')).ok()) done.add();
    std::vector<ReadItem> items(8, {.table = table, .key = key});
    client.multiRead(items);
    if (i % 8 != 0) continue;
    Scan scan = client.scan(table);
    while (scan.next() != nullptr) {
    }
  }
}

TEST(ThreadsCluster, StopsWhileClientsAreWorking) {
  constexpr uint32_t kThreads = 4;
  const int64_t frames_before = runtime::framesAlive();
  for (int round = 0; round < 3; ++round) {
    ClusterOfThreads cluster;
    std::vector<std::unique_ptr<Client>> clients;
    for (const char* scheme : {"shm", "tcp"}) {
      ClientOptions options = cluster.options(scheme);
      options.default_timeout = std::chrono::milliseconds(500);
      clients.push_back(cluster.connect(options));
    }
    const Table table =
        clients[0]->createTable(kTableName, 6, {.timeout = std::chrono::minutes(1), .condition = {}}).value();
    std::atomic<bool> stop{false};
    StepCount done;
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] { useUntil(stop, *clients[t % clients.size()], table, t, done); });
    }
    done.await(200);
    EXPECT_TRUE(cluster.stop());
    stop.store(true);
    for (std::thread& thread : threads) thread.join();
    clients.clear();
  }
  EXPECT_EQ(runtime::framesAlive(), frames_before);
}

}  // namespace
}  // namespace ramcore::cluster
