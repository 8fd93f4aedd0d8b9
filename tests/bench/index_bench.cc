// Batched random lookups in the hash index beside a bare probe that hashes the same keys, finds them in a plain table
// and compares them: while the index grows to twice its size, and at its end. With --check-overhead also what the index
// costs per entry over a whole doubling; then more than the bound allows is a failure.
//
//   bench_index [--objects N] [--lookups N] [--rounds N] [--check-overhead] [--smoke]
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
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "bench/support/flags.h"
#include "bench/support/report.h"
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
constexpr double kBatchedRatioMin = 0.7;
constexpr TableId kTable{1};

struct Options {
  uint64_t objects = 200'000;
  uint64_t lookups = 400'000;  // a round
  int rounds = 7;
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

/// One index, and beside it a plain table of the objects that the index holds.
class Tables {
 public:
  explicit Tables(const Options& options)
      : lookups_(options.lookups), objects_(options.objects), ours_(options.objects) {}

  /// Inserts up to `count` objects, and takes new queries for all of them.
  void growTo(uint64_t count) {
    for (; count_ < count; ++count_) ours_.insert(count_, hashKey(kTable, objects_.key(count_)));
    bare_.emplace(count);
    for (uint64_t number = 0; number < count; ++number) {
      bare_->insert(hashKey(kTable, objects_.key(number)), Objects::refOf(number));
    }
    queries_.resize(lookups_ * kKeyBytes);
    for (uint64_t i = 0; i < lookups_; ++i) writeKey(random_.next() % count, &queries_[i * kKeyBytes]);
  }
  IndexStats stats() const { return ours_.index->stats(); }

  double bareBatched() const {
    return rate(queries_, [&](std::span<const KeyHash> batch, const std::byte* keys) {
      return bare_->lookupBatch(objects_, batch, keys);
    });
  }
  double oursBatched() const {
    return rate(queries_, [&](std::span<const KeyHash> batch, const std::byte* keys) {
      std::array<EntryRef, kBatch> out;
      ours_.index->lookupBatch(batch, std::span(out).first(batch.size()), objects_.base(),
                               [&](size_t i, EntryRef ref) { return objects_.hasKey(ref, keys + i * kKeyBytes); });
      uint64_t found = 0;
      for (size_t i = 0; i < batch.size(); ++i) found += out[i] ? 1 : 0;
      return found;
    });
  }
  double bareSingle() const {
    return rate(queries_, [&](std::span<const KeyHash> batch, const std::byte* keys) {
      uint64_t found = 0;
      for (size_t i = 0; i < batch.size(); ++i)
        found += bare_->lookup(objects_, batch[i], keys + i * kKeyBytes) ? 1 : 0;
      return found;
    });
  }
  double oursSingle() const {
    return rate(queries_, [&](std::span<const KeyHash> batch, const std::byte* keys) {
      uint64_t found = 0;
      for (size_t i = 0; i < batch.size(); ++i) {
        const std::byte* key = keys + i * kKeyBytes;
        found += ours_.index->lookup(batch[i], [&](EntryRef ref) { return objects_.hasKey(ref, key); }) ? 1 : 0;
      }
      return found;
    });
  }

 private:
  const uint64_t lookups_;
  const Objects objects_;
  Index ours_;
  std::optional<BareProbe> bare_;
  uint64_t count_ = 0;
  std::vector<std::byte> queries_;
  Random random_{1};
};

double loadOf(const IndexStats& stats) {
  return static_cast<double>(stats.entries) / static_cast<double>(kSlotsPerLine * stats.buckets);
}

/// While buckets are split one after the other: five sizes of a doubling, of which the worst counts. (The index keeps
/// its load on the way; that of the bare probe falls by half when it gets twice the buckets.)
/// @return false if the rounds of the bare probe differ too much
bool runGrowth(const Options& options, Tables& tables, bench::Report& report) {
  std::vector<double> worst;
  bool is_quiet = true;
  for (const int eighths : {4, 5, 6, 7, 8}) {
    tables.growTo(options.objects / 8 * static_cast<uint64_t>(eighths));
    std::vector<double> bare, ours;
    for (int round = 0; round < options.rounds; ++round) {
      bare.push_back(tables.bareBatched());
      ours.push_back(tables.oursBatched());
    }
    const std::vector<double> ratios = bench::ratios(ours, bare);
    char name[64];
    std::snprintf(name, sizeof(name), "growing, %llu, load %.2f: batched / bare",
                  static_cast<unsigned long long>(tables.stats().entries), loadOf(tables.stats()));
    report.figure(name, "", ratios);
    if (report.isNoisy("the bare probe", bare)) is_quiet = false;
    if (worst.empty() || bench::quantile(ratios, 0.5) < bench::quantile(worst, 0.5)) worst = ratios;
  }
  report.target("growing, worst: batched / bare", "", worst, bench::Report::Goal::AtLeast, kBatchedRatioMin);
  return is_quiet;
}

/// At its full size. @return false if the rounds of the bare probe differ too much
bool runFullSize(const Options& options, const Tables& tables, bench::Report& report) {
  std::vector<double> bare, ours, bare_single, ours_single;
  for (int round = 0; round < options.rounds; ++round) {
    bare.push_back(tables.bareBatched());
    ours.push_back(tables.oursBatched());
    bare_single.push_back(tables.bareSingle());
    ours_single.push_back(tables.oursSingle());
  }
  report.figure("bare probe, batched", "M/s", bare);
  report.figure("index, batched", "M/s", ours);
  report.target("batched / bare", "", bench::ratios(ours, bare), bench::Report::Goal::AtLeast, kBatchedRatioMin);
  report.figure("bare probe, single", "M/s", bare_single);
  report.figure("index, single", "M/s", ours_single);
  report.figure("single / bare", "", bench::ratios(ours_single, bare_single));
  return !report.isNoisy("the bare probe", bare);
}

void runLookups(const Options& options, bench::Report& report) {
  for (int attempt = 1;; ++attempt) {
    Tables tables(options);
    const bool is_quiet = runGrowth(options, tables, report);
    if ((runFullSize(options, tables, report) && is_quiet) || attempt == 3) return;
    report.discard();
  }
}

/// Bytes that the index takes per entry, over a whole doubling. @return false above the bound
bool runOverhead(uint64_t objects_max, bench::Report& report) {
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
    report.figure("index at " + std::to_string(objects) + " objects", "B", {bytes});
  }
  report.target("index per object, worst", "B", {worst}, bench::Report::Goal::AtMost, kIndexBytesMax);
  return worst <= kIndexBytesMax;
}

int run(int argc, char** argv) {
  Options options;
  bench::Flags flags;
  flags.number("--objects", options.objects);
  flags.number("--lookups", options.lookups);
  flags.number("--rounds", options.rounds);
  flags.flag("--check-overhead", [&] { options.overhead = true; });
  flags.flag("--smoke", [&] { options = {.objects = 20'000, .lookups = 20'000, .rounds = 1}; });
  flags.parse(argc, argv);
  std::printf("index: %llu lookups a round, the largest table with %llu objects\n",
              static_cast<unsigned long long>(options.lookups), static_cast<unsigned long long>(options.objects));
  bench::Report report("index");
  runLookups(options, report);
  const bool ok = !options.overhead || runOverhead(options.overhead_objects_max, report);
  report.finish(options.rounds);
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace ramcore::index

int main(int argc, char** argv) { return ramcore::index::run(argc, argv); }
