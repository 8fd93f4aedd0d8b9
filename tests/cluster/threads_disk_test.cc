// Servers whose disk stands still: what they do for others must not wait for it.
#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "tests/cluster/threads_cluster.h"
#include "tests/unit/runtime/watched_storage.h"

namespace ramcore::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int64_t kLeaseNs = 2 * runtime::kNanosPerSecond;
constexpr uint32_t kKeys = 60;

/// A disk that takes no write while it is shut. Any thread.
class Gate {
 public:
  void shut() {
    std::lock_guard guard(mutex_);
    is_shut_ = true;
  }
  void open() {
    std::lock_guard guard(mutex_);
    is_shut_ = false;
    changed_.notify_all();
  }
  Status pass() {
    std::unique_lock lock(mutex_);
    if (is_shut_) {
      ++held_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return !is_shut_; });
      --held_;
    }
    return Status::Ok;
  }
  /// False if no write has come within a minute.
  [[nodiscard]] bool awaitHeld() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [this] { return held_ != 0; });
  }
  bool holds() {
    std::lock_guard guard(mutex_);
    return held_ != 0;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_shut_ = false;
  uint32_t held_ = 0;
};

StorageSettings::Wrap watchWith(std::function<Status()> on_write) {
  return [on_write = std::move(on_write)](std::unique_ptr<runtime::Storage> storage) {
    return std::make_unique<runtime::WatchedStorage>(std::move(storage), [on_write](uint64_t) { return on_write(); });
  };
}

std::string keyName(uint32_t key) { return "key" + std::to_string(key); }

/// Writes keys that nobody reads, from a thread of its own, until it is told to stop.
class Writer {
 public:
  Writer(Client& client, Table table) : thread_([this, &client, table] { run(client, table); }) {}
  ~Writer() {
    stop_.store(true);
    thread_.join();
  }

 private:
  void run(Client& client, Table table) {
    for (uint32_t i = 0; !stop_.load(); ++i) {
      const MutateResult result = client.write(table, "written" + std::to_string(i % 100), std::string(100, 'w'));
      ASSERT_EQ(result.status, Status::Ok) << name(result.status);
    }
  }

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Without threads for writes the first server answers nothing and renews nothing while its disk takes nothing.
TEST(ThreadsDisk, ReadsAndLeasesGoOnWhileADiskStandsStill) {
  Gate gate;
  ClusterOfThreads cluster(
      2, 2, {.wrap_first = watchWith([&gate] { return gate.pass(); }), .write_thread = backup::WriteThread::Disk},
      kLeaseNs);
  ClientOptions options = cluster.options("tcp");
  options.default_timeout = std::chrono::seconds(20);
  const auto reader = cluster.connect(options);
  const auto writes = cluster.connect(cluster.options("tcp"));
  const Table table = reader->createTable("objects", 6).value();
  for (uint32_t i = 0; i < kKeys; ++i) ASSERT_EQ(reader->write(table, keyName(i), "value").status, Status::Ok);
  {
    Writer writer(*writes, table);
    gate.shut();
    EXPECT_TRUE(gate.awaitHeld());
    // Longer than what the lease was when the disk began to stand still.
    const auto end = steady_clock::now() + std::chrono::nanoseconds(2 * kLeaseNs);
    uint64_t rounds = 0;
    for (; steady_clock::now() < end && !::testing::Test::HasFailure(); ++rounds) {
      for (uint32_t i = 0; i < kKeys && !::testing::Test::HasFailure(); ++i) {
        std::string value;
        EXPECT_EQ(reader->read(table, keyName(i), value).status(), Status::Ok) << keyName(i);
        EXPECT_EQ(value, "value");
      }
    }
    EXPECT_TRUE(gate.holds()) << "the disk has stood still all the time";
    EXPECT_GT(rounds, 1u);
    gate.open();
  }
  EXPECT_TRUE(cluster.isHealthy());
  EXPECT_TRUE(cluster.stop());
}

// The dispatch thread tries a disk that looks quick, and then no more.
TEST(ThreadsDisk, ADiskThatStallsNowAndThenStopsTheDispatchThreadOnce) {
  constexpr uint32_t kWritesBetween = 50;
  constexpr uint32_t kStalls = 5;
  std::atomic<uint32_t> count{0};
  std::atomic<uint32_t> stalls{0};
  std::atomic<uint32_t> stalls_elsewhere{0};  // not on the thread of the disk
  std::atomic<bool> begun{false};
  Event enough;
  const auto onWrite = [&] {
    if (!begun.load() || count.fetch_add(1) % kWritesBetween != 0) return Status::Ok;
    std::array<char, 16> thread_name{};
    pthread_getname_np(pthread_self(), thread_name.data(), thread_name.size());
    if (std::string(thread_name.data()) != "disk") stalls_elsewhere.fetch_add(1);
    // The stall itself: how long a write takes is what the server judges its disk by, so there is no event to wait for.
    std::this_thread::sleep_for(milliseconds(500));
    if (stalls.fetch_add(1) + 1 == kStalls) enough.set();
    return Status::Ok;
  };
  ClusterOfThreads cluster(2, 2, {.wrap_first = watchWith(onWrite)});
  const auto client = cluster.connect(cluster.options("tcp"));
  const Table table = client->createTable("objects", 6).value();
  begun.store(true);
  {
    Writer writer(*client, table);
    EXPECT_TRUE(enough.wait(60));
  }
  begun.store(false);
  EXPECT_LE(stalls_elsewhere.load(), 1u) << "of " << stalls.load();
  EXPECT_TRUE(cluster.isHealthy());
  EXPECT_TRUE(cluster.stop());
}

}  // namespace
}  // namespace ramcore::cluster
