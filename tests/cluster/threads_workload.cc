#include "tests/cluster/threads_workload.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <thread>

#include "client/client_impl.h"

namespace ramcore::cluster {
namespace {

int64_t asCounter(const std::string& value) {
  int64_t number = 0;
  if (value.size() == sizeof(number)) std::memcpy(&number, value.data(), sizeof(number));
  return number;
}

std::string counterValue(int64_t number) { return {reinterpret_cast<const char*>(&number), sizeof(number)}; }

std::string prefixOf(uint32_t number) { return "t" + std::to_string(number) + "/"; }

}  // namespace

// ---- steps

void StepCount::end() {
  std::lock_guard guard(mutex_);
  has_ended_ = true;
  changed_.notify_all();
}

void StepCount::announce() {
  std::lock_guard guard(mutex_);
  changed_.notify_all();
}

// A waiter first publishes the count that it awaits (next_) and then looks at count_. A counting thread first counts
// and then looks at next_. So one of the two sees the other.
bool StepCount::await(uint64_t count) {
  std::unique_lock lock(mutex_);
  const auto own = awaited_.insert(count);
  next_.store(*awaited_.begin());
  changed_.wait(lock, [&] { return has_ended_ || count_.load() >= count; });
  awaited_.erase(own);
  next_.store(awaited_.empty() ? ~uint64_t{0} : *awaited_.begin());
  return count_.load() >= count;
}

// ---- one thread

WorkloadThread::WorkloadThread(uint32_t number, Client& client, Table table, WorkloadTotals& totals)
    : number_(number), client_(client), table_(table), totals_(totals), random_(1000 + number) {}

bool WorkloadThread::isOwnedBy(const std::string& key, uint32_t number) { return key.starts_with(prefixOf(number)); }

std::string WorkloadThread::keyName(uint32_t key) const { return prefixOf(number_) + "k" + std::to_string(key); }
std::string WorkloadThread::counterKey() { return prefixOf(number_) + "c" + std::to_string(below(10)); }

std::string WorkloadThread::newValue(const std::string& key) {
  const size_t bytes = below(25) == 0 ? 4000 + below(5000) : below(600);
  ++writes_;
  return key + "#" + std::to_string(writes_) + ":" + std::string(bytes, static_cast<char>('a' + writes_ % 26));
}

bool WorkloadThread::step() {
  const uint32_t kind = below(1000);
  if (kind < 330) {
    write();
  } else if (kind < 400) {
    writeIf();
  } else if (kind < 460) {
    remove();
  } else if (kind < 660) {
    read();
  } else if (kind < 730) {
    incrementOwn();
  } else if (kind < 800) {
    incrementShared();
  } else if (kind < 870) {
    multiRead();
  } else if (kind < 940) {
    multiMutate();
  } else if (kind < 992) {
    readFutures();
  } else {
    scan();
  }
  totals_.steps.add();
  return !::testing::Test::HasFailure();
}

void WorkloadThread::wrote(const std::string& key, const std::string& value, uint64_t version) {
  uint64_t& last = last_version_[key];
  EXPECT_GT(version, last) << key;
  last = version;
  objects_[key] = {value, version};
}

void WorkloadThread::removed(const std::string& key, uint64_t version) {
  const auto found = objects_.find(key);
  EXPECT_EQ(version, found == objects_.end() ? 0 : found->second.version) << key;
  if (found != objects_.end()) objects_.erase(found);
}

void WorkloadThread::checkObject(const std::string& key, Status status, const std::string& value,
                                 uint64_t version) const {
  const auto found = objects_.find(key);
  if (found == objects_.end()) {
    EXPECT_EQ(status, Status::NotFound) << key << ": " << name(status);
    return;
  }
  ASSERT_EQ(status, Status::Ok) << key << ": " << name(status);
  EXPECT_EQ(version, found->second.version) << key;
  EXPECT_TRUE(value == found->second.value)
      << key << ": " << value.substr(0, 40) << " instead of " << found->second.value.substr(0, 40);
}

void WorkloadThread::write() {
  const std::string key = anyKey();
  const std::string value = newValue(key);
  const MutateResult result = client_.write(table_, key, value);
  ASSERT_EQ(result.status, Status::Ok) << key << ": " << name(result.status);
  wrote(key, value, result.version);
}

void WorkloadThread::writeIf() {
  const std::string key = anyKey();
  const std::string value = newValue(key);
  const auto found = objects_.find(key);
  const bool exists = found != objects_.end();
  CallOptions options;
  bool holds = true;
  switch (below(4)) {
    case 0:
      options.condition = Condition::mustExist();
      holds = exists;
      break;
    case 1:
      options.condition = Condition::mustNotExist();
      holds = !exists;
      break;
    case 2:
      options.condition = Condition::versionEquals(exists ? found->second.version : 0);
      break;
    default:
      options.condition = Condition::versionNotGreater(exists ? found->second.version - 1 : 0);
      holds = !exists;
  }
  const MutateResult result = client_.write(table_, key, value, options);
  if (holds) {
    ASSERT_EQ(result.status, Status::Ok) << key << ": " << name(result.status);
    wrote(key, value, result.version);
    return;
  }
  EXPECT_TRUE(result.status == Status::NotFound || result.status == Status::ObjectExists ||
              result.status == Status::WrongVersion)
      << key << ": " << name(result.status);
  EXPECT_EQ(result.version, exists ? found->second.version : 0) << key;
}

void WorkloadThread::remove() {
  const std::string key = anyKey();
  const MutateResult result = client_.remove(table_, key);
  ASSERT_EQ(result.status, Status::Ok) << key << ": " << name(result.status);
  removed(key, result.version);
}

void WorkloadThread::read() {
  const std::string key = anyKey();
  std::string value;
  const Result<uint64_t> version = client_.read(table_, key, value);
  checkObject(key, version.status(), value, version.ok() ? *version : 0);
}

void WorkloadThread::incrementOwn() {
  const std::string key = counterKey();
  const auto found = objects_.find(key);
  const int64_t delta = static_cast<int64_t>(below(1000)) - 400;
  const int64_t expected = (found == objects_.end() ? 0 : asCounter(found->second.value)) + delta;
  const MutateResult result = client_.increment(table_, key, delta);
  ASSERT_EQ(result.status, Status::Ok) << key << ": " << name(result.status);
  EXPECT_EQ(result.value, expected) << key;
  wrote(key, counterValue(expected), result.version);
  totals_.increments.fetch_add(1, std::memory_order_relaxed);
}

void WorkloadThread::incrementShared() {
  const uint32_t counter = below(kSharedCounters);
  const uint32_t delta = 1 + below(100);
  const MutateResult result = client_.increment(table_, counterName(counter), delta);
  ASSERT_EQ(result.status, Status::Ok) << name(result.status);
  added_[counter] += delta;
  touched_[counter] = true;
  // Others only add too: never less than what this thread knows of.
  EXPECT_GE(static_cast<uint64_t>(result.value), added_[counter]);
  uint64_t& last = last_version_[counterName(counter)];
  EXPECT_GT(result.version, last);
  last = result.version;
  totals_.increments.fetch_add(1, std::memory_order_relaxed);
}

void WorkloadThread::multiRead() {
  std::vector<std::string> keys;
  for (int i = 0; i < 16; ++i) keys.push_back(anyKey());
  std::vector<ReadItem> items;
  for (const std::string& key : keys) items.push_back({.table = table_, .key = key});
  client_.multiRead(items);
  for (size_t i = 0; i < keys.size(); ++i) checkObject(keys[i], items[i].status, items[i].value, items[i].version);
  totals_.multi_items.fetch_add(items.size(), std::memory_order_relaxed);
}

void WorkloadThread::multiMutate() {
  std::map<std::string, std::string> changes;  // no value: a removal
  for (int i = 0; i < 10; ++i) {
    const std::string key = anyKey();
    changes[key] = below(5) == 0 ? std::string() : newValue(key);
  }
  std::vector<MutateItem> items;
  for (const auto& [key, value] : changes) {
    items.push_back({.kind = value.empty() ? MutateItem::Kind::Remove : MutateItem::Kind::Write,
                     .table = table_,
                     .key = key,
                     .value = value,
                     .condition = {}});
  }
  EXPECT_EQ(client_.multiMutate(items), 0u);
  size_t i = 0;
  for (const auto& [key, value] : changes) {
    const MutateItem& item = items[i++];
    ASSERT_EQ(item.status, Status::Ok) << key << ": " << name(item.status);
    if (value.empty()) {
      removed(key, item.version);
    } else {
      wrote(key, value, item.version);
    }
  }
  totals_.multi_items.fetch_add(items.size(), std::memory_order_relaxed);
}

void WorkloadThread::readFutures() {
  constexpr size_t kAtOnce = 8;
  std::array<std::string, kAtOnce> keys;
  std::array<Future<Result<ReadResult>>, kAtOnce> futures;
  for (size_t i = 0; i < kAtOnce; ++i) {
    keys[i] = anyKey();
    futures[i] = client_.readAsync(table_, keys[i]);
  }
  const std::string written_key = counterKey() + "f";
  const std::string value = newValue(written_key);
  Future<MutateResult> written = client_.writeAsync(table_, written_key, value);
  for (size_t i = kAtOnce; i-- > 0;) {
    const Result<ReadResult> result = futures[i].get();
    checkObject(keys[i], result.status(), result.ok() ? result->value : "", result.ok() ? result->version : 0);
  }
  const MutateResult result = written.get();
  ASSERT_EQ(result.status, Status::Ok) << name(result.status);
  wrote(written_key, value, result.version);
  totals_.futures.fetch_add(kAtOnce + 1, std::memory_order_relaxed);
}

void WorkloadThread::scan() {
  std::set<std::string> seen;
  Scan scan = client_.scan(table_, {.timeout = {}, .batch_bytes = 4096 + below(60'000)});
  for (const Object& object : scan) {
    EXPECT_TRUE(seen.insert(object.key).second) << object.key << " was given twice";
    if (isOwnedBy(object.key, number_)) checkObject(object.key, Status::Ok, object.value, object.version);
  }
  ASSERT_EQ(scan.status(), Status::Ok) << name(scan.status());
  for (const auto& [key, object] : objects_) EXPECT_TRUE(seen.contains(key)) << key << " is missing from a scan";
  totals_.scans.fetch_add(1, std::memory_order_relaxed);
}

void WorkloadThread::verify(Client& client) const {
  for (uint32_t i = 0; i < kKeys; ++i) {
    const std::string key = keyName(i);
    const Result<ReadResult> result = client.read(table_, key);
    checkObject(key, result.status(), result.ok() ? result->value : "", result.ok() ? result->version : 0);
  }
  for (const auto& [key, object] : objects_) {
    const Result<ReadResult> result = client.read(table_, key);
    checkObject(key, result.status(), result.ok() ? result->value : "", result.ok() ? result->version : 0);
  }
}

// ---- administrator

AdministratorThread::AdministratorThread(Client& client, std::string table_name, std::vector<ServerId> servers,
                                         StepCount& steps, uint64_t seed)
    : client_(client), table_name_(std::move(table_name)), servers_(std::move(servers)), steps_(steps), random_(seed) {}

client::TableMap AdministratorThread::fetchMap() {
  auto map = client_.impl().runTask({}, [&](client::ClusterClient& cluster, int64_t deadline_ns) {
    return cluster.coordinator().tabletsOf(table_name_, deadline_ns);
  });
  EXPECT_TRUE(map.ok()) << name(map.status());
  return map.ok() ? *std::move(map) : client::TableMap{};
}

void AdministratorThread::step() {
  constexpr size_t kTabletsMax = 10;
  const client::TableMap map = fetchMap();
  if (map.tablets.empty()) return;
  const client::TabletInfo tablet = map.tablets[random_() % map.tablets.size()];
  if (map.tablets.size() < kTabletsMax && random_() % 3 == 0) {
    const KeyHash at = tablet.range.first + (tablet.range.last - tablet.range.first) / 4 * (1 + random_() % 3);
    const auto halves = client_.impl().runTask({}, [&](client::ClusterClient& cluster, int64_t deadline_ns) {
      return cluster.coordinator().splitTable(tablet.table, at, deadline_ns);
    });
    // While the tablet is moving, or if a lost answer was asked for again, it is refused.
    if (halves.ok()) splits_done_.fetch_add(1);
    return;
  }
  const std::optional<uint64_t> migration = beginMove(tablet);
  if (migration && awaitMove(*migration)) moves_done_.fetch_add(1);
}

void AdministratorThread::stepOfTwo() {
  const client::TableMap map = fetchMap();
  if (map.tablets.size() < 2 || random_() % 8 == 0) return step();
  const size_t first = random_() % map.tablets.size();
  const size_t second = (first + 1 + random_() % (map.tablets.size() - 1)) % map.tablets.size();
  std::vector<uint64_t> moves;
  for (const size_t one : {first, second}) {
    const std::optional<uint64_t> begun = beginMove(map.tablets[one]);
    if (begun) moves.push_back(*begun);
  }
  if (moves.size() == 2 && areBothUnderWay(moves[0], moves[1])) pairs_done_.fetch_add(1);
  for (const uint64_t move : moves) {
    if (awaitMove(move)) moves_done_.fetch_add(1);
  }
}

bool AdministratorThread::areBothUnderWay(uint64_t first, uint64_t second) {
  using State = client::MigrationStatus::State;
  // The first one does not begin anew: if it runs after the look at the second one, it ran at that moment.
  const bool second_runs = stateOf(second) == State::Running;
  return second_runs && stateOf(first) == State::Running;
}

std::optional<uint64_t> AdministratorThread::beginMove(const client::TabletInfo& tablet) {
  ServerId destination = servers_[random_() % servers_.size()];
  while (destination == tablet.owner) destination = servers_[random_() % servers_.size()];
  const auto migration = client_.impl().runTask({}, [&](client::ClusterClient& cluster, int64_t deadline_ns) {
    return cluster.coordinator().moveTablet(tablet.id, destination, deadline_ns);
  });
  if (migration.status() == Status::NotFound) findServers();
  return migration.ok() ? std::optional(*migration) : std::nullopt;
}

void AdministratorThread::findServers() {
  const auto status = client_.impl().runTask({}, [&](client::ClusterClient& cluster, int64_t deadline_ns) {
    return cluster.coordinator().clusterStatus(deadline_ns);
  });
  ASSERT_TRUE(status.ok()) << name(status.status());
  std::vector<ServerId> alive;
  for (const client::ServerStatus& server : status->servers) {
    if (server.is_alive) alive.push_back(server.id);
  }
  // With one server alone there is nowhere to move to.
  if (alive.size() > 1) servers_ = std::move(alive);
}

client::MigrationStatus::State AdministratorThread::stateOf(uint64_t migration) {
  const auto status = client_.impl().runTask({}, [&](client::ClusterClient& cluster, int64_t deadline_ns) {
    return cluster.coordinator().migrationStatus(migration, deadline_ns);
  });
  EXPECT_TRUE(status.ok()) << name(status.status());
  return status.ok() ? status->state : client::MigrationStatus::State::Unknown;
}

bool AdministratorThread::awaitMove(uint64_t migration) {
  using State = client::MigrationStatus::State;
  const int64_t give_up_ns = client_.impl().nowNs() + 60 * runtime::kNanosPerSecond;
  while (client_.impl().nowNs() < give_up_ns) {
    const State state = stateOf(migration);
    EXPECT_NE(state, State::Unknown);
    if (state != State::Running) return state == State::Done;
    steps_.await(steps_.load() + 1);
  }
  ADD_FAILURE() << "move " << migration << " does not end";
  return false;
}

}  // namespace ramcore::cluster
