// The cost of the cleaner for readers: latencies of lookups on one core while another one overwrites, with and without
// it.
//
//   bench_cleaning_reads [--memory-mb N] [--live-percent N] [--writes-per-s N] [--seconds S] [--rounds N] [--smoke]
//
// One thread looks random keys up and reads their values, another overwrites random keys at a fixed rate and spends the
// rest of its time cleaning; each is bound to a core. The peer is the same store with as many objects and so much more
// memory that nothing has to be cleaned while it is measured (it is cleaned in between), overwritten at the same rate.
// Rounds are interleaved. The floor is the same loop with nothing in it: what the machine itself takes away.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "bench/support/flags.h"
#include "bench/support/local_store.h"
#include "bench/support/machine.h"
#include "bench/support/report.h"
#include "bench/support/workload.h"
#include "log/cleaning/cleaner.h"
#include "runtime/random.h"
#include "runtime/real/urcu_epoch.h"

namespace ramcore::bench {
namespace {

constexpr double kRatioMax = 2;
constexpr double kTail = 0.9999;
constexpr uint64_t kReservedSamples = 40'000'000;

struct Options {
  uint64_t memory_mb = 1024;
  uint64_t live_percent = 90;
  uint64_t writes_per_s = 100'000;
  double seconds = 4;
  int rounds = 5;
};

const Tsc tsc;

/// A store whose owner thread writes and cleans, and others read.
class Subject {
 public:
  Subject(uint64_t memory_bytes, uint64_t objects, const Keys& keys)
      : objects_(objects),
        keys_(keys),
        store_(configFor(memory_bytes), objects, runtime::makeUrcu()),
        cleaner_(store_.log(), store_.store(), store_.log().replicator()) {
    store_.serve(kClient);
    for (uint64_t i = 0; i < objects_; ++i) write(i);
  }
  runtime::Rcu& rcu() { return store_.rcu(); }
  uint64_t copiedBytes() { return store_.log().stats().cleaner_bytes_copied.load(); }

  /// Overwrites for so long, and cleans in the time that is left.
  /// @return writes that were made
  uint64_t overwrite(double seconds, double writes_per_s, bool cleans) {
    const double begin_s = nowSeconds();
    uint64_t written = 0;
    for (double now_s = begin_s; now_s - begin_s < seconds; now_s = nowSeconds()) {
      const auto due = static_cast<uint64_t>((now_s - begin_s) * writes_per_s);
      for (int i = 0; i < 16 && written < due; ++i) written += tryWrite(random_.below(objects_)) ? 1 : 0;
      if (cleans && (cleaner_.isBusy() || cleaner_.isNeeded())) clean();
      turn();
    }
    return written;
  }
  /// Until there is nothing to gain.
  void cleanUp() {
    for (uint32_t idle = 0; idle < 4;) {
      idle = clean() == log::Cleaner::Progress::Idle ? idle + 1 : 0;
      turn();
    }
  }

  /// Looks a key up and reads its value. Inside a read section.
  void read(uint64_t number) {
    const ByteSpan key = asBytes(keys_.at(number));
    const store::Found found = store_.store().lookup(LocalStore::kTable, hashKey(LocalStore::kTable, key), key);
    if (!found.ref || found.entry.payloadBytes() != kValueBytes) die("a key is missing");
    std::memcpy(value_, found.entry.payload().data(), kValueBytes);
  }

 private:
  static constexpr ClientId kClient{1};
  static constexpr uint32_t kSliceBytes = 64 * 1024;  // as a server does

  static log::LogConfig configFor(uint64_t memory_bytes) {
    log::LogConfig config;
    config.memory_bytes = memory_bytes;
    return config;
  }
  log::Cleaner::Progress clean() { return cleaner_.step(kSliceBytes); }
  void turn() {
    store_.turn();
    store_.log().reclaim(++now_ns_);
    store_.log().maintain();
  }
  void write(uint64_t number) {
    while (!tryWrite(number)) {
      clean();
      turn();
    }
    store_.turn();
  }
  bool tryWrite(uint64_t number) {
    const ByteSpan key = asBytes(keys_.at(number));
    const ByteSpan value = asBytes(text_);
    store::Mutation mutation;
    mutation.opcode = wire::Opcode::Write;
    mutation.identity = {kClient, Sequence(sequence_), Sequence(sequence_ - 1)};
    mutation.epoch = LocalStore::kEpoch;
    mutation.table = LocalStore::kTable;
    mutation.key = key;
    mutation.hash = hashKey(LocalStore::kTable, key);
    mutation.value = std::span(&value, 1);
    const store::Answer answer = *store_.store().apply(mutation, store::ObjectStore::Locking::Wait);
    if (answer.status == Status::RetryLater) return false;
    if (answer.status != Status::Ok) die("a write was answered " + std::string(name(answer.status)));
    ++sequence_;
    return true;
  }

  const uint64_t objects_;
  const Keys& keys_;
  const std::string text_ = std::string(kValueBytes, 'v');
  std::byte value_[kValueBytes] = {};
  uint64_t sequence_ = 1;
  uint64_t now_ns_ = 0;
  runtime::Random random_{7};
  LocalStore store_;
  log::Cleaner cleaner_;
};

/// Calls `call` until `stop` is set, each call timed.
template <typename Call>
std::vector<uint32_t> timeUntil(const std::atomic<bool>& stop, Call&& call) {
  std::vector<uint32_t> samples;
  samples.reserve(kReservedSamples);
  while (!stop.load(std::memory_order_relaxed) && samples.size() < kReservedSamples) {
    const uint64_t before = Tsc::now();
    call();
    samples.push_back(static_cast<uint32_t>(std::min<uint64_t>(Tsc::now() - before, UINT32_MAX)));
  }
  return samples;
}

double tailUs(std::vector<uint32_t>& samples, double q) {
  const auto nth = samples.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(samples.size() - 1));
  std::nth_element(samples.begin(), nth, samples.end());
  return tsc.ns(*nth) / 1000;
}

/// Latencies of a reader on its core while this thread does `work`.
template <typename Call, typename Work>
std::vector<uint32_t> readBeside(runtime::Rcu& rcu, Call call, Work&& work) {
  std::atomic<bool> stop{false};
  std::atomic<bool> reads{false};
  std::vector<uint32_t> samples;
  std::thread reader([&] {
    pinTo(kClientCore);
    const runtime::RcuReader section = rcu.registerThread();
    samples = timeUntil(stop, [&] {
      call();
      reads.store(true, std::memory_order_relaxed);
      rcu.quiescent(section);
    });
    rcu.unregisterThread(section);
  });
  while (!reads.load()) std::this_thread::yield();
  work();
  stop.store(true);
  reader.join();
  return samples;
}

struct Rounds {
  std::vector<double> p50_us, tail_us;
  void add(std::vector<uint32_t> samples) {
    p50_us.push_back(tailUs(samples, 0.5));
    tail_us.push_back(tailUs(samples, kTail));
  }
};

void run(const Options& options) {
  const uint64_t memory_bytes = options.memory_mb << 20;
  const uint64_t objects =
      memory_bytes / 100 * options.live_percent / log::alignedEntryBytes(kKeyBytes, kValueBytes, false);
  // An overwrite takes at most so much with its result.
  const auto ample_bytes = static_cast<uint64_t>(
      static_cast<double>(2 * memory_bytes) + 1.5 * 256 * static_cast<double>(options.writes_per_s) * options.seconds);
  Report report("cleaning_reads");
  const Keys keys(objects, 3);
  pinTo(kServerCore);
  Subject with(memory_bytes, objects, keys);
  Subject without(ample_bytes >> 23 << 23, objects, keys);
  with.overwrite(options.seconds, static_cast<double>(options.writes_per_s), true);

  Rounds cleaned, uncleaned, floor;
  std::vector<double> written, copied;
  const auto writes = static_cast<double>(options.writes_per_s);
  for (int round = 0; round < options.rounds; ++round) {
    runtime::Random random(static_cast<uint64_t>(round) + 1);
    without.cleanUp();
    const uint64_t peer_copied = without.copiedBytes();
    uncleaned.add(readBeside(
        without.rcu(), [&] { without.read(random.below(objects)); },
        [&] { without.overwrite(options.seconds, writes, false); }));
    if (without.copiedBytes() != peer_copied) die("the peer was cleaned while it was measured");
    const uint64_t before = with.copiedBytes();
    uint64_t made = 0;
    cleaned.add(readBeside(
        with.rcu(), [&] { with.read(random.below(objects)); },
        [&] { made = with.overwrite(options.seconds, writes, true); }));
    written.push_back(static_cast<double>(made) / options.seconds / 1e3);
    copied.push_back(static_cast<double>(with.copiedBytes() - before) / options.seconds / 1e6);
    floor.add(readBeside(with.rcu(), [] {}, [&] { with.overwrite(options.seconds / 4, writes, true); }));
  }

  report.figure("overwrites beside the reads", "K/s", written);
  report.figure("copied by the cleaner", "MB/s", copied);
  if (quantile(copied, 0.5) == 0) die("nothing was cleaned: more --writes-per-s or --seconds");
  report.figure("nothing, p99.99", "us", floor.tail_us);
  report.figure("read without the cleaner, p50", "us", uncleaned.p50_us);
  report.figure("read with the cleaner, p50", "us", cleaned.p50_us);
  report.figure("read without the cleaner, p99.99", "us", uncleaned.tail_us);
  report.figure("read with the cleaner, p99.99", "us", cleaned.tail_us);
  report.target("p99.99 with / without", "x", {quantile(cleaned.tail_us, 0.5) / quantile(uncleaned.tail_us, 0.5)},
                Report::Goal::AtMost, kRatioMax);
  report.finish(options.rounds);
}

}  // namespace
}  // namespace ramcore::bench

int main(int argc, char** argv) {
  using namespace ramcore::bench;
  Options options;
  Flags flags;
  flags.number("--memory-mb", options.memory_mb);
  flags.number("--live-percent", options.live_percent);
  flags.number("--writes-per-s", options.writes_per_s);
  flags.number("--seconds", options.seconds);
  flags.number("--rounds", options.rounds);
  flags.flag("--smoke", [&] {
    options.memory_mb = 256;
    options.live_percent = 70;
    options.writes_per_s = 200'000;
    options.seconds = 1;
    options.rounds = 1;
  });
  flags.parse(argc, argv);
  run(options);
  return 0;
}
