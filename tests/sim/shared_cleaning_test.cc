/// Workers of a server that share its cleaning: when a second one comes and goes, and that it is waited for in the end.

#include <gtest/gtest.h>

#include "sim/master_fixture.h"

namespace ramcore::sim::raw {
namespace {

class SharedCleaningTest : public MasterServiceTest {
 protected:
  const log::Log& logOf(size_t server) { return *world.servers[server]->master().log(); }
  /// Objects that take about `percent` of what may be alive.
  void fill(uint64_t percent, size_t server) {
    const auto limit = static_cast<int64_t>(logOf(server).limit().liveBytesMax() / 100 * percent);
    while (logOf(server).stats().live_bytes.load() < limit && !HasFatalFailure()) write(key_count_++, server);
  }
  /// Overwrites at random; nothing may be lost.
  void overwrite(uint64_t bytes, size_t server) {
    const auto& appended = logOf(server).stats().appended_bytes;
    const uint64_t end = appended.load() + bytes;
    while (appended.load() < end && !HasFatalFailure()) write(random_.below(key_count_), server);
  }
  void expectAll(size_t server) {
    for (const auto& [key, value] : model_) EXPECT_EQ(read(key, 1, server).value, value) << key;
  }
  /// A server that has the whole table; from now on it is the only one.
  size_t addServer(uint32_t worker_count, uint32_t cleaners_max, bool has_one_processor = false) {
    SimServer::Options options;
    options.has_one_processor = has_one_processor;
    options.worker_count = worker_count;
    options.cleaners_max = cleaners_max;
    key_count_ = 0;
    model_.clear();
    const size_t server = world.addServer(options);
    EXPECT_TRUE(world.runUntil([&] { return take(2, 0, kLast, 1, server) == Status::Ok; }));
    return server;
  }

  uint32_t most_cleaners = 0;

 private:
  // Until it is taken, looking at every event.
  void write(uint64_t number, size_t server) {
    const std::string key = "key" + std::to_string(number);
    const std::string value(200 + random_.below(1500), static_cast<char>('a' + sequence_ % 26));
    ++sequence_;
    Status status = Status::RetryLater;
    while (status == Status::RetryLater) {
      const auto request =
          writeRequest(Opcode::Write, key, value, sequence_, {.acknowledged = sequence_ - 1, .server = server});
      NotedCall call;
      const auto bytes = join({bytesOf(request), asBytes(key), asBytes(value)});
      call.request = world.client.caller->allocate(static_cast<uint32_t>(bytes.size()));
      call.request.appendHead(bytes);
      world.client.onDispatch([&] { world.client.caller->connection(world.addresses[server]).start(call); });
      ASSERT_TRUE(world.runUntil([&] {
        most_cleaners = std::max(most_cleaners, logOf(server).stats().cleaners.load());
        return call.ended != 0;
      }));
      status = call.outcome();
    }
    ASSERT_EQ(status, Status::Ok) << name(status);
    model_[key] = value;
  }

  std::map<std::string, std::string> model_;
  runtime::Random random_{5};
  uint64_t key_count_ = 0;
  uint64_t sequence_ = 0;
};

TEST_F(SharedCleaningTest, ASecondWorkerComesWhenMemoryIsShortAndGoes) {
  const size_t server = addServer(4, 0);
  const log::LogStats& stats = logOf(server).stats();
  fill(30, server);
  EXPECT_EQ(stats.cleaners.load(), 0u);
  fill(85, server);
  overwrite(6 * logOf(server).config().memory_bytes, server);
  EXPECT_EQ(most_cleaners, 2u) << "half of the workers";
  EXPECT_GT(stats.cleaner_bytes_shared.load(), stats.cleaner_bytes_copied.load() / 50);
  expectAll(server);
  ASSERT_TRUE(world.runUntil([&] { return stats.cleaners.load() == 0; })) << "nothing is written any more";
}

TEST_F(SharedCleaningTest, TwoWorkersAreTooFewToShare) {
  const size_t server = addServer(2, 8);
  fill(85, server);
  overwrite(4 * logOf(server).config().memory_bytes, server);
  EXPECT_EQ(most_cleaners, 1u);
  EXPECT_GT(logOf(server).stats().cleaner_passes.load(), 10u);
  EXPECT_EQ(logOf(server).stats().cleaner_bytes_shared.load(), 0u);
  expectAll(server);
}

TEST_F(SharedCleaningTest, OnOneProcessorTheDispatchThreadCopies) {
  const size_t server = addServer(1, 0, true);
  const log::LogStats& stats = logOf(server).stats();
  fill(85, server);
  overwrite(6 * logOf(server).config().memory_bytes, server);
  EXPECT_GT(stats.cleaner_passes.load(), 10u);
  EXPECT_EQ(stats.cleaner_bytes_shared.load(), stats.cleaner_bytes_copied.load()) << "the worker copies, too";
  expectAll(server);
  ASSERT_TRUE(world.runUntil([&] { return stats.cleaners.load() == 0; })) << "nothing is written any more";
  world.servers[server]->stopInOrder();
  ASSERT_TRUE(world.runUntil([&] { return world.servers[server]->hasStopped(); }));
}

TEST_F(SharedCleaningTest, AServerThatStopsWaitsForAllThatClean) {
  for (int round = 0; round < 5; ++round) {
    const size_t server = addServer(4, 3);
    fill(85, server);
    const auto& cleaners = logOf(server).stats().cleaners;
    // In the middle of a pass of several, if it finds one.
    for (int i = 0; i < 20'000 && cleaners.load() < 2; ++i) overwrite(1, server);
    ASSERT_GE(cleaners.load(), 2u);
    world.servers[server]->stopInOrder();
    ASSERT_TRUE(world.runUntil([&] { return world.servers[server]->hasStopped(); }));
    EXPECT_LE(cleaners.load(), 1u) << "the helpers have ended, the pass is not over";
  }
}

}  // namespace
}  // namespace ramcore::sim::raw
