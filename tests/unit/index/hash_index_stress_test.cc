// Readers without locks beside writers, the cleaner's relocations, growth from four buckets, and reclamation. What one
// thread cannot show: run it under ThreadSanitizer.

#include "index/hash_index.h"
#include "index_fixture.h"
#include "runtime/real/urcu_epoch.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ramcore::index {
namespace {

constexpr uint64_t kStanding = 64;   // keys that are present all the time, overwritten and relocated
constexpr uint64_t kInserts = 1200;  // inserts of other keys, so that the table grows
constexpr uint64_t kFirstChurnKey = 1000;

class Stress {
 public:
  explicit Stress(uint64_t seed) : seed_(seed), rcu_(runtime::makeUrcu()), deferred_(kEntries) {
    auto opened = HashIndex::open({.initial_buckets_log2 = 2, .reserve_bytes = 8 << 20, .stripes_log2 = 2}, *rcu_);
    RC_CHECK(opened.ok());
    index_ = std::move(*opened);
    for (uint64_t key = 0; key < kStanding; ++key) insert(key, 1);
  }

  void run() {
    std::vector<std::thread> threads;
    threads.emplace_back([this] { asReader([this](TestRandom& random) { readSingle(random); }, 1); });
    threads.emplace_back([this] { asReader([this](TestRandom& random) { readBatch(random); }, 2); });
    threads.emplace_back([this] { asReader([this](TestRandom&) { scanAll(); }, 3); });
    threads.emplace_back([this] { asReader([this](TestRandom& random) { overwriteOrRelocate(random); }, 4); });
    threads.emplace_back([this] { reclaimUntilStopped(); });
    {
      const runtime::RcuReader self = rcu_->registerThread();
      grow(self);
      rcu_->unregisterThread(self);
    }
    stop_.store(true);
    for (std::thread& thread : threads) thread.join();
    rcu_->drain();
  }

  HashIndex& index() { return *index_; }
  uint64_t reads() const { return reads_.load(); }
  uint64_t missing() const { return missing_.load(); }
  uint64_t stale() const { return stale_.load(); }
  uint64_t broken() const { return broken_.load(); }
  uint64_t miscounted() const { return miscounted_.load(); }
  uint64_t relocations() const { return relocations_.load(); }

 private:
  static constexpr size_t kEntries = 50'000;

  // Buries an entry: its bytes are spoilt when no thread can be reading it.
  struct Grave : runtime::Deferred {
    TestMemory::Entry* entry = nullptr;
  };

  static KeyHash hashOf(uint64_t key) {
    TestRandom random(key * 7919 + 1);
    return random.next() & 0xffffff00ffffffff;
  }

  void insert(uint64_t key, uint64_t version) {
    const StripeGuard guard(*index_, hashOf(key));
    RC_CHECK(index_->insert(guard, memory_.append(key, hashOf(key), version)) == Status::Ok);
    if (key < kStanding) acknowledged_[key].store(version, std::memory_order_release);
  }

  void bury(EntryRef ref) {
    TestMemory::Entry& entry = memory_.at(ref);
    Grave& grave = deferred_[ref.offsetBytes() / sizeof(TestMemory::Entry)];
    grave.entry = &entry;
    grave.run = [](runtime::Deferred& self) { *static_cast<Grave&>(self).entry = {}; };
    rcu_->defer(grave);
  }

  template <typename Step>
  void asReader(Step step, uint64_t stream) {
    const runtime::RcuReader self = rcu_->registerThread();
    TestRandom random(seed_ * 101 + stream);
    while (!stop_.load(std::memory_order_relaxed)) {
      step(random);
      rcu_->quiescent(self);
    }
    rcu_->unregisterThread(self);
  }

  void judge(uint64_t key, EntryRef ref, uint64_t version_min) {
    reads_.fetch_add(1, std::memory_order_relaxed);
    if (!ref) {
      missing_.fetch_add(1);
      return;
    }
    const TestMemory::Entry& entry = memory_.at(ref);
    if (entry.key != key || entry.check != ~(entry.key ^ entry.version)) broken_.fetch_add(1);
    if (entry.version < version_min) stale_.fetch_add(1);
  }

  void readSingle(TestRandom& random) {
    const uint64_t key = random.below(kStanding);
    const uint64_t version_min = acknowledged_[key].load(std::memory_order_acquire);
    judge(key, index_->lookup(hashOf(key), memory_.keyIs(key)), version_min);
    // A key that comes and goes: the lookup never finds the entry of another key.
    const uint64_t other = kFirstChurnKey + random.below(kInserts);
    const EntryRef found = index_->lookup(hashOf(other), memory_.keyIs(other));
    if (found && memory_.at(found).key != other) broken_.fetch_add(1);
  }

  void readBatch(TestRandom& random) {
    std::array<uint64_t, 40> keys;
    std::array<KeyHash, 40> hashes;
    std::array<uint64_t, 40> version_min;
    std::array<EntryRef, 40> out;
    for (size_t i = 0; i < keys.size(); ++i) {
      keys[i] = random.below(kStanding);
      hashes[i] = hashOf(keys[i]);
      version_min[i] = acknowledged_[keys[i]].load(std::memory_order_acquire);
    }
    index_->lookupBatch(hashes, out, memory_.base(),
                        [&](size_t i, EntryRef ref) { return memory_.at(ref).key == keys[i]; });
    for (size_t i = 0; i < keys.size(); ++i) judge(keys[i], out[i], version_min[i]);
  }

  void scanAll() {
    std::array<int, kStanding> met{};
    index_->forEachInRange({}, memory_.hashOf(), [&](KeyHash, EntryRef ref) {
      const uint64_t key = memory_.at(ref).key;
      if (key < kStanding) ++met[key];
    });
    for (const int times : met) {
      if (times != 1) miscounted_.fetch_add(1);
    }
  }

  void overwriteOrRelocate(TestRandom& random) {
    // Test memory is not reused, so a fast writer waits for the others.
    if (writes_.load(std::memory_order_relaxed) >= writes_allowed_.load(std::memory_order_relaxed)) {
      std::this_thread::yield();
      return;
    }
    writes_.fetch_add(1, std::memory_order_relaxed);
    const uint64_t key = random.below(kStanding);
    const bool relocates = random.below(2) == 0;
    const StripeGuard guard(*index_, hashOf(key));
    const EntryRef old = index_->find(guard, memory_.keyIs(key));
    RC_CHECK(static_cast<bool>(old));
    const uint64_t version = memory_.at(old).version + (relocates ? 0 : 1);
    const EntryRef now = memory_.append(key, hashOf(key), version);
    RC_CHECK(relocates ? index_->relocate(guard, old, now) : index_->replace(guard, old, now));
    acknowledged_[key].store(version, std::memory_order_release);
    bury(old);
    if (relocates) relocations_.fetch_add(1, std::memory_order_relaxed);
  }

  // Inserts, and removes some again, so that overflow lines come and go.
  void grow(runtime::RcuReader self) {
    for (uint64_t i = 0; i < kInserts; ++i) {
      insert(kFirstChurnKey + i, 1);
      if (i % 3 == 2) {
        const uint64_t key = kFirstChurnKey + i - 1;
        const StripeGuard guard(*index_, hashOf(key));
        const EntryRef ref = index_->find(guard, memory_.keyIs(key));
        RC_CHECK(static_cast<bool>(ref) && index_->erase(guard, ref));
        bury(ref);
      }
      rcu_->quiescent(self);
      // Let the others in between: on two cores the table would be grown before they start.
      if (i % 4 == 0) {
        const uint64_t reads = reads_.load(std::memory_order_relaxed) + 20;
        writes_allowed_.fetch_add(40, std::memory_order_relaxed);
        const uint64_t writes = writes_.load(std::memory_order_relaxed) + 10;
        rcu_->offline(self);
        while (reads_.load(std::memory_order_relaxed) < reads || writes_.load(std::memory_order_relaxed) < writes) {
          std::this_thread::yield();
        }
        rcu_->online(self);
      }
    }
  }

  void reclaimUntilStopped() {
    while (!stop_.load(std::memory_order_relaxed)) {
      rcu_->reclaim(1000);
      std::this_thread::yield();
    }
  }

  const uint64_t seed_;
  const std::unique_ptr<runtime::Rcu> rcu_;
  TestMemory memory_{kEntries};
  std::vector<Grave> deferred_;
  std::unique_ptr<HashIndex> index_;
  std::array<std::atomic<uint64_t>, kStanding> acknowledged_{};
  std::atomic<uint64_t> writes_{0};
  std::atomic<uint64_t> writes_allowed_{40};
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> reads_{0};
  std::atomic<uint64_t> missing_{0};
  std::atomic<uint64_t> stale_{0};
  std::atomic<uint64_t> broken_{0};
  std::atomic<uint64_t> miscounted_{0};
  std::atomic<uint64_t> relocations_{0};
};

TEST(HashIndexStress, StandingKeysAreFoundCurrentWhileTheTableGrows) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto stress = std::make_unique<Stress>(seed);
    stress->run();
    EXPECT_EQ(stress->missing(), 0u);
    EXPECT_EQ(stress->stale(), 0u);
    EXPECT_EQ(stress->broken(), 0u);
    EXPECT_EQ(stress->miscounted(), 0u);
    EXPECT_GT(stress->reads(), 10'000u);
    EXPECT_GT(stress->relocations(), 100u);
    const IndexStats stats = stress->index().stats();
    EXPECT_EQ(stats.entries, kStanding + kInserts - kInserts / 3);
    EXPECT_GE(stats.splits, (stats.entries - 1) / HashIndex::kEntriesPerBucketMax - 4);
    EXPECT_LE(stats.splits_per_operation_max, HashIndex::kSplitsPerOperationMax);
  }
}

// Many young tables, because there a split moves many of the keys that are being read: readers hit the moments between
// its steps, which last some tens of nanoseconds.
TEST(HashIndexStress, YoungTablesGrowUnderReaders) {
  constexpr uint64_t kTables = 150;
  constexpr uint64_t kKeys = 400;
  const std::unique_ptr<runtime::Rcu> rcu = runtime::makeUrcu();
  TestMemory memory(kKeys);
  std::vector<KeyHash> hashes;
  std::vector<EntryRef> refs;
  TestRandom random(5);
  for (uint64_t key = 0; key < kKeys; ++key) {
    hashes.push_back(random.next());
    refs.push_back(memory.append(key, hashes.back()));
  }
  std::atomic<uint64_t> missing{0};
  std::atomic<uint64_t> reads{0};
  uint64_t splits = 0;
  for (uint64_t table = 0; table < kTables; ++table) {
    auto opened = HashIndex::open(IndexConfig::forTest(), *rcu);
    ASSERT_TRUE(opened.ok());
    HashIndex& index = **opened;
    std::atomic<uint64_t> inserted{0};
    std::atomic<uint32_t> ready{0};
    const auto read = [&](uint64_t seed) {
      const runtime::RcuReader self = rcu->registerThread();
      TestRandom stream(seed);
      uint64_t count = 0;
      ready.fetch_add(1);
      for (uint64_t present = 0; present < kKeys; ++count) {
        present = inserted.load(std::memory_order_acquire);
        if (present == 0) continue;
        const uint64_t key = stream.below(present);
        if (index.lookup(hashes[key], memory.keyIs(key)) != refs[key]) missing.fetch_add(1);
        rcu->quiescent(self);
      }
      reads.fetch_add(count);
      rcu->unregisterThread(self);
    };
    std::thread reader(read, table);
    while (ready.load() < 1) std::this_thread::yield();
    for (uint64_t key = 0; key < kKeys; ++key) {
      {
        const StripeGuard guard(index, hashes[key]);
        ASSERT_EQ(index.insert(guard, refs[key]), Status::Ok);
      }
      inserted.store(key + 1, std::memory_order_release);
    }
    reader.join();
    rcu->drain();
    splits += index.stats().splits;
  }
  EXPECT_EQ(missing.load(), 0u);
  EXPECT_GT(reads.load(), kTables);
  EXPECT_GE(splits, kTables * (kKeys / HashIndex::kEntriesPerBucketMax - 4));
}

}  // namespace
}  // namespace ramcore::index
