// The gain of huge pages for the memory of the index, and the cost for readers while memory is put into them.
//
//   bench_index_pages [--mb N] [--rounds N] [--smoke]
//
// Two memories of an index, filled with lines: one is left in small pages, the other is collapsed, 2 MB at a time, as
// the background work of a server does. A thread on one core reads random lines, each read timed, while the other core
// collapses, and for as long again while it does nothing: the longest read of both is what collapsing costs a reader,
// beside what the machine takes away by itself. Then random lines of both memories are read in turns: chains, where
// each read says which one is next, and independent ones.
//
// Reads per second are of lines alone, with nothing else to do: the most that huge pages can bring. What they bring a
// store is what bench_index_writes and bench_cleaning say before and after.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/support/bare_probe.h"
#include "bench/support/child.h"
#include "bench/support/flags.h"
#include "bench/support/machine.h"
#include "bench/support/report.h"
#include "index/index_memory.h"

namespace ramcore::bench {
namespace {

using index::IndexMemory;
using index::Line;

struct Options {
  uint64_t mb = 64;
  int rounds = 7;
};

/// Buckets of so many bytes, all of them in use.
class Filled {
 public:
  explicit Filled(uint64_t bytes) {
    auto reserved = IndexMemory::reserve(2 * bytes);
    if (!reserved.ok()) die(reserved.error().message);
    memory_ = std::move(*reserved);
    lines_ = memory_->buckets().first(bytes / sizeof(Line));
    SplitMix random{5};
    for (Line& line : lines_) line.store(0, random.next());
  }
  /// @return false if there is nothing left to collapse
  bool collapseNext() { return memory_->collapse(lines_.size(), 0) != 0; }
  uint64_t read(uint64_t number) const { return lines_[number % lines_.size()].load(0); }

  /// Million reads a second where each waits for the one before.
  double chainedRate(uint64_t count) const {
    const double begin_s = nowSeconds();
    uint64_t at = 0;
    for (uint64_t i = 0; i < count; ++i) at = read(at + i) >> 8;
    return rateOf(count, begin_s, at);
  }
  /// The same where none does.
  double independentRate(uint64_t count, SplitMix random) const {
    const double begin_s = nowSeconds();
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; ++i) sum += read(random.next() >> 8);
    return rateOf(count, begin_s, sum);
  }

 private:
  static double rateOf(uint64_t count, double begin_s, uint64_t result) {
    asm volatile("" : : "r"(result));  // or the reads would be for nothing, and left out
    return static_cast<double>(count) / (nowSeconds() - begin_s) / 1e6;
  }

  std::unique_ptr<IndexMemory> memory_;
  std::span<Line> lines_;
};

/// The longest of the reads of a thread on its core, in us, while this thread does `work`.
template <typename Work>
double longestReadUs(const Filled& memory, const Tsc& tsc, Work&& work) {
  std::atomic<bool> stop{false};
  std::atomic<bool> reads{false};
  uint64_t longest = 0;
  std::thread reader([&] {
    pinTo(kClientCore);
    SplitMix random{9};
    uint64_t sum = 0;
    while (!stop.load(std::memory_order_relaxed)) {
      const uint64_t begin = Tsc::now();
      sum += memory.read(random.next() >> 8);
      longest = std::max(longest, Tsc::now() - begin);
      reads.store(true, std::memory_order_relaxed);
    }
    asm volatile("" : : "r"(sum));
  });
  while (!reads.load()) std::this_thread::yield();
  work();
  stop.store(true);
  reader.join();
  return tsc.ns(longest) / 1000;
}

/// The cost of putting one memory into huge pages.
struct Collapsing {
  std::vector<double> step_us;
  double longest_read_us = 0;
  double longest_read_idle_us = 0;
};

Collapsing collapseBesideReader(Filled& memory, const Tsc& tsc) {
  Collapsing out;
  double seconds = 0;
  out.longest_read_us = longestReadUs(memory, tsc, [&] {
    const double begin_s = nowSeconds();
    for (double before_s = begin_s; memory.collapseNext(); before_s = nowSeconds()) {
      out.step_us.push_back((nowSeconds() - before_s) * 1e6);
    }
    seconds = nowSeconds() - begin_s;
  });
  out.longest_read_idle_us = longestReadUs(memory, tsc, [&] {
    for (const double begin_s = nowSeconds(); nowSeconds() - begin_s < seconds;) {
    }
  });
  return out;
}

void run(const Options& options) {
  const Tsc tsc;
  const uint64_t bytes = options.mb << 20;
  const uint64_t reads = bytes / sizeof(Line) * 2;
  Report report("index_pages");
  pinTo(kServerCore);
  const Filled small(bytes);
  std::vector<double> step, step_longest, longest, longest_idle, chained_small, chained, independent_small, independent;
  for (int round = 0; round < options.rounds; ++round) {
    Filled huge(bytes);
    const Collapsing collapsing = collapseBesideReader(huge, tsc);
    step.push_back(quantile(collapsing.step_us, 0.5));
    step_longest.push_back(quantile(collapsing.step_us, 1));
    longest.push_back(collapsing.longest_read_us);
    longest_idle.push_back(collapsing.longest_read_idle_us);
    const SplitMix random{static_cast<uint64_t>(round) + 1};
    chained_small.push_back(small.chainedRate(reads));
    chained.push_back(huge.chainedRate(reads));
    independent_small.push_back(small.independentRate(reads, random));
    independent.push_back(huge.independentRate(reads, random));
  }
  report.figure("collapsing 2 MB, median of a round", "us", step);
  report.figure("collapsing 2 MB, longest of a round", "us", step_longest);
  report.figure("longest read meanwhile", "us", longest);
  report.figure("longest read meanwhile, worst of all rounds", "us", {quantile(longest, 1)});
  report.figure("longest read in as much time without", "us", longest_idle);
  report.figure("longest read without, worst of all rounds", "us", {quantile(longest_idle, 1)});
  report.figure("chained reads, small pages", "M/s", chained_small);
  report.figure("chained reads: huge / small", "", ratios(chained, chained_small));
  report.figure("independent reads, small pages", "M/s", independent_small);
  report.figure("independent reads: huge / small", "", ratios(independent, independent_small));
  report.isNoisy("chained reads in small pages", chained_small);
  report.finish(options.rounds);
}

}  // namespace
}  // namespace ramcore::bench

int main(int argc, char** argv) {
  using namespace ramcore::bench;
  Options options;
  Flags flags;
  flags.number("--mb", options.mb);
  flags.number("--rounds", options.rounds);
  flags.flag("--smoke", [&] { options = {.mb = 8, .rounds = 1}; });
  flags.parse(argc, argv);
  if (options.mb < 2 || options.rounds < 1) die("at least --mb 2 and --rounds 1");
  run(options);
  return 0;
}
