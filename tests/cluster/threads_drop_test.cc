// Requests for many keys on real threads, while the tablet with all of them moves from server to server.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/client_impl.h"
#include "runtime/frame_pool.h"
#include "tests/cluster/threads_cluster.h"

namespace ramcore::cluster {
namespace {

constexpr size_t kDropKeys = 1000;
constexpr uint32_t kMoves = 40;

/// The administrator of a table with one tablet.
class Mover {
 public:
  Mover(Client& client, std::string table_name) : client_(client), table_name_(std::move(table_name)) {}

  /// Moves the tablet to the server, if it is not there; done when it returns.
  void move(ServerId destination) {
    const auto map = client_.impl().runTask({}, [&](client::ClusterClient& cluster, int64_t deadline_ns) {
      return cluster.coordinator().tabletsOf(table_name_, deadline_ns);
    });
    ASSERT_TRUE(map.ok()) << name(map.status());
    ASSERT_EQ(map->tablets.size(), 1u);
    if (map->tablets.front().owner == destination) return;
    const TabletId tablet = map->tablets.front().id;
    const auto migration = client_.impl().runTask({}, [&](client::ClusterClient& cluster, int64_t deadline_ns) {
      return cluster.coordinator().moveTablet(tablet, destination, deadline_ns);
    });
    ASSERT_TRUE(migration.ok()) << name(migration.status());
    using State = client::MigrationStatus::State;
    State state = State::Running;
    while (state == State::Running) {
      const auto status = client_.impl().runTask({}, [&](client::ClusterClient& cluster, int64_t deadline_ns) {
        return cluster.coordinator().migrationStatus(*migration, deadline_ns);
      });
      ASSERT_TRUE(status.ok()) << name(status.status());
      state = status->state;
    }
    ASSERT_EQ(state, State::Done);
  }

 private:
  Client& client_;
  const std::string table_name_;
};

/// Asks for all keys again and again, all in one request or one after the other: none may be missing, ever.
void readUntil(const std::atomic<bool>& stop, Client& client, Table table, bool scans, std::atomic<uint64_t>& rounds) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < kDropKeys; ++i) keys.push_back("key" + std::to_string(i));
  while (!stop.load() && !::testing::Test::HasFailure()) {
    if (scans) {
      std::set<std::string> seen;
      Scan scan = client.scan(table);
      for (const Object& object : scan) seen.insert(object.key);
      ASSERT_EQ(scan.status(), Status::Ok) << name(scan.status());
      EXPECT_EQ(seen.size(), kDropKeys) << "a scan misses keys that were there throughout";
    } else {
      std::vector<ReadItem> items;
      for (const std::string& key : keys) items.push_back({.table = table, .key = key});
      client.multiRead(items);
      for (size_t i = 0; i < kDropKeys; ++i) {
        ASSERT_EQ(items[i].status, Status::Ok) << keys[i] << ": " << name(items[i].status);
        ASSERT_EQ(items[i].value, "value" + std::to_string(i));
      }
    }
    rounds.fetch_add(1);
  }
}

TEST(ThreadsDrop, NoKeyIsMissingWhileItsTabletMoves) {
  const int64_t frames_before = runtime::framesAlive();
  {
    ClusterOfThreads cluster(0, 3);
    std::vector<std::unique_ptr<Client>> clients;
    for (const char* scheme : {"shm", "tcp", "shm"}) clients.push_back(cluster.connect(cluster.options(scheme)));
    ClientOptions options = cluster.options("tcp");
    options.administrator = true;
    const auto administrator = cluster.connect(options);
    const Table table = administrator->createTable("objects", 1).value();
    for (size_t i = 0; i < kDropKeys; ++i) {
      const std::string number = std::to_string(i);
      ASSERT_EQ(administrator->write(table, "key" + number, "value" + number).status, Status::Ok);
    }
    std::atomic<bool> stop{false};
    std::array<std::atomic<uint64_t>, 2> rounds{};
    std::vector<std::thread> threads;
    for (size_t i = 0; i < clients.size(); ++i) {
      const bool scans = i == 1;
      threads.emplace_back([&, i, scans] { readUntil(stop, *clients[i], table, scans, rounds[scans ? 1 : 0]); });
    }
    Mover mover(*administrator, "objects");
    for (uint32_t i = 0; i < kMoves && !::testing::Test::HasFailure(); ++i) {
      mover.move(cluster.server(i % ClusterOfThreads::kServers).id());
    }
    stop.store(true);
    for (std::thread& thread : threads) thread.join();
    std::printf("%lu multi-reads and %lu scans of %zu keys\n", rounds[0].load(), rounds[1].load(), kDropKeys);
    EXPECT_GE(rounds[0].load(), 20u);
    EXPECT_GE(rounds[1].load(), 5u);
    clients.clear();
    EXPECT_TRUE(cluster.isHealthy());
    EXPECT_TRUE(cluster.stop());
  }
  EXPECT_EQ(runtime::framesAlive(), frames_before);
}

}  // namespace
}  // namespace ramcore::cluster
