#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "index/hash_index.h"

namespace ramcore::index {

/// Entries for index tests: a key, the hash the test chose for it, and a version. Stands in for log memory.
class TestMemory {
 public:
  struct Entry {
    uint64_t key = 0;
    KeyHash hash = 0;
    uint64_t version = 0;
    uint64_t check = 0;
  };

  explicit TestMemory(size_t entries_max) : entries_(entries_max + kSkipped) {}

  EntryRef append(uint64_t key, KeyHash hash, uint64_t version = 1) {
    const size_t at = used_.fetch_add(1, std::memory_order_relaxed);
    RC_CHECK(at < entries_.size());
    entries_[at] = {key, hash, version, ~(key ^ version)};
    return EntryRef::fromOffset(at * sizeof(Entry));
  }
  Entry& at(EntryRef ref) { return entries_[ref.offsetBytes() / sizeof(Entry)]; }
  const Entry& at(EntryRef ref) const { return entries_[ref.offsetBytes() / sizeof(Entry)]; }
  const std::byte* base() const { return reinterpret_cast<const std::byte*>(entries_.data()); }
  auto hashOf() const {
    return [this](EntryRef ref) { return at(ref).hash; };
  }
  auto keyIs(uint64_t key) const {
    return [this, key](EntryRef ref) { return at(ref).key == key; };
  }

 private:
  static constexpr size_t kSkipped = EntryRef::kFirstBytes / sizeof(Entry);
  std::vector<Entry> entries_;
  std::atomic<size_t> used_{kSkipped};
};

/// A small generator with a seed: the same everywhere.
class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t bound) { return next() % bound; }

 private:
  uint64_t state_;
};

}  // namespace ramcore::index
