// Lookups that are overtaken by writers, one interleaving at a time: the matcher is called in the middle of a probe, so
// a test that mutates the index from inside it decides what happens between two loads of the reader.

#include "index/hash_index.h"
#include "index_fixture.h"
#include "runtime/sim/sim_epoch.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ramcore::index {
namespace {

// Keys come in families of equal tags, so that the reader meets (and is interrupted at) another key of the family
// before or instead of its own. A family moves together when buckets split.
class OvertakenLookup : public ::testing::Test {
 protected:
  static constexpr uint64_t kFamilyBits =
      38;  // hash bits below the tag and the first buckets: they tell a family apart
  static constexpr uint64_t kFamilySize = 4;

  void open(uint64_t seed) {
    random_ = TestRandom(seed);
    hash_of_key_.clear();
    current_.clear();
    rcu_.drain();
    auto opened = HashIndex::open(IndexConfig::forTest(), rcu_);
    ASSERT_TRUE(opened.ok());
    index_ = std::move(*opened);
    memory_ = std::make_unique<TestMemory>(100'000);
  }
  void put(KeyHash hash) {
    const uint64_t key = hash_of_key_.size();
    hash_of_key_.push_back(hash);
    const EntryRef ref = memory_->append(key, hash);
    const StripeGuard guard(*index_, hash);
    ASSERT_EQ(index_->insert(guard, ref), Status::Ok);
    current_[key] = ref;
  }
  void putFamily() {
    const KeyHash family = random_.next() >> kFamilyBits << kFamilyBits;
    for (uint64_t member = 0; member < kFamilySize; ++member) put(family | member);
  }
  void eraseSome(uint64_t kept) {
    const uint64_t key = random_.below(hash_of_key_.size());
    if (key / kFamilySize == kept / kFamilySize || !current_.contains(key)) return;
    const StripeGuard guard(*index_, hash_of_key_[key]);
    ASSERT_TRUE(index_->erase(guard, current_[key]));
    current_.erase(key);
  }
  void relocate(uint64_t key) {
    const EntryRef now = memory_->append(key, hash_of_key_[key]);
    const StripeGuard guard(*index_, hash_of_key_[key]);
    ASSERT_TRUE(index_->relocate(guard, current_[key], now));
    current_[key] = now;
  }
  // Changes the index between two steps of the reader. There is no quiescent state, because the reader is inside its
  // section.
  void disturb(uint64_t key) {
    const uint64_t what = random_.below(4);
    const uint64_t times = 1 + random_.below(6);
    for (uint64_t i = 0; i < times; ++i) {
      if (what <= 1) putFamily();
      if (what == 2) eraseSome(key);
      if (what == 3) relocate(key);
    }
    if (what == 2) putFamily();
  }

  runtime::SimRcu rcu_;
  TestRandom random_{0};
  std::unique_ptr<TestMemory> memory_;
  std::unique_ptr<HashIndex> index_;
  std::vector<KeyHash> hash_of_key_;
  std::map<uint64_t, EntryRef> current_;
};

TEST_F(OvertakenLookup, FindsAKeyThatIsThereAllTheTime) {
  uint64_t interrupted = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    open(seed);
    for (int i = 0; i < 5; ++i) putFamily();
    while (hash_of_key_.size() < 1500) {
      const uint64_t key = random_.below(hash_of_key_.size());
      if (!current_.contains(key)) {
        putFamily();
        continue;
      }
      uint32_t interruptions = 0;
      const EntryRef found = index_->lookup(hash_of_key_[key], [&](EntryRef ref) {
        const bool matches = memory_->at(ref).key == key;
        if (!matches && ++interruptions <= 3) disturb(key);
        return matches;
      });
      interrupted += interruptions;
      ASSERT_TRUE(static_cast<bool>(found)) << key;
      // A reader inside an unlinked line may find the entry as it was when the line was unlinked.
      ASSERT_EQ(memory_->at(found).key, key);
      ASSERT_EQ(index_->lookup(hash_of_key_[key], memory_->keyIs(key)), current_[key]);
      rcu_.reclaim(100);
    }
  }
  EXPECT_GT(interrupted, 10'000u);
}

TEST_F(OvertakenLookup, BatchFindsKeysThatAreThereAllTheTime) {
  uint64_t interrupted = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    open(seed);
    for (int i = 0; i < 5; ++i) putFamily();
    while (hash_of_key_.size() < 2000) {
      std::vector<uint64_t> keys;
      std::vector<KeyHash> hashes;
      for (int i = 0; i < 40; ++i) {
        keys.push_back(random_.below(hash_of_key_.size()));
        hashes.push_back(hash_of_key_[keys.back()]);
      }
      std::vector<EntryRef> out(keys.size());
      uint32_t interruptions = 0;
      index_->lookupBatch(hashes, out, memory_->base(), [&](size_t i, EntryRef ref) {
        const bool matches = memory_->at(ref).key == keys[i];
        if (!matches && ++interruptions <= 3) putFamily();
        return matches;
      });
      interrupted += interruptions;
      for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(out[i], current_[keys[i]]) << keys[i];
      rcu_.reclaim(100);
    }
  }
  EXPECT_GT(interrupted, 10'000u);
}

}  // namespace
}  // namespace ramcore::index
