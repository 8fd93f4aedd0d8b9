// The cost of a write in the hash index and beside it, on one thread, in process.
//
//   bench_index_writes [--objects N] [--operations N] [--rounds N] [--smoke]
//
// Append and index: an object is appended to the log and comes into the index, as a new key (the index grows) and as an
// overwrite (what lay there before is noted to be dead), beside single lookups in the bare probe of equal keys
// (bench/support/bare_probe.h), which is what no write can do without: to find the place of its key.
//
// Growth: processor time of the thread (CLOCK_THREAD_CPUTIME_ID) for each operation, what the clock itself costs taken
// off: adding keys while the index grows, so that every sixth operation splits a bucket, beside adding keys after
// others were taken out, where nothing is split; and a lookup after each. Rounds are interleaved in one store, so that
// caches, sizes and load are the same. What the background thread of a server does (grace periods, pre-faulting) is
// done between operations and not counted.

#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "bench/support/bare_probe.h"
#include "bench/support/flags.h"
#include "bench/support/local_store.h"
#include "bench/support/machine.h"
#include "bench/support/report.h"

namespace ramcore::bench {
namespace {

using index::StripeGuard;
using log::EntryInput;
using log::EntryRef;
using log::EntryType;
using log::EntryView;

constexpr double kAppendRatioMin = 0.35;
constexpr double kGrowthRatioMax = 1.5;
constexpr double kTail = 0.9999;
constexpr uint64_t kEntryBytesMax = kEntryBytes + 24;  // of an object that says what it takes the place of

struct Options {
  uint64_t objects = 1'000'000;   // present before the first round
  uint64_t operations = 200'000;  // of each kind in a round
  int rounds = 7;
};

/// Keys of 30 bytes one after the other, so that to read them costs nobody a cache miss.
class KeyText {
 public:
  explicit KeyText(uint64_t count) : bytes_(count * kKeyBytes) {
    for (uint64_t number = 0; number < count; ++number) writeKey(number, &bytes_[number * kKeyBytes]);
  }
  /// `count` of the first `bound` keys, chosen at random.
  KeyText(uint64_t count, uint64_t bound, SplitMix& random) : bytes_(count * kKeyBytes) {
    for (uint64_t i = 0; i < count; ++i) writeKey(random.next() % bound, &bytes_[i * kKeyBytes]);
  }
  ByteSpan at(uint64_t number) const { return {&bytes_[number * kKeyBytes], kKeyBytes}; }

 private:
  std::vector<std::byte> bytes_;
};

/// Objects of one table in log and index, without what the store of a master adds (tablets, leases, results).
class Subject {
  auto isKey(ByteSpan key) {
    return [this, key](EntryRef ref) {
      const EntryView entry = store_.log().view(ref);
      return entry.table() == LocalStore::kTable && std::ranges::equal(entry.key(), key);
    };
  }

 public:
  Subject(uint64_t log_bytes, uint64_t keys_max)
      : store_(log_bytes, keys_max), keys_(keys_max), value_(kValueBytes, std::byte{'v'}) {}

  /// A key that is present.
  uint64_t choose(SplitMix& random) const { return first_ + random.next() % (count_ - first_); }
  index::IndexStats stats() { return store_.index().stats(); }

  /// Appends the object of a key and puts it into the index.
  void write(ByteSpan key) { write(key, hashKey(LocalStore::kTable, key)); }
  void write(ByteSpan key, KeyHash hash) {
    const ByteSpan payload(value_);
    const StripeGuard guard(store_.index(), hash);
    const EntryRef present = store_.index().find(guard, isKey(key));
    EntryInput object{.type = EntryType::Object,
                      .table = LocalStore::kTable,
                      .version = 1,
                      .key = key,
                      .payload = std::span(&payload, 1)};
    if (present) {
      object.version = store_.log().view(present).version() + 1;
      object.dead = present;
    } else if (store_.index().prepareInsert(guard) != Status::Ok) {
      die("the index is full");
    }
    const auto appended = store_.log().append(std::span(&object, 1), log::AppendClass::Write);
    if (!appended.ok()) die("the log refuses: " + std::string(name(appended.error())));
    const EntryRef now = appended->refs[0];
    const bool ok =
        present ? store_.index().replace(guard, present, now) : store_.index().insert(guard, now) == Status::Ok;
    if (!ok) die("the index refuses");
  }
  /// A new key.
  void add() { write(keys_.at(count_++)); }
  void add(KeyHash hash) { write(keys_.at(count_++), hash); }

  /// Asks for what `write` of these keys reads first, as a server does for the calls of one batch.
  void fetchAhead(uint64_t i, std::span<const KeyHash> hashes) {
    store_.store().fetchAhead(i, hashes.size(), [&](size_t at) { return hashes[at]; });
  }
  /// The key that add() will add after `i` others.
  ByteSpan newKey(uint64_t i) const { return keys_.at(count_ + i); }

  /// Takes the oldest key out of the index, and leaves its object in the log.
  void forgetOldest() {
    const ByteSpan key = keys_.at(first_++);
    const StripeGuard guard(store_.index(), hashKey(LocalStore::kTable, key));
    const EntryRef ref = store_.index().find(guard, isKey(key));
    if (!ref || !store_.index().erase(guard, ref)) die("a key is missing");
  }
  bool has(uint64_t number) {
    const ByteSpan key = keys_.at(number);
    return static_cast<bool>(store_.index().lookup(hashKey(LocalStore::kTable, key), isKey(key)));
  }
  /// The work of the background thread.
  void turn() {
    store_.turn();
    store_.log().maintain();
  }

 private:
  LocalStore store_;
  const KeyText keys_;
  const std::vector<std::byte> value_;
  uint64_t first_ = 0;  // of the keys that are present
  uint64_t count_ = 0;  // of the keys that were ever added: the next one
};

/// Million operations a second of `count` calls; background work in between is part of it, as in a store that runs.
template <typename Operation>
double rateOf(Subject& subject, uint64_t count, Operation&& operation) {
  const double begin_s = nowSeconds();
  for (uint64_t i = 0; i < count; ++i) {
    operation(i);
    if (i % 64 == 0) subject.turn();
  }
  return static_cast<double>(count) / (nowSeconds() - begin_s) / 1e6;
}

/// The same of calls that come in batches.
/// @param key_of  `ByteSpan(uint64_t first, uint64_t i)`: of operation first + i, where `first` are done
template <typename KeyOf, typename Operation>
double rateOfBatches(Subject& subject, uint64_t count, KeyOf&& key_of, Operation&& operation) {
  constexpr uint64_t kBatch = 64;
  std::array<KeyHash, kBatch> hashes;
  const double begin_s = nowSeconds();
  for (uint64_t first = 0; first < count; first += kBatch) {
    const uint64_t size = std::min(kBatch, count - first);
    for (uint64_t i = 0; i < size; ++i) hashes[i] = hashKey(LocalStore::kTable, key_of(first, i));
    for (uint64_t i = 0; i < size; ++i) {
      subject.fetchAhead(i, std::span(hashes).first(size));
      operation(first + i, hashes[i]);
    }
    subject.turn();
  }
  return static_cast<double>(count) / (nowSeconds() - begin_s) / 1e6;
}

uint64_t threadNs() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

/// Processor time of single operations, without what it takes to ask for it.
class Times {
 public:
  explicit Times(double clock_ns) : clock_ns_(clock_ns) {}
  template <typename Operation>
  void measure(Operation&& operation) {
    const uint64_t begin_ns = threadNs();
    operation();
    ns_.push_back(std::max(0.0, static_cast<double>(threadNs() - begin_ns) - clock_ns_));
  }
  double quantileNs(double q) const { return quantile(ns_, q); }

 private:
  const double clock_ns_;
  std::vector<double> ns_;
};

double clockNs() {
  Times times(0);
  for (int i = 0; i < 100'000; ++i) times.measure([] {});
  return times.quantileNs(0.5);
}

/// Room for everything that a run appends, and a third more for the ends of segments and what is kept back.
uint64_t logBytes(const Options& options) {
  const uint64_t rounds = static_cast<uint64_t>(options.rounds);
  const uint64_t writes = options.objects + 6 * rounds * options.operations;
  return alignUp(writes * kEntryBytesMax * 4 / 3 + (256 << 20), 2 << 20);
}

void runAppends(const Options& options, Subject& subject, Report& report) {
  // The bare probe has as many keys as the index in the middle of the rounds.
  const auto rounds = static_cast<uint64_t>(options.rounds);
  const uint64_t probed = options.objects + rounds * options.operations;
  const Objects objects(probed);
  BareProbe bare(probed);
  for (uint64_t i = 0; i < probed; ++i) bare.insert(hashKey(LocalStore::kTable, objects.key(i)), Objects::refOf(i));

  SplitMix random{11};
  std::vector<double> lookups, inserts, overwrites, batch_inserts, batch_overwrites;
  for (int round = 0; round < options.rounds; ++round) {
    const KeyText chosen(options.operations, options.objects, random);
    uint64_t found = 0;
    lookups.push_back(rateOf(subject, options.operations, [&](uint64_t i) {
      const ByteSpan key = chosen.at(i);
      found += bare.lookup(objects, hashKey(LocalStore::kTable, key), key.data()) ? 1 : 0;
    }));
    if (found != options.operations) die("the bare probe misses keys");
    batch_inserts.push_back(rateOfBatches(
        subject, options.operations, [&](uint64_t, uint64_t i) { return subject.newKey(i); },
        [&](uint64_t, KeyHash hash) { subject.add(hash); }));
    batch_overwrites.push_back(rateOfBatches(
        subject, options.operations, [&](uint64_t first, uint64_t i) { return chosen.at(first + i); },
        [&](uint64_t i, KeyHash hash) { subject.write(chosen.at(i), hash); }));
    inserts.push_back(rateOf(subject, options.operations, [&](uint64_t) { subject.add(); }));
    overwrites.push_back(rateOf(subject, options.operations, [&](uint64_t i) { subject.write(chosen.at(i)); }));
  }
  report.figure("bare probe, single", "M/s", lookups);
  report.figure("append + index, new keys in batches", "M/s", batch_inserts);
  report.figure("append + index, overwrites in batches", "M/s", batch_overwrites);
  report.target("batches of new keys / bare", "", ratios(batch_inserts, lookups), Report::Goal::AtLeast,
                kAppendRatioMin);
  // Without targets: an overwrite notes at the old place that it is dead; alone, a write waits for its cache misses one
  // after the other with a lock held, where the probe's next lookup has begun.
  report.figure("batches of overwrites / bare", "", ratios(batch_overwrites, lookups));
  report.figure("new keys one by one / bare", "", ratios(inserts, lookups));
  report.figure("overwrites one by one / bare", "", ratios(overwrites, lookups));
  report.isNoisy("the bare probe", lookups);
}

/// The cost of one round of adding keys.
struct Round {
  Times adds;
  Times lookups;
  uint64_t splits = 0;
};

/// @param grows  keys come in addition; else another one is taken out before each, so that nothing is split
Round addKeys(const Options& options, Subject& subject, double clock_ns, SplitMix& random, bool grows) {
  Round round{Times(clock_ns), Times(clock_ns)};
  const uint64_t splits_before = subject.stats().splits;
  for (uint64_t i = 0; i < options.operations; ++i) {
    if (!grows) subject.forgetOldest();
    round.adds.measure([&] { subject.add(); });
    const uint64_t wanted = subject.choose(random);
    round.lookups.measure([&] {
      if (!subject.has(wanted)) die("a key is missing");
    });
    if (i % 64 == 0) subject.turn();
  }
  round.splits = subject.stats().splits - splits_before;
  return round;
}

void runGrowth(const Options& options, Subject& subject, Report& report) {
  const double clock_ns = clockNs();
  SplitMix random{13};
  std::vector<double> splits, adds_tail, adds_ratio, adds_median, lookups_ratio;
  for (int i = 0; i < options.rounds; ++i) {
    const Round standing = addKeys(options, subject, clock_ns, random, /*grows=*/false);
    const Round growing = addKeys(options, subject, clock_ns, random, /*grows=*/true);
    if (standing.splits != 0) die("the index grew where it should not");
    splits.push_back(static_cast<double>(growing.splits));
    adds_median.push_back(growing.adds.quantileNs(0.5) / standing.adds.quantileNs(0.5));
    adds_tail.push_back(growing.adds.quantileNs(kTail) / 1e3);
    adds_ratio.push_back(growing.adds.quantileNs(kTail) / standing.adds.quantileNs(kTail));
    lookups_ratio.push_back(growing.lookups.quantileNs(kTail) / standing.lookups.quantileNs(kTail));
  }
  report.figure("buckets split in a round with growth", "", splits);
  report.figure("the clock itself", "ns", {clock_ns});
  report.figure("adding, p99.99 with growth", "us", adds_tail);
  report.figure("adding, p50: with growth / without", "", adds_median);
  report.target("adding, p99.99: with growth / without", "", adds_ratio, Report::Goal::AtMost, kGrowthRatioMax);
  report.target("lookup, p99.99: with growth / without", "", lookups_ratio, Report::Goal::AtMost, kGrowthRatioMax);
  report.target("buckets split by one operation, most", "",
                {static_cast<double>(subject.stats().splits_per_operation_max)}, Report::Goal::AtMost,
                index::HashIndex::kSplitsPerOperationMax);
}

int run(int argc, char** argv) {
  Options options;
  Flags flags;
  flags.number("--objects", options.objects);
  flags.number("--operations", options.operations);
  flags.number("--rounds", options.rounds);
  flags.flag("--smoke", [&] { options = {.objects = 20'000, .operations = 5'000, .rounds = 1}; });
  flags.parse(argc, argv);
  const uint64_t keys_max = options.objects + 4 * static_cast<uint64_t>(options.rounds) * options.operations;
  std::printf("index_writes: %llu operations of each kind a round, %llu to %llu objects\n",
              static_cast<unsigned long long>(options.operations), static_cast<unsigned long long>(options.objects),
              static_cast<unsigned long long>(keys_max));
  Report report("index_writes");
  Subject subject(logBytes(options), keys_max);
  rateOf(subject, options.objects, [&](uint64_t) { subject.add(); });
  runAppends(options, subject, report);
  runGrowth(options, subject, report);
  report.finish(options.rounds);
  return 0;
}

}  // namespace
}  // namespace ramcore::bench

int main(int argc, char** argv) { return ramcore::bench::run(argc, argv); }
