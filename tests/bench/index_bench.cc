// Batched random lookups in the hash index beside a bare probe that hashes the same keys, finds them in a plain table
// and compares them; and what the index costs per entry while it grows.
//
//   bench_index [--objects N] [--lookups N] [--rounds N] [--check-overhead]
//
// The bare probe has what no store can do without: XXH3 of the key, a bucket of 8 slots in one cache line, a compare
// with the stored key, the same prefetching in groups. It has no growth, no overflow chain, no word to load, no other
// thread. Rounds are interleaved, on one thread; page sizes are equal, because both tables lie in the same kind of
// memory.

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "master/hash_index.h"
#include "master/index_memory.h"
#include "runtime/sim/sim_epoch.h"

namespace ramcore::index {
namespace {

constexpr size_t kKeyBytes = 30;
constexpr size_t kValueBytes = 100;
constexpr size_t kHeaderBytes = 22;
constexpr size_t kEntryBytes = (kHeaderBytes + kKeyBytes + kValueBytes + 7) / 8 * 8;
constexpr size_t kBatch = 64;
constexpr TableId kTable{1};

struct Options {
  uint64_t objects = 200'000;
  uint64_t lookups = 400'000;  // a round
  uint64_t rounds = 7;
  uint64_t overhead_objects_max = 2'000'000;
  bool overhead = false;
};

struct Random {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
};

void writeKey(uint64_t number, std::byte* to) {
  char text[kKeyBytes + 1];
  std::snprintf(text, sizeof(text), "object/%023llu", static_cast<unsigned long long>(number));
  std::memcpy(to, text, kKeyBytes);
}

/// Entries with the layout of the log: header, key, value, a multiple of 8 bytes.
class Objects {
 public:
  explicit Objects(uint64_t count) : bytes_(alignUp(EntryRef::kFirstBytes + count * kEntryBytes, 2 << 20)) {
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

  static EntryRef refOf(uint64_t number) { return EntryRef::fromOffset(EntryRef::kFirstBytes + number * kEntryBytes); }
  const std::byte* base() const { return base_; }
  ByteSpan key(uint64_t number) const { return {base_ + refOf(number).offsetBytes() + kHeaderBytes, kKeyBytes}; }
  bool hasKey(EntryRef ref, const std::byte* key) const {
    const std::byte* entry = base_ + ref.offsetBytes();
    return loadAs<uint16_t>(entry + 2) == kKeyBytes && std::memcmp(entry + kHeaderBytes, key, kKeyBytes) == 0;
  }

 private:
  uint64_t bytes_;
  std::byte* base_;
};

/// The plain table.
class BareProbe {
 public:
  explicit BareProbe(uint64_t objects) {
    const uint64_t buckets = std::bit_ceil(objects / HashIndex::kEntriesPerBucketMax + 1);
    auto memory = IndexMemory::reserve(std::max(buckets * sizeof(Line) * 2, IndexMemory::kReserveBytesMin));
    if (!memory.ok()) std::exit(1);
    memory_ = std::move(*memory);
    lines_ = reinterpret_cast<PlainLine*>(memory_->buckets().data());
    mask_ = buckets - 1;
  }
  void insert(KeyHash hash, EntryRef ref) {
    for (uint64_t bucket = hash & mask_;; bucket = (bucket + 1) & mask_) {
      for (uint64_t& slot : lines_[bucket]) {
        if (slot != 0) continue;
        slot = entrySlot(hash >> kTagShift, ref);
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
      EntryRef candidates[kGroup];
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
  using PlainLine = std::array<uint64_t, kSlotsPerLine>;
  static constexpr unsigned kTagShift = 64 - kTagBits;

  EntryRef firstWithTag(KeyHash hash) const {
    const PlainLine& line = lines_[hash & mask_];
    for (const uint64_t slot : line) {
      if (matchesTag(slot, hash >> kTagShift)) return refOf(slot);
    }
    return Objects::refOf(0);
  }
  bool findSlowly(const Objects& objects, KeyHash hash, const std::byte* key) const {
    for (uint64_t bucket = hash & mask_;; bucket = (bucket + 1) & mask_) {
      for (const uint64_t slot : lines_[bucket]) {
        if (slot == 0) return false;
        if (matchesTag(slot, hash >> kTagShift) && objects.hasKey(refOf(slot), key)) return true;
      }
    }
  }

  std::unique_ptr<IndexMemory> memory_;
  PlainLine* lines_ = nullptr;
  uint64_t mask_ = 0;
};

struct Index {
  explicit Index(uint64_t objects_max) {
    auto opened = HashIndex::open({.reserve_bytes = std::max<uint64_t>(objects_max * 32, 4 << 20)}, rcu);
    if (!opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.error().message.c_str());
      std::exit(1);
    }
    index = std::move(*opened);
  }
  void insert(uint64_t number, KeyHash hash) {
    const StripeGuard guard(*index, hash);
    if (index->insert(guard, Objects::refOf(number)) != Status::Ok) std::exit(1);
    if (number % 1024 == 0) {
      rcu.reclaim(16);
      index->prefaultAhead();
    }
  }
  runtime::SimRcu rcu;
  std::unique_ptr<HashIndex> index;
};

double secondsOf(auto&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

uint64_t stealTicks() {
  std::ifstream stat("/proc/stat");
  std::string name;
  uint64_t value = 0;
  stat >> name;
  for (int field = 0; field < 8 && stat >> value; ++field) {
  }
  return value;
}

struct Quartiles {
  double low, median, high;
};
Quartiles quartiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return {values[n / 4], values[n / 2], values[n - 1 - n / 4]};
}

/// Runs `kind` over all queries in batches; returns million lookups a second.
template <typename Kind>
double rate(const std::vector<std::byte>& queries, Kind&& kind) {
  const size_t count = queries.size() / kKeyBytes;
  uint64_t found = 0;
  const double seconds = secondsOf([&] {
    std::array<KeyHash, kBatch> hashes;
    for (size_t first = 0; first < count; first += kBatch) {
      const size_t size = std::min(kBatch, count - first);
      const std::byte* keys = queries.data() + first * kKeyBytes;
      for (size_t i = 0; i < size; ++i) hashes[i] = hashKey(kTable, {keys + i * kKeyBytes, kKeyBytes});
      found += kind(std::span(hashes).first(size), keys);
    }
  });
  if (found != count) {
    std::fprintf(stderr, "found %llu of %llu\n", static_cast<unsigned long long>(found),
                 static_cast<unsigned long long>(count));
    std::exit(1);
  }
  return static_cast<double>(count) / seconds / 1e6;
}

bool runLookups(const Options& options) {
  const Objects objects(options.objects);
  Index ours(options.objects);
  BareProbe bare(options.objects);
  std::vector<KeyHash> hashes(options.objects);
  for (uint64_t number = 0; number < options.objects; ++number) hashes[number] = hashKey(kTable, objects.key(number));
  const double insert_seconds = secondsOf([&] {
    for (uint64_t number = 0; number < options.objects; ++number) ours.insert(number, hashes[number]);
  });
  for (uint64_t number = 0; number < options.objects; ++number) bare.insert(hashes[number], Objects::refOf(number));
  std::vector<std::byte> queries(options.lookups * kKeyBytes);
  Random random{1};
  for (uint64_t i = 0; i < options.lookups; ++i) writeKey(random.next() % options.objects, &queries[i * kKeyBytes]);

  const auto bareBatched = [&](std::span<const KeyHash> batch, const std::byte* keys) {
    return bare.lookupBatch(objects, batch, keys);
  };
  const auto oursBatched = [&](std::span<const KeyHash> batch, const std::byte* keys) {
    std::array<EntryRef, kBatch> out;
    ours.index->lookupBatch(batch, std::span(out).first(batch.size()), objects.base(),
                            [&](size_t i, EntryRef ref) { return objects.hasKey(ref, keys + i * kKeyBytes); });
    uint64_t found = 0;
    for (size_t i = 0; i < batch.size(); ++i) found += out[i] ? 1 : 0;
    return found;
  };
  const auto bareSingle = [&](std::span<const KeyHash> batch, const std::byte* keys) {
    uint64_t found = 0;
    for (size_t i = 0; i < batch.size(); ++i) found += bare.lookup(objects, batch[i], keys + i * kKeyBytes) ? 1 : 0;
    return found;
  };
  const auto oursSingle = [&](std::span<const KeyHash> batch, const std::byte* keys) {
    uint64_t found = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
      const std::byte* key = keys + i * kKeyBytes;
      found += ours.index->lookup(batch[i], [&](EntryRef ref) { return objects.hasKey(ref, key); }) ? 1 : 0;
    }
    return found;
  };

  const IndexStats stats = ours.index->stats();
  std::printf("index  objects %llu  load %.3f  overflow lines %llu  inserts %.2f M/s\n",
              static_cast<unsigned long long>(options.objects),
              static_cast<double>(stats.entries) / static_cast<double>(kSlotsPerLine * stats.buckets),
              static_cast<unsigned long long>(stats.overflow_lines),
              static_cast<double>(options.objects) / insert_seconds / 1e6);
  constexpr int kAttempts = 3;
  for (int attempt = 1; attempt <= kAttempts; ++attempt) {
    std::vector<double> bare_rates, our_rates, ratios, bare_single, our_single, single_ratios;
    const uint64_t steal_before = stealTicks();
    for (uint64_t round = 0; round < options.rounds; ++round) {
      bare_rates.push_back(rate(queries, bareBatched));
      our_rates.push_back(rate(queries, oursBatched));
      ratios.push_back(our_rates.back() / bare_rates.back());
      bare_single.push_back(rate(queries, bareSingle));
      our_single.push_back(rate(queries, oursSingle));
      single_ratios.push_back(our_single.back() / bare_single.back());
    }
    const auto print = [](const char* what, const char* unit, Quartiles q) {
      std::printf("%-24s median %6.2f %-3s  quartiles %6.2f %6.2f\n", what, q.median, unit, q.low, q.high);
    };
    print("bare probe, batched", "M/s", quartiles(bare_rates));
    print("index, batched", "M/s", quartiles(our_rates));
    print("ratio", "", quartiles(ratios));
    print("bare probe, single", "M/s", quartiles(bare_single));
    print("index, single", "M/s", quartiles(our_single));
    print("ratio", "", quartiles(single_ratios));
    const auto [slowest, fastest] = std::minmax_element(bare_rates.begin(), bare_rates.end());
    const bool noisy = *fastest > 1.5 * *slowest;
    std::printf("rounds %llu  steal %llu ticks%s\n", static_cast<unsigned long long>(options.rounds),
                static_cast<unsigned long long>(stealTicks() - steal_before), noisy ? "  noisy" : "");
    if (!noisy) return true;
  }
  return true;
}

/// Bytes that the index takes per entry, over a whole doubling. @return false above the bound
bool runOverhead(uint64_t objects_max) {
  constexpr double kIndexBytesMax = 36 - kHeaderBytes;
  Index ours(objects_max);
  double worst = 0;
  uint64_t number = 0;
  Random random{7};
  for (const int eighths : {4, 5, 6, 7, 8}) {
    const uint64_t objects = objects_max / 8 * static_cast<uint64_t>(eighths);
    for (; number < objects; ++number) ours.insert(number, random.next());
    const IndexStats stats = ours.index->stats();
    const double bytes = static_cast<double>(stats.committed_bytes) / static_cast<double>(stats.entries);
    worst = std::max(worst, bytes);
    std::printf("objects %8llu  index %6.2f B/object  with a header of %zu B: %6.2f\n",
                static_cast<unsigned long long>(objects), bytes, kHeaderBytes, bytes + kHeaderBytes);
  }
  const bool within = worst <= kIndexBytesMax;
  std::printf("worst %.2f B/object, at most %.2f allowed: %s\n", worst, kIndexBytesMax, within ? "ok" : "EXCEEDED");
  return within;
}

}  // namespace
}  // namespace ramcore::index

int main(int argc, char** argv) {
  ramcore::index::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const auto number = [&]() -> uint64_t { return i + 1 < argc ? std::strtoull(argv[++i], nullptr, 10) : 0; };
    if (flag == "--objects") {
      options.objects = number();
    } else if (flag == "--lookups") {
      options.lookups = number();
    } else if (flag == "--rounds") {
      options.rounds = number();
    } else if (flag == "--check-overhead") {
      options.overhead = true;
    } else {
      std::fprintf(stderr, "usage: %s [--objects N] [--lookups N] [--rounds N] [--check-overhead]\n", argv[0]);
      return 2;
    }
  }
  if (options.objects == 0 || options.lookups == 0 || options.rounds == 0) {
    std::fprintf(stderr, "objects, lookups and rounds must be positive numbers\n");
    return 2;
  }
  bool ok = ramcore::index::runLookups(options);
  if (options.overhead) ok = ramcore::index::runOverhead(options.overhead_objects_max) && ok;
  return ok ? 0 : 1;
}
