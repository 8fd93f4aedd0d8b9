// The public client (include/ramcore) against a real cluster over tcp and over shared memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "tests/cluster/threads_cluster.h"

namespace ramcore::cluster {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Way {
  const char* name;
  const char* scheme;
  bool background_thread;
};

/// One cluster for all tests; each has tables and clients of its own.
class PublicClient : public ::testing::TestWithParam<Way> {
 protected:
  static void SetUpTestSuite() { cluster_ = std::make_unique<ClusterOfThreads>(); }
  static void TearDownTestSuite() {
    EXPECT_TRUE(cluster_->isHealthy());
    EXPECT_TRUE(cluster_->stop());
    cluster_.reset();
  }

  std::unique_ptr<Client> connect() const {
    ClientOptions options = cluster_->options(GetParam().scheme);
    options.background_thread = GetParam().background_thread;
    return cluster_->connect(options);
  }
  /// A table that spreads over all servers.
  Table create(Client& client) const {
    table_name_ =
        std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + " " + std::to_string(++serial_);
    const auto made = client.createTable(table_name_, 6);
    EXPECT_TRUE(made.ok()) << name(made.status());
    return made.ok() ? *made : Table{};
  }
  static std::vector<std::string> keysOf(size_t count) {
    std::vector<std::string> keys;
    for (size_t i = 0; i < count; ++i) keys.push_back("key " + std::to_string(i));
    return keys;
  }

  static std::unique_ptr<ClusterOfThreads> cluster_;
  static inline int serial_ = 0;
  mutable std::string table_name_;
};

std::unique_ptr<ClusterOfThreads> PublicClient::cluster_;

CallOptions when(Condition condition) { return {.timeout = {}, .condition = condition}; }
CallOptions within(std::chrono::nanoseconds timeout) { return {.timeout = timeout, .condition = {}}; }

TEST_P(PublicClient, ReadsWritesRemovesAndCounts) {
  const auto client = connect();
  const Table table = create(*client);
  for (const std::string& key : keysOf(10)) {
    EXPECT_EQ(client->read(table, key).status(), Status::NotFound);
    const MutateResult first = client->write(table, key, "one");
    ASSERT_EQ(first.status, Status::Ok);
    EXPECT_EQ(client->write(table, key, "two", when(Condition::mustNotExist())).status, Status::ObjectExists);
    const MutateResult wrong = client->write(table, key, "two", when(Condition::versionEquals(first.version + 1)));
    EXPECT_EQ(wrong.status, Status::WrongVersion);
    EXPECT_EQ(wrong.version, first.version);
    const MutateResult second = client->write(table, key, "two", when(Condition::versionEquals(first.version)));
    ASSERT_EQ(second.status, Status::Ok);
    EXPECT_GT(second.version, first.version);
    const auto found = client->read(table, key);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->value, "two");
    EXPECT_EQ(found->version, second.version);
    EXPECT_EQ(client->increment(table, key, 1).status, Status::TypeMismatch);
    EXPECT_EQ(client->remove(table, key).version, second.version);
    EXPECT_EQ(client->remove(table, key, when(Condition::mustExist())).status, Status::NotFound);
    EXPECT_EQ(client->increment(table, key, 7).value, 7);
    EXPECT_EQ(client->increment(table, key, -9).value, -2);
  }
}

TEST_P(PublicClient, ValuesOfEverySizeAndTheFormsOfRead) {
  const auto client = connect();
  const Table table = create(*client);
  std::string kept;  // the servers' segments are small, so objects of this cluster are
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, size_t{10'000}}) {
    const std::string value(bytes, static_cast<char>('a' + bytes % 26));
    const MutateResult written = client->write(table, "k", value);
    ASSERT_EQ(written.status, Status::Ok) << bytes;
    EXPECT_EQ(client->read(table, "k", kept).value(), written.version);
    EXPECT_EQ(kept, value);
    std::vector<std::byte> buffer(100);
    const auto size = client->read(table, "k", std::span(buffer));
    ASSERT_TRUE(size.ok());
    EXPECT_EQ(size->value_bytes, bytes);
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(buffer.data()), std::min<size_t>(bytes, 100)),
              value.substr(0, 100));
  }
  EXPECT_EQ(client->write(table, "k", std::string(kValueBytesLimit + 1, 'x')).status, Status::TooLarge);
  EXPECT_EQ(client->write(table, std::string(kKeyBytesLimit + 1, 'k'), "x").status, Status::TooLarge);
  EXPECT_EQ(client->write(table, "", "x").status, Status::BadRequest);
  const std::string longest(10'000, 'k');
  EXPECT_EQ(client->write(table, longest, "x").status, Status::Ok);
  EXPECT_EQ(client->read(table, longest)->value, "x");
}

TEST_P(PublicClient, TablesComeAndGo) {
  const auto client = connect();
  const Table table = create(*client);
  EXPECT_EQ(client->createTable(table_name_).status(), Status::TableExists);
  EXPECT_EQ(client->createTable("").status(), Status::BadRequest);
  EXPECT_EQ(*client->openTable(table_name_), table);
  const auto listed = client->listTables();
  ASSERT_TRUE(listed.ok());
  EXPECT_TRUE(std::any_of(listed->begin(), listed->end(),
                          [&](const TableInfo& info) { return info.table == table && info.name == table_name_; }));
  ASSERT_EQ(client->write(table, "k", "v").status, Status::Ok);
  EXPECT_EQ(client->dropTable(table_name_), Status::Ok);
  EXPECT_EQ(client->dropTable(table_name_), Status::NoSuchTable);
  EXPECT_EQ(client->openTable(table_name_).status(), Status::NoSuchTable);
  EXPECT_EQ(client->read(table, "k").status(), Status::NoSuchTable);
  EXPECT_EQ(client->write(table, "k", "v").status, Status::NoSuchTable);
  const auto again = client->createTable(table_name_);
  ASSERT_TRUE(again.ok());
  EXPECT_NE(*again, table);
  EXPECT_EQ(client->read(*again, "k").status(), Status::NotFound) << "a new table, without the objects of the old one";
}

TEST_P(PublicClient, FuturesEndInAnyOrder) {
  const auto client = connect();
  const Table table = create(*client);
  const std::vector<std::string> keys = keysOf(100);
  std::vector<Future<MutateResult>> writes;
  for (const std::string& key : keys) writes.push_back(client->writeAsync(table, key, "value of " + key));
  for (size_t i = writes.size(); i-- > 0;) EXPECT_EQ(writes[i].get().status, Status::Ok);
  std::vector<Future<Result<ReadResult>>> reads;
  for (const std::string& key : keys) reads.push_back(client->readAsync(table, key));
  auto counter = client->incrementAsync(table, "counter", 5);
  auto missing = client->removeAsync(table, "missing", when(Condition::mustExist()));
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto found = reads[i].get();
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->value, "value of " + keys[i]);
    EXPECT_FALSE(reads[i]);
  }
  EXPECT_EQ(counter.get().value, 5);
  EXPECT_EQ(missing.get().status, Status::NotFound);
}

TEST_P(PublicClient, CallsOfDroppedFuturesGoOn) {
  const auto client = connect();
  const Table table = create(*client);
  constexpr int kCalls = 50;
  for (int i = 0; i < kCalls; ++i) {
    Future<MutateResult> dropped = client->incrementAsync(table, "counter", 1);
  }
  int64_t seen = 0;
  while (seen < kCalls) {  // each ends by its deadline, a minute
    const MutateResult looked = client->increment(table, "counter", 0);
    ASSERT_EQ(looked.status, Status::Ok);
    seen = looked.value;
  }
  EXPECT_EQ(seen, kCalls);
}

TEST_P(PublicClient, AClientMayEndBeforeTheCallsOfItsDroppedFutures) {
  const auto other = connect();
  const Table table = create(*other);
  for (const bool is_warm : {false, true}) {
    const std::vector<std::string> keys = keysOf(64);
    std::vector<MutateItem> items;
    std::vector<ReadItem> asked;
    const auto client = connect();  // ends before the items
    if (is_warm) ASSERT_EQ(client->write(table, "warm", "v").status, Status::Ok);
    for (const std::string& key : keys) {
      items.push_back({.table = table, .key = key, .value = "v", .condition = {}});
      asked.push_back({.table = table, .key = key});
    }
    for (const std::string& key : keys) {
      Future<MutateResult> dropped_write = client->writeAsync(table, key, "v");
      Future<Result<ReadResult>> dropped_read = client->readAsync(table, key);
    }
    {
      Future<size_t> dropped_mutations = client->multiMutateAsync(items);
      Future<size_t> dropped_reads = client->multiReadAsync(asked);
    }
  }
  EXPECT_EQ(other->write(table, "k", "v").status, Status::Ok) << "the cluster goes on";
}

TEST_P(PublicClient, MultiOperationsLeaveEachItemItsOwnOutcome) {
  const auto client = connect();
  const Table table = create(*client);
  constexpr size_t kItems = 1'500;
  const std::vector<std::string> keys = keysOf(kItems);
  const std::string large(10'000, 'L');
  const auto valueOf = [&](size_t i) { return i % 500 == 0 ? large : keys[i]; };
  std::vector<std::string> values;
  for (size_t i = 0; i < kItems; ++i) values.push_back(valueOf(i));
  std::vector<MutateItem> writes;
  for (size_t i = 0; i < kItems; ++i) {
    const Condition condition = i % 3 == 1 ? Condition::mustExist() : Condition();
    writes.push_back({.table = table, .key = keys[i], .value = values[i], .condition = condition});
  }
  writes[2].key = "";
  EXPECT_EQ(client->multiMutate(writes), kItems / 3 + 1);
  std::vector<ReadItem> reads;
  for (const std::string& key : keys) reads.push_back({.table = table, .key = key});
  EXPECT_EQ(client->multiReadAsync(reads).get(), kItems / 3 + 1);
  for (size_t i = 0; i < kItems; ++i) {
    const bool is_absent = i % 3 == 1 || i == 2;
    if (i != 2) EXPECT_EQ(writes[i].status, is_absent ? Status::NotFound : Status::Ok);
    EXPECT_EQ(reads[i].status, is_absent ? Status::NotFound : Status::Ok);
    if (is_absent) continue;
    EXPECT_EQ(reads[i].version, writes[i].version);
    EXPECT_EQ(reads[i].value, values[i]);
  }
  EXPECT_EQ(writes[2].status, Status::BadRequest);
  std::vector<MutateItem> removes;
  for (const std::string& key : keys) {
    removes.push_back({.kind = MutateItem::Kind::Remove, .table = table, .key = key, .value = {}, .condition = {}});
  }
  EXPECT_EQ(client->multiMutateAsync(removes).get(), 0u);
  EXPECT_EQ(client->multiRead(reads), kItems);
}

// The thread that opened the client has polled first, and is one among others.
TEST_P(PublicClient, EachThreadReadsWhatItAskedFor) {
  constexpr size_t kKeys = 100;
  constexpr int kReads = 4000;
  const auto client = connect();
  const Table table = create(*client);
  const std::vector<std::string> keys = keysOf(kKeys);
  const auto valueOf = [&](size_t i) { return keys[i] + std::string(200 + i, static_cast<char>('a' + i % 26)); };
  for (size_t i = 0; i < kKeys; ++i) ASSERT_EQ(client->write(table, keys[i], valueOf(i)).status, Status::Ok);
  std::atomic<int> wrong{0};
  const auto readAll = [&](size_t first) {
    std::string value;
    for (int i = 0; i < kReads; ++i) {
      const size_t at = (first + static_cast<size_t>(i) * 7) % kKeys;
      const auto version = client->read(table, keys[at], value);
      if (!version.ok() || value != valueOf(at)) ++wrong;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t t = 1; t <= 3; ++t) threads.emplace_back(readAll, 13 * t);
    readAll(0);
  }
  EXPECT_EQ(wrong, 0);
}

TEST_P(PublicClient, ScansGiveEveryObjectOnce) {
  const auto client = connect();
  const Table table = create(*client);
  Scan of_nothing = client->scan(table);
  EXPECT_EQ(of_nothing.next(), nullptr);
  EXPECT_EQ(of_nothing.status(), Status::Ok);
  const std::vector<std::string> keys = keysOf(700);
  std::vector<MutateItem> writes;
  for (const std::string& key : keys) {
    writes.push_back({.table = table, .key = key, .value = key, .condition = {}});
  }
  ASSERT_EQ(client->multiMutate(writes), 0u);
  std::set<std::string> seen;
  Scan scan = client->scan(table, {.timeout = {}, .batch_bytes = 2'000});
  for (const Object& object : scan) {
    EXPECT_EQ(object.value, object.key);
    EXPECT_TRUE(seen.insert(object.key).second) << object.key;
  }
  EXPECT_EQ(scan.status(), Status::Ok);
  EXPECT_EQ(seen, std::set<std::string>(keys.begin(), keys.end()));
  ASSERT_EQ(client->dropTable(table_name_), Status::Ok);
  Scan of_the_dropped = client->scan(table);
  EXPECT_EQ(of_the_dropped.next(), nullptr);
  EXPECT_EQ(of_the_dropped.status(), Status::NoSuchTable);
}

// Whatever a short deadline makes of a call, the client tells the truth about it.
TEST_P(PublicClient, DeadlinesAreKeptAndToldHonestly) {
  const auto client = connect();
  const Table table = create(*client);
  EXPECT_EQ(client->read(table, "k", within(seconds(0))).status(), Status::DeadlineExceeded);
  ASSERT_EQ(client->increment(table, "counter", 0).status, Status::Ok);
  const auto began = std::chrono::steady_clock::now();
  int64_t done = 0;
  int64_t unknown = 0;
  int64_t given_up = 0;
  for (int i = 0; i < 300; ++i) {
    const MutateResult result = client->increment(table, "counter", 1, within(microseconds(i % 4 == 0 ? 0 : i % 60)));
    switch (result.status) {
      case Status::Ok:
        ++done;
        break;
      case Status::OutcomeUnknown:
        ++unknown;
        break;
      default:
        EXPECT_EQ(result.status, Status::DeadlineExceeded) << name(result.status);
        ++given_up;
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(20));
  EXPECT_GE(given_up, 300 / 4);  // without any time nothing is sent
  // Attempts that are still on their way come before this one, on the same session.
  const MutateResult counted = client->increment(table, "counter", 0);
  ASSERT_EQ(counted.status, Status::Ok);
  EXPECT_GE(counted.value, done);
  EXPECT_LE(counted.value, done + unknown);
}

TEST_P(PublicClient, NobodyThereIsSaidWithCauseAndRemedy) {
  ClientOptions options = cluster_->options(GetParam().scheme);
  options.connect_timeout = milliseconds(50);
  options.coordinators = {std::string(GetParam().scheme) == "tcp" ? "tcp://127.0.0.1:1" : "shm:///nowhere/at/all"};
  auto client = Client::connect(options);
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().status, Status::Unreachable);
  EXPECT_NE(client.error().message.find(options.coordinators[0]), std::string::npos) << client.error().message;
}

INSTANTIATE_TEST_SUITE_P(Ways, PublicClient,
                         ::testing::Values(Way{"tcp", "tcp", false}, Way{"shm", "shm", false},
                                           Way{"tcp_background", "tcp", true}, Way{"shm_background", "shm", true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ramcore::cluster
