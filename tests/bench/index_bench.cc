// Batched random lookups in the hash index beside a bare probe that hashes the same keys, finds them in a plain table
// and compares them (bench/support/bare_probe.h): at five sizes while the index grows to twice its size, while another
// thread makes it grow, and at its end. With --check-overhead also what the index costs per entry over a whole
// doubling; then more than the bound allows is a failure.
//
//   bench_index [--objects N] [--lookups N] [--rounds N] [--check-overhead] [--smoke]
//
// Rounds are interleaved; page sizes are equal, because both tables lie in the same kind of memory. Beside lookups in
// the bare probe the other thread grows another index, so that both sides share the machine with the same work.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "bench/support/bare_probe.h"
#include "bench/support/flags.h"
#include "bench/support/report.h"
#include "index/hash_index.h"
#include "runtime/real/urcu_epoch.h"

namespace ramcore::index {
namespace {

using bench::BareProbe;
using bench::kKeyBytes;
using bench::Objects;
using bench::SplitMix;

constexpr size_t kBatch = 64;
constexpr double kBatchedRatioMin = 0.8;
constexpr TableId kTable{1};

struct Options {
  uint64_t objects = 200'000;
  uint64_t lookups = 400'000;  // a round
  int rounds = 7;
  uint64_t overhead_objects_max = 2'000'000;
  bool overhead = false;
};

struct Index {
  explicit Index(uint64_t objects_max) : rcu(runtime::makeUrcu()) {
    auto opened = HashIndex::open({.reserve_bytes = std::max<uint64_t>(objects_max * 32, 4 << 20)}, *rcu);
    if (!opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.error().message.c_str());
      std::exit(1);
    }
    index = std::move(*opened);
  }
  ~Index() { rcu->drain(); }
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;
  void insert(uint64_t number, KeyHash hash) {
    const StripeGuard guard(*index, hash);
    if (index->insert(guard, Objects::refOf(number)) != Status::Ok) std::exit(1);
    if (number % 1024 == 0) {
      rcu->reclaim(16);
      index->maintainMemory();
    }
  }
  const std::unique_ptr<runtime::Rcu> rcu;
  std::unique_ptr<HashIndex> index;
};

double secondsOf(auto&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Runs `kind` over all queries in batches, again and again until `is_over()`; returns million lookups a second.
template <typename Kind, typename IsOver>
double rateUntil(const std::vector<std::byte>& queries, Kind&& kind, IsOver&& is_over) {
  const size_t count = queries.size() / kKeyBytes;
  uint64_t asked = 0;
  uint64_t found = 0;
  const double seconds = secondsOf([&] {
    std::array<KeyHash, kBatch> hashes;
    do {
      const size_t first = asked % count;
      const size_t size = std::min(kBatch, count - first);
      const std::byte* keys = queries.data() + first * kKeyBytes;
      for (size_t i = 0; i < size; ++i) hashes[i] = hashKey(kTable, {keys + i * kKeyBytes, kKeyBytes});
      found += kind(std::span(hashes).first(size), keys);
      asked += size;
    } while (!is_over(asked));
  });
  if (found != asked) {
    std::fprintf(stderr, "found %llu of %llu\n", static_cast<unsigned long long>(found),
                 static_cast<unsigned long long>(asked));
    std::exit(1);
  }
  return static_cast<double>(asked) / seconds / 1e6;
}

/// The same, over all queries once.
template <typename Kind>
double rate(const std::vector<std::byte>& queries, Kind&& kind) {
  return rateUntil(queries, kind, [&](uint64_t asked) { return asked == queries.size() / kKeyBytes; });
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
    for (uint64_t i = 0; i < lookups_; ++i) bench::writeKey(random_.next() % count, &queries_[i * kKeyBytes]);
  }
  IndexStats stats() const { return ours_.index->stats(); }
  const Objects& objects() const { return objects_; }

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
  SplitMix random_{1};
};

/// Lookups of the keys in the first half of an index while another thread adds the second half, a part in each round.
class GrowthBeside {
 public:
  GrowthBeside(const Options& options, const Objects& objects)
      : objects_(objects),
        half_(options.objects / 2),
        part_(half_ / static_cast<uint64_t>(options.rounds)),
        bare_(half_),
        ours_(options.objects),
        other_(options.objects) {
    for (uint64_t number = 0; number < half_; ++number) {
      const KeyHash hash = hashKey(kTable, objects_.key(number));
      bare_.insert(hash, Objects::refOf(number));
      ours_.insert(number, hash);
      other_.insert(number, hash);
    }
    SplitMix random{3};
    queries_.resize(options.lookups * kKeyBytes);
    for (uint64_t i = 0; i < options.lookups; ++i) bench::writeKey(random.next() % half_, &queries_[i * kKeyBytes]);
  }

  /// Million lookups a second in round `round`, of the bare probe.
  double bare(uint64_t round) {
    return beside(other_, round, [&](std::span<const KeyHash> batch, const std::byte* keys) {
      return bare_.lookupBatch(objects_, batch, keys);
    });
  }
  /// And of the index that grows.
  double ours(uint64_t round) {
    return beside(ours_, round, [&](std::span<const KeyHash> batch, const std::byte* keys) {
      std::array<EntryRef, kBatch> out;
      ours_.index->lookupBatch(batch, std::span(out).first(batch.size()), objects_.base(),
                               [&](size_t i, EntryRef ref) { return objects_.hasKey(ref, keys + i * kKeyBytes); });
      uint64_t found = 0;
      for (size_t i = 0; i < batch.size(); ++i) found += out[i] ? 1 : 0;
      return found;
    });
  }
  uint64_t splits() const { return ours_.index->stats().splits; }

 private:
  template <typename Kind>
  double beside(Index& growing, uint64_t round, Kind&& kind) {
    std::atomic<bool> has_grown{false};
    const runtime::RcuReader self = growing.rcu->registerThread();
    std::thread grower([&] {
      for (uint64_t i = 0; i < part_; ++i) {
        const uint64_t number = half_ + round * part_ + i;
        growing.insert(number, hashKey(kTable, objects_.key(number)));
      }
      has_grown.store(true, std::memory_order_relaxed);
    });
    const double rate = rateUntil(queries_, kind, [&](uint64_t) {
      growing.rcu->quiescent(self);
      return has_grown.load(std::memory_order_relaxed);
    });
    grower.join();
    growing.rcu->unregisterThread(self);
    return rate;
  }

  const Objects& objects_;
  const uint64_t half_;
  const uint64_t part_;  // added in a round
  BareProbe bare_;
  Index ours_;
  Index other_;
  std::vector<std::byte> queries_;
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

/// While another thread adds keys. @return false if the rounds of the bare probe differ too much
bool runGrowthBeside(const Options& options, const Objects& objects, bench::Report& report) {
  GrowthBeside growth(options, objects);
  const uint64_t splits_before = growth.splits();
  std::vector<double> bare, ours;
  for (int round = 0; round < options.rounds; ++round) {
    bare.push_back(growth.bare(static_cast<uint64_t>(round)));
    ours.push_back(growth.ours(static_cast<uint64_t>(round)));
  }
  report.figure("buckets split meanwhile", "", {static_cast<double>(growth.splits() - splits_before)});
  report.figure("bare probe beside a growing index", "M/s", bare);
  report.target("beside its own growth: batched / bare", "", bench::ratios(ours, bare), bench::Report::Goal::AtLeast,
                kBatchedRatioMin);
  return !report.isNoisy("the bare probe", bare);
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
    bool is_quiet = runGrowth(options, tables, report);
    is_quiet = runFullSize(options, tables, report) && is_quiet;
    is_quiet = runGrowthBeside(options, tables.objects(), report) && is_quiet;
    if (is_quiet || attempt == 3) return;
    report.discard();
  }
}

/// Bytes that the index takes per entry, over a whole doubling. @return false above the bound
bool runOverhead(uint64_t objects_max, bench::Report& report) {
  constexpr double kIndexBytesMax = 36 - bench::kHeaderBytes;
  Index ours(objects_max);
  double worst = 0;
  uint64_t number = 0;
  SplitMix random{7};
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
