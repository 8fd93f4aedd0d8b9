// Appends of one, two and four threads to one head, and what a writer of small values waits for one of large values.
//
//   bench_append [--mb N] [--many-gib N] [--rounds N] [--smoke]
//
// Objects of 30 B keys and 100 B values go into a log without replicas and without an index, each thread into the same
// head. The limit beside them: one thread copies the same bytes into the same memory, one entry behind the other, with
// the same checksum and without a lock. Then one thread appends such objects while another appends values of 1 MB,
// which are copied outside the head's lock, and while the other appends small ones: the longest of its appends, and the
// 99.99th percentile. What a thread loses because another has its core is in both.
//
// And what a log of many segments costs a writer: the longest append between two rolls of the head, in processor time,
// with 49,000 slots, two thirds of them segments of the log (256 GiB), beside the same with 1,500 (8 GiB). The segments
// are small, so that both fit into any machine; some of them leave the log with each roll. The thread that
// rolls writes the digest, which has an entry for each segment.

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "bench/support/child.h"
#include "bench/support/flags.h"
#include "bench/support/machine.h"
#include "bench/support/report.h"
#include "bench/support/workload.h"
#include "log/log.h"
#include "log/memory/log_memory.h"
#include "runtime/sim/sim_epoch.h"

namespace ramcore::bench {
namespace {

constexpr size_t kLargeBytes = 1 << 20;

struct Options {
  uint64_t mb = 1024;
  uint64_t many_gib = 256;
  int rounds = 7;
};

/// The owner of the log's entries. Nothing is cleaned here, so it is never asked.
class NoOwner final : public log::EntryOwner {
 public:
  Moved relocated(log::EntryRef, log::EntryRef, const log::EntryView&, Hint) override { return Moved::No; }
  void dropped(log::EntryRef, const log::EntryView&) override {}
  log::SafeVersionPayload safeVersion() override { return {}; }
};

/// A new log in memory that has been touched before.
class FreshLog {
 public:
  explicit FreshLog(const log::LogMemory& memory)
      : pins_(1), log_(configFor(memory), {ClusterId(1), ServerId(1)}, memory, {owner_, replicator_, rcu_, pins_}) {
    log_.maintain();
  }
  log::Log& log() { return log_; }
  static log::LogConfig configFor(const log::LogMemory& memory) {
    log::LogConfig config;
    config.memory_bytes = memory.bytes();
    return config;
  }

 private:
  NoOwner owner_;
  log::NoReplicator replicator_;
  runtime::SimRcu rcu_;
  runtime::PinRegistry pins_;
  log::Log log_;
};

/// One thread that appends objects of one size.
class Writer {
 public:
  Writer(log::Log& log, uint32_t number, size_t value_bytes)
      : log_(log), key_("object/00000000000000000000000" + std::to_string(number)), value_(value_bytes, 'v') {
    key_.resize(kKeyBytes, '0');
  }
  void append() {
    const ByteSpan payload = asBytes(value_);
    const log::EntryInput input{.type = log::EntryType::Object,
                                .table = TableId(1),
                                .version = ++version_,
                                .key = asBytes(key_),
                                .payload = {&payload, 1},
                                .expiry_s = 0};
    for (;;) {
      const auto appended = log_.append(std::span(&input, 1), log::AppendClass::Write);
      if (appended.ok()) return;
      if (appended.error() != Status::RetryLater) die("the log is full: give it more memory");
    }
  }

 private:
  log::Log& log_;
  std::string key_;
  const std::string value_;
  Version version_ = 0;
};

uint32_t smallEntryBytes() { return log::alignedEntryBytes(kKeyBytes, kValueBytes, false); }

/// All threads together, in million appends a second.
double rateOf(const log::LogMemory& memory, uint32_t threads, uint64_t count) {
  FreshLog fresh(memory);
  std::atomic<bool> begun{false};
  std::vector<std::thread> all;
  for (uint32_t i = 0; i < threads; ++i) {
    all.emplace_back([&, i] {
      if (threads <= 2) pinTo(i == 0 ? kServerCore : kClientCore);
      Writer writer(fresh.log(), i, kValueBytes);
      while (!begun.load()) std::this_thread::yield();
      for (uint64_t n = 0; n < count / threads; ++n) writer.append();
    });
  }
  const double begin_s = nowSeconds();
  begun.store(true);
  for (std::thread& thread : all) thread.join();
  return static_cast<double>(count) / (nowSeconds() - begin_s) / 1e6;
}

/// The limit: the same bytes, checked and copied, by one thread.
double copyRate(const log::LogMemory& memory, uint64_t count) {
  const std::string entry(smallEntryBytes(), 'v');
  uint32_t sum = 0;
  const double begin_s = nowSeconds();
  std::byte* to = memory.base();
  for (uint64_t n = 0; n < count; ++n, to += entry.size()) {
    sum ^= crc32c(asBytes(entry), sum);
    std::memcpy(to, entry.data(), entry.size());
  }
  asm volatile("" : : "r"(sum), "r"(to) : "memory");
  return static_cast<double>(count) / (nowSeconds() - begin_s) / 1e6;
}

struct Waits {
  double p9999_us = 0;
  double longest_us = 0;
};

/// Of the small appends of one thread while another one appends values of `others_bytes`.
Waits waitsBeside(const log::LogMemory& memory, const Tsc& tsc, size_t others_bytes) {
  FreshLog fresh(memory);
  // Nothing is cleaned: the appends of both threads, and the ends of segments that values of 1 MB leave unused, have to
  // fit beside the reserves.
  const uint64_t bytes = memory.bytes() / 4;
  std::atomic<bool> over{false};
  std::atomic<bool> begun{false};
  std::thread other([&] {
    pinTo(kClientCore);
    Writer writer(fresh.log(), 1, others_bytes);
    uint64_t appended = 0;
    for (; appended < bytes; appended += others_bytes) {
      writer.append();
      begun.store(true, std::memory_order_relaxed);
    }
    over.store(true);
  });
  pinTo(kServerCore);
  Writer writer(fresh.log(), 0, kValueBytes);
  while (!begun.load()) std::this_thread::yield();
  std::vector<double> waits;
  waits.reserve(bytes / smallEntryBytes());
  for (uint64_t n = 0; n < bytes / smallEntryBytes() && !over.load(std::memory_order_relaxed); ++n) {
    const uint64_t begin = Tsc::now();
    writer.append();
    waits.push_back(tsc.ns(Tsc::now() - begin) / 1000);
  }
  other.join();
  return {.p9999_us = quantile(waits, 0.9999), .longest_us = quantile(waits, 1)};
}

/// Processor time of this thread. Wall time would include what other threads take of the processor; none of them uses
/// the log.
double processorMicroseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

/// A log with as many segments as a full memory of that size has, of which next to nothing is touched.
class LogOfManySegments {
 public:
  LogOfManySegments(uint64_t memory_bytes, uint32_t rolls) : memory_(openMemory(memory_bytes)), fresh_(*memory_) {
    log::Log& log = fresh_.log();
    const uint64_t segments = memory_bytes / log.config().segment_bytes;
    // Those that leave, two for each roll, and what the pool keeps.
    if (segments < uint64_t{rolls} * (kLeaving + 2) + 64)
      die("the memory is too small: raise --many-gib or lower --rounds");
    const uint64_t count = segments - 2 * rolls - 64;
    const uint64_t touched_bytes =
        count * log.config().seglet_bytes + (rolls + 8) * uint64_t{log.config().segment_bytes};
    while (memory_->prefaultedBytes() < touched_bytes && memory_->prefaultNext()) {
    }
    for (uint64_t i = 0; i < count; ++i) {
      log::Segment* const segment = log.privateSegments().open(log::SegmentKind::Side);
      if (segment == nullptr) die("the log has no memory for another segment");
      log.privateSegments().close(*segment);
      segments_.push_back(segment);
    }
    const SegmentId roll = log.heads().addToJoin(segments_);
    if (!log.isRolled(roll)) die("the segments have not joined");
  }
  /// The longest append between two rolls, in microseconds of the processor, for each of some rolls.
  std::vector<double> longestPerRoll(uint32_t rolls) {
    log::Log& log = fresh_.log();
    Writer writer(log, 0, kValueBytes);
    std::vector<double> longest;
    while (longest.size() < rolls) {
      const std::vector<log::Segment*> leaving(segments_.end() - kLeaving, segments_.end());
      segments_.resize(segments_.size() - kLeaving);
      log.members().exchange({}, leaving);
      double longest_us = 0;
      double begin_us = processorMicroseconds();
      for (const SegmentId head = log.headId(); log.headId() == head;) {
        writer.append();
        const double end_us = processorMicroseconds();
        longest_us = std::max(longest_us, end_us - begin_us);
        begin_us = end_us;
      }
      longest.push_back(longest_us);
    }
    return longest;
  }
  uint32_t slotCount() { return fresh_.log().pool().slotCount(); }

 private:
  static constexpr size_t kLeaving = 8;  // at each roll

  static std::unique_ptr<log::LogMemory> openMemory(uint64_t bytes) {
    auto opened = log::LogMemory::open(bytes);
    if (!opened.ok()) die(opened.error().message);
    return std::move(opened).value();
  }

  const std::unique_ptr<log::LogMemory> memory_;
  FreshLog fresh_;
  std::vector<log::Segment*> segments_;
};

struct RollWaits {
  std::vector<double> few_us;
  std::vector<double> many_us;
};

/// In turn, so that both have the same machine.
RollWaits waitsPerRoll(uint64_t many_gib, int rounds) {
  constexpr uint32_t kRollsPerRound = 8;
  constexpr uint64_t kFewGib = 8;
  const auto rolls = static_cast<uint32_t>(rounds) * kRollsPerRound;
  LogOfManySegments few(kFewGib << 30, rolls);
  LogOfManySegments many(many_gib << 30, rolls);
  std::printf("  %u slots beside %u\n", many.slotCount(), few.slotCount());
  RollWaits waits;
  for (int round = 0; round < rounds; ++round) {
    waits.few_us.push_back(quantile(few.longestPerRoll(kRollsPerRound), 0.5));
    waits.many_us.push_back(quantile(many.longestPerRoll(kRollsPerRound), 0.5));
  }
  return waits;
}

void run(const Options& options) {
  const Tsc tsc;
  auto opened = log::LogMemory::open(options.mb << 20);
  if (!opened.ok()) die(opened.error().message);
  const log::LogMemory& memory = **opened;
  while ((*opened)->prefaultNext()) {
  }
  // Below the limit of live bytes: everything is alive.
  const uint64_t count = memory.bytes() / 2 / smallEntryBytes();
  Report report("append");
  std::vector<double> copied, one, two, four, beside_small, beside_large, longest_small, longest_large;
  for (int round = 0; round < options.rounds; ++round) {
    pinTo(kServerCore);
    copied.push_back(copyRate(memory, count));
    unpin();
    one.push_back(rateOf(memory, 1, count));
    two.push_back(rateOf(memory, 2, count));
    four.push_back(rateOf(memory, 4, count));
    const Waits small = waitsBeside(memory, tsc, kValueBytes);
    const Waits large = waitsBeside(memory, tsc, kLargeBytes);
    unpin();
    beside_small.push_back(small.p9999_us);
    beside_large.push_back(large.p9999_us);
    longest_small.push_back(small.longest_us);
    longest_large.push_back(large.longest_us);
  }
  report.figure("copying with checksum, one thread", "M/s", copied);
  report.figure("appends of one thread", "M/s", one);
  report.figure("one thread / copying", "", ratios(one, copied));
  report.figure("two threads / one", "", ratios(two, one));
  report.figure("four threads / one", "", ratios(four, one));
  report.figure("p99.99 beside a writer of 100 B", "us", beside_small);
  report.figure("p99.99 beside a writer of 1 MB", "us", beside_large);
  report.figure("longest beside a writer of 100 B", "us", longest_small);
  report.figure("longest beside a writer of 1 MB", "us", longest_large);
  const RollWaits waits = waitsPerRoll(options.many_gib, options.rounds);
  report.figure("longest append per roll, 8 GiB", "us", waits.few_us);
  report.figure("longest append per roll, many segments", "us", waits.many_us);
  report.target("many segments / 8 GiB", "", ratios(waits.many_us, waits.few_us), Report::Goal::AtMost, 2);
  report.isNoisy("copying", copied);
  report.finish(options.rounds);
}

}  // namespace
}  // namespace ramcore::bench

int main(int argc, char** argv) {
  using namespace ramcore::bench;
  Options options;
  Flags flags;
  flags.number("--mb", options.mb);
  flags.number("--many-gib", options.many_gib);
  flags.number("--rounds", options.rounds);
  flags.flag("--smoke", [&] { options = {.mb = 256, .many_gib = 32, .rounds = 1}; });
  flags.parse(argc, argv);
  if (options.mb < 256 || options.rounds < 1) die("at least --mb 256 and --rounds 1");
  run(options);
  return 0;
}
