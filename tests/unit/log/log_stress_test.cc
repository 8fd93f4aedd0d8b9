#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "log/cleaning/cleaner.h"
#include "log/cleaning/compaction.h"
#include "runtime/real/urcu_epoch.h"
#include "tests/unit/log/log_fixture.h"

namespace ramcore::log {
namespace {

/// An index for threads: a word per key that readers load without a lock, and a lock per key for those who change it.
class SharedOwner final : public EntryOwner {
 public:
  static constexpr uint32_t kKeys = 500;

  static std::string nameOf(uint32_t key) { return "key" + std::to_string(key); }
  static uint32_t keyOf(const EntryView& entry) {
    return static_cast<uint32_t>(std::stoul(std::string(asText(entry.key()).substr(3))));
  }

  Moved relocated(EntryRef from, EntryRef to, const EntryView& entry, Hint) override {
    Key& key = keys_[keyOf(entry)];
    MutexGuard guard(key.lock);
    if (key.ref.load() != from.bits()) return Moved::No;
    key.ref.store(to.bits());
    return Moved::Yes;
  }
  void dropped(EntryRef, const EntryView&) override {}
  SafeVersionPayload safeVersion() override { return {}; }

  EntryRef refOf(uint32_t key) const { return EntryRef::fromBits(keys_[key].ref.load()); }

  /// Writes (or removes, if there is no value) under the key's lock.
  Status change(Log& log, uint32_t number, std::optional<std::string> value) {
    Key& key = keys_[number];
    const std::string name = nameOf(number);
    MutexGuard guard(key.lock);
    const EntryRef old = EntryRef::fromBits(key.ref.load());
    std::vector<EntryInput> group;
    const ByteSpan payload = asBytes(value ? std::string_view(*value) : std::string_view());
    if (value) {
      group.emplace_back();
      group[0].version = ++key.version;
      group[0].key = asBytes(name);
      group[0].payload = std::span(&payload, 1);
      group[0].dead = old;
    } else if (old) {
      group.emplace_back();
      group.back().type = EntryType::Tombstone;
      group.back().version = log.view(old).version();
      group.back().key = asBytes(name);
      group.back().dead = old;
    }
    if (group.empty()) return Status::NotFound;
    const auto appended = log.append(group, value ? AppendClass::Write : AppendClass::Remove);
    if (!appended.ok()) return appended.error();
    key.ref.store(value ? appended->refs[0].bits() : 0);
    return Status::Ok;
  }

 private:
  struct Key {
    Mutex lock;
    std::atomic<uint64_t> ref{0};
    Version version = 0;
  };
  std::array<Key, kKeys> keys_;
};

constexpr int kWriters = 4;

TEST(LogStress, WritersReadersAndTwoCleanersTogether) {
  LogConfig config = LogConfig::forTest();
  const auto memory = LogMemory::open(config.memory_bytes).value();
  const auto rcu = runtime::makeUrcu();
  runtime::PinRegistry pins(4);
  auto owner = std::make_unique<SharedOwner>();
  NoReplicator replicator;
  Log log(config, {ClusterId(1), ServerId(2)}, *memory, {*owner, replicator, *rcu, pins});
  Cleaner cleaner(log, *owner, replicator, 2);
  SharedCopy copying(log, *owner, 2);
  Compaction compaction(log, copying);
  std::atomic<int> writers_left{kWriters};
  std::atomic<uint64_t> reads{0};
  const uint64_t goal_bytes = 6 * config.memory_bytes;
  // On a busy machine it may take longer until both cleaners have met often enough.
  constexpr uint64_t kSharedBytesMin = 100u << 10;
  const auto isGoingOn = [&] {
    const uint64_t appended = log.stats().appended_bytes.load();
    return appended < goal_bytes ||
           (appended < 20 * goal_bytes && log.stats().cleaner_bytes_shared.load() <= kSharedBytesMin);
  };

  std::vector<std::thread> threads;
  for (int t = 0; t < kWriters; ++t) {
    threads.emplace_back([&, t] {
      const runtime::RcuReader reader = rcu->registerThread();
      std::mt19937_64 random(t);
      while (isGoingOn()) {
        const auto key = static_cast<uint32_t>(random() % SharedOwner::kKeys);
        const size_t bytes = random() % 20 == 0 ? 1500 + random() % 2000 : random() % 300;
        const bool remove = random() % 8 == 0;
        const Status status = owner->change(log, key, remove ? std::nullopt : std::optional(std::string(bytes, 'x')));
        EXPECT_TRUE(status == Status::Ok || status == Status::NotFound || isRetryable(status)) << name(status);
        rcu->quiescent(reader);
        if (isRetryable(status)) std::this_thread::yield();
      }
      writers_left.fetch_sub(1);
      rcu->unregisterThread(reader);
    });
  }
  threads.emplace_back([&] {
    const runtime::RcuReader reader = rcu->registerThread();
    std::mt19937_64 random(99);
    while (writers_left.load() > 0) {
      const auto key = static_cast<uint32_t>(random() % SharedOwner::kKeys);
      if (const EntryRef ref = owner->refOf(key)) {
        const EntryView entry = log.view(ref);
        ASSERT_TRUE(entry.verify());
        ASSERT_EQ(asText(entry.key()), SharedOwner::nameOf(key));
        reads.fetch_add(1);
      }
      rcu->quiescent(reader);
    }
    rcu->unregisterThread(reader);
  });
  // A second cleaner helps with the copying of passes and of compactions.
  threads.emplace_back([&] {
    const runtime::RcuReader reader = rcu->registerThread();
    while (writers_left.load() > 0) {
      const bool has_helped = cleaner.help(1, 2048);
      const bool has_compacted = copying.work(1, 2048) == SharedCopy::Progress::Worked;
      rcu->quiescent(reader);
      if (!has_helped && !has_compacted) std::this_thread::yield();
    }
    rcu->unregisterThread(reader);
  });
  // This thread cleans and reclaims.
  const runtime::RcuReader reader = rcu->registerThread();
  uint64_t now_ns = 0;
  for (uint32_t round = 0; writers_left.load() > 0; ++round) {
    // A pass or a compaction at a time, and both often.
    if (compaction.isBusy()) {
      compaction.step(4096);
    } else if (cleaner.isBusy() || (cleaner.isNeeded() && round % 4 != 0)) {
      cleaner.step(4096);
    } else {
      std::vector<Segment*> segments;
      log.listCleanable(segments);
      std::erase_if(segments, [&](const Segment* one) { return Compaction::gainOf(*one, config) == 0; });
      if (segments.size() > 3) segments.resize(3);
      if (!segments.empty()) compaction.begin(segments);
    }
    rcu->quiescent(reader);
    rcu->reclaim(16);
    log.reclaim(++now_ns);
  }
  rcu->offline(reader);
  for (std::thread& thread : threads) thread.join();
  rcu->online(reader);
  EXPECT_GT(reads.load(), 100u);
  EXPECT_GT(log.stats().cleaner_passes.load(), 3u);
  EXPECT_GT(log.stats().segments_compacted.load(), 10u);
  EXPECT_GT(log.stats().cleaner_bytes_shared.load(), kSharedBytesMin);
  int64_t live_bytes = 0;
  for (uint32_t key = 0; key < SharedOwner::kKeys; ++key) {
    const EntryRef ref = owner->refOf(key);
    if (!ref) continue;
    const EntryView entry = log.view(ref);
    EXPECT_TRUE(entry.verify());
    EXPECT_EQ(SharedOwner::keyOf(entry), key);
    live_bytes += entry.alignedBytes();
  }
  // Counting survived the races: the live bytes are those of the keys and of the tombstones.
  EXPECT_EQ(log.stats().live_bytes.load(), live_bytes + log.stats().tombstone_bytes.load());
  rcu->unregisterThread(reader);
}

}  // namespace
}  // namespace ramcore::log
