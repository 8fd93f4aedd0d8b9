// A small memory that is filled, emptied and filled again by many clients. Each of them leaves the results of its last
// calls with the server; together these are half of the memory. They are acknowledged, so writes need not wait for the
// end of leases.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cluster/daemon.h"
#include "ramcore/client.h"

namespace ramcore {
namespace {

constexpr size_t kClients = 170;
constexpr size_t kBatch = 1000;                         // a client may have so many calls in flight
constexpr auto kRoomWithin = std::chrono::seconds(15);  // a lease is 30 s

class FreedResults : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "ramcore-results-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    coordinator_.emplace("ramcore-coordinator", std::vector<std::string>{"--listen", "tcp://127.0.0.1:0", "--storage",
                                                                         folder_ + "/state", "--log-level", "error"});
    const std::string coordinator = coordinator_->waitReady();
    ASSERT_NE(coordinator, "");
    server_.emplace("ramcore-server", std::vector<std::string>{"--listen", "tcp://127.0.0.1:0", "--coordinator",
                                                               coordinator, "--memory", "64MiB", "--replicas", "0",
                                                               "--storage-bytes", "0", "--log-level", "error"});
    ASSERT_NE(server_->waitReady(), "");
    ClientOptions options;
    options.coordinators = {coordinator};
    options.default_timeout = std::chrono::seconds(2);
    for (size_t i = 0; i <= kClients; ++i) {
      auto connected = Client::connect(options);
      ASSERT_TRUE(connected.ok()) << connected.error().message;
      clients_.push_back(std::move(connected).value());
    }
    const auto table = clients_.back().createTable("t");
    ASSERT_TRUE(table.ok());
    table_ = *table;
  }
  void TearDown() override {
    clients_.clear();
    server_.reset();
    coordinator_.reset();
    std::filesystem::remove_all(folder_);
  }

  /// How many of the batch were carried out.
  size_t mutate(Client& client, MutateItem::Kind kind, size_t batch, const std::string& value) {
    std::vector<std::string> keys;
    for (size_t i = 0; i < kBatch; ++i) keys.push_back("key " + std::to_string(batch * kBatch + i));
    std::vector<MutateItem> items;
    for (const std::string& key : keys) {
      items.push_back({.kind = kind, .table = table_, .key = key, .value = value, .condition = {}});
    }
    return kBatch - client.multiMutate(items);
  }

  std::string folder_;
  std::optional<Daemon> coordinator_;
  std::optional<Daemon> server_;
  std::vector<Client> clients_;
  Table table_;
};

TEST_P(FreedResults, GiveTheirMemoryBackSoon) {
  const std::string value(100, 'v');
  size_t batches = 0;
  while (batches < kClients && mutate(clients_[batches], MutateItem::Kind::Write, batches, value) == kBatch) ++batches;
  ASSERT_GT(batches, kClients / 2) << "results of so few clients would not matter";
  for (size_t batch = 0; batch <= batches && batch < kClients; ++batch) {
    ASSERT_EQ(mutate(clients_[batch], MutateItem::Kind::Remove, batch, ""), kBatch);
  }
  Client last = std::move(clients_.back());
  clients_.pop_back();
  // Clients that are destroyed give their leases back; clients that stay do nothing, not even poll.
  if (GetParam()) clients_.clear();

  const auto begin = std::chrono::steady_clock::now();
  const size_t wanted = batches * kBatch * 8 / 10;
  size_t written = 0;
  for (size_t batch = 0; written < wanted; ++batch) {
    written += mutate(last, MutateItem::Kind::Write, batch, value);
    ASSERT_LT(std::chrono::steady_clock::now() - begin, kRoomWithin) << written << " of " << wanted << " written";
  }
  clients_.push_back(std::move(last));
}

INSTANTIATE_TEST_SUITE_P(Of, FreedResults, ::testing::Bool(), [](const ::testing::TestParamInfo<bool>& info) {
  return info.param ? "ClientsThatAreGone" : "ClientsThatDoNothing";
});

}  // namespace
}  // namespace ramcore
