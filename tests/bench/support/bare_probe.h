#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "bench/support/workload.h"
#include "index/hash_index.h"
#include "index/index_memory.h"

/// The limit for lookups and writes of the index: what no store can do without, and nothing else. XXH3 of the key (by
/// the caller), a bucket of 8 slots in one cache line, a compare with the stored key; batched ones prefetch in groups.
/// No growth, no overflow chain, no word to load, no other thread.
namespace ramcore::bench {

inline constexpr size_t kHeaderBytes = 22;
inline constexpr size_t kEntryBytes = (kHeaderBytes + kKeyBytes + kValueBytes + 7) / 8 * 8;

/// splitmix64: one that costs next to nothing.
struct SplitMix {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
};

inline void writeKey(uint64_t number, std::byte* to) {
  char text[kKeyBytes + 1];
  std::snprintf(text, sizeof(text), "object/%023llu", static_cast<unsigned long long>(number));
  std::memcpy(to, text, kKeyBytes);
}

/// Entries with the layout of the log: header, key, value, a multiple of 8 bytes.
class Objects {
 public:
  explicit Objects(uint64_t count) : bytes_(alignUp(log::EntryRef::kFirstBytes + count * kEntryBytes, 2 << 20)) {
    void* base = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
      std::perror("mmap");
      std::exit(1);
    }
    madvise(base, bytes_, MADV_HUGEPAGE);
    base_ = static_cast<std::byte*>(base);
    for (uint64_t number = 0; number < count; ++number) {
      std::byte* entry = base_ + refOf(number).offsetBytes();
      storeAs<uint16_t>(entry + 2, kKeyBytes);
      writeKey(number, entry + kHeaderBytes);
    }
  }
  ~Objects() { munmap(base_, bytes_); }
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;

  static log::EntryRef refOf(uint64_t number) {
    return log::EntryRef::fromOffset(log::EntryRef::kFirstBytes + number * kEntryBytes);
  }
  const std::byte* base() const { return base_; }
  ByteSpan key(uint64_t number) const { return {base_ + refOf(number).offsetBytes() + kHeaderBytes, kKeyBytes}; }
  bool hasKey(log::EntryRef ref, const std::byte* key) const {
    const std::byte* entry = base_ + ref.offsetBytes();
    return loadAs<uint16_t>(entry + 2) == kKeyBytes && std::memcmp(entry + kHeaderBytes, key, kKeyBytes) == 0;
  }

 private:
  uint64_t bytes_;
  std::byte* base_;
};

/// The plain table. Uses the bytes of the index: 24 bits of the hash and a reference in a slot.
class BareProbe {
 public:
  explicit BareProbe(uint64_t objects) {
    const uint64_t buckets = std::bit_ceil(objects / index::HashIndex::kEntriesPerBucketMax + 1);
    auto memory =
        index::IndexMemory::reserve(std::max(buckets * sizeof(index::Line) * 2, index::IndexMemory::kReserveBytesMin));
    if (!memory.ok()) std::exit(1);
    memory_ = std::move(*memory);
    // In huge pages from the start, those that are half used, too: the limit does not pay for small ones.
    const auto bytes = memory_->buckets().size_bytes();
    madvise(memory_->buckets().data(), bytes, MADV_HUGEPAGE);
    lines_ = reinterpret_cast<PlainLine*>(memory_->buckets().data());
    mask_ = buckets - 1;
  }
  void insert(KeyHash hash, log::EntryRef ref) {
    for (uint64_t bucket = hash & mask_;; bucket = (bucket + 1) & mask_) {
      for (uint64_t& slot : lines_[bucket]) {
        if (slot != 0) continue;
        slot = index::entrySlot(hash >> kTagShift, ref);
        return;
      }
    }
  }
  uint64_t lookupBatch(const Objects& objects, std::span<const KeyHash> hashes, const std::byte* keys) const {
    constexpr size_t kGroup = 16;
    uint64_t found = 0;
    const auto prefetchGroup = [&](size_t first) {
      const size_t end = std::min(first + kGroup, hashes.size());
      for (size_t i = first; i < end; ++i) __builtin_prefetch(&lines_[hashes[i] & mask_]);
    };
    prefetchGroup(0);
    for (size_t first = 0; first < hashes.size(); first += kGroup) {
      const size_t count = std::min(kGroup, hashes.size() - first);
      log::EntryRef candidates[kGroup];
      for (size_t i = 0; i < count; ++i) {
        candidates[i] = firstWithTag(hashes[first + i]);
        const std::byte* entry = objects.base() + candidates[i].offsetBytes();
        __builtin_prefetch(entry);
        __builtin_prefetch(entry + 63);
      }
      prefetchGroup(first + kGroup);
      for (size_t i = 0; i < count; ++i) {
        const std::byte* key = keys + (first + i) * kKeyBytes;
        found += objects.hasKey(candidates[i], key) || findSlowly(objects, hashes[first + i], key) ? 1 : 0;
      }
    }
    return found;
  }
  bool lookup(const Objects& objects, KeyHash hash, const std::byte* key) const {
    return findSlowly(objects, hash, key);
  }

 private:
  using PlainLine = std::array<uint64_t, index::kSlotsPerLine>;
  static constexpr unsigned kTagShift = 64 - index::kTagBits;

  log::EntryRef firstWithTag(KeyHash hash) const {
    const PlainLine& line = lines_[hash & mask_];
    for (const uint64_t slot : line) {
      if (index::matchesTag(slot, hash >> kTagShift)) return index::refOf(slot);
    }
    return Objects::refOf(0);
  }
  bool findSlowly(const Objects& objects, KeyHash hash, const std::byte* key) const {
    for (uint64_t bucket = hash & mask_;; bucket = (bucket + 1) & mask_) {
      for (const uint64_t slot : lines_[bucket]) {
        if (slot == 0) return false;
        if (index::matchesTag(slot, hash >> kTagShift) && objects.hasKey(index::refOf(slot), key)) return true;
      }
    }
  }

  std::unique_ptr<index::IndexMemory> memory_;
  PlainLine* lines_ = nullptr;
  uint64_t mask_ = 0;
};

}  // namespace ramcore::bench
