// The cost of cleaning for writers: overwrites of a store in this process whose memory is filled to a share with live
// objects, one thread that writes and cleans in turns, no network, no copies.
//
//   bench_cleaning [--memory-mb N] [--overwrites N] [--seconds N] [--live-percent-max N] [--utilizations LIST]
//                  [--sizes LIST] [--distributions LIST] [--cleaners N] [--smoke]
//
// With --cleaners it measures something else: what 1 .. N threads copy that share the passes of one cleaner, in a
// second, while nobody writes; values are 100 B, and the first of --utilizations counts.
//
// Utilization is the share of the log's memory that the objects themselves take, header and padding included. After the
// fill the memory is overwritten once unmeasured, then `--overwrites` times; each phase ends after `--seconds` at the
// latest. Whenever the background work has something to do, one slice of it precedes each write: a write's time counts
// from before that slice. Mixed sizes are 50 to 150 B (80 %) and 1000 to 2000 B in the first half of what is measured,
// 280 to 480 B, with the same mean, in the second.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/histogram.h"
#include "bench/support/copying_rate.h"
#include "bench/support/flags.h"
#include "bench/support/inline_executor.h"
#include "bench/support/local_store.h"
#include "bench/support/machine.h"
#include "bench/support/workload.h"
#include "bench/support/zipfian.h"
#include "log/cleaning/cleaner.h"
#include "runtime/real/system_clock.h"
#include "store/maintenance.h"

namespace ramcore::bench {
namespace {

constexpr double kSkew = 0.99;
// How long writes may be refused before the memory counts as too full for the utilization.
constexpr double kRefusedSeconds = 2;
constexpr ClientId kClient{1};

struct Options {
  uint64_t memory_mb = 1024;
  double overwrites = 1;
  double seconds = 60;
  int live_percent_max = static_cast<int>(log::LogConfig().live_percent_max);
  std::string utilizations = "30,50,70,80,90,95";
  std::string sizes = "100,1000,mixed";
  std::string distributions = "uniform,zipfian";
  int cleaners = 0;
};

std::vector<std::string> parts(const std::string& list) {
  std::vector<std::string> out;
  std::stringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) out.push_back(part);
  return out;
}

/// Lengths of values, before and after the change in the middle.
class Lengths {
 public:
  explicit Lengths(const std::string& name) : mixed_(name == "mixed"), bytes_(std::atoi(name.c_str())) {
    if (!mixed_ && (bytes_ < 1 || bytes_ > kBytesMax)) die("a size is 'mixed' or 1 to 2000, not '" + name + "'");
  }
  static constexpr int kBytesMax = 2000;
  uint32_t draw(runtime::Random& random, bool second_half) const {
    if (!mixed_) return static_cast<uint32_t>(bytes_);
    if (second_half) return static_cast<uint32_t>(random.between(280, 480));
    return static_cast<uint32_t>(random.below(100) < 80 ? random.between(50, 150) : random.between(1000, 2000));
  }
  /// Of an object, on average, as it lies in the log.
  double meanEntryBytes() const {
    if (!mixed_) return static_cast<double>(entryBytes(static_cast<uint32_t>(bytes_)));
    return 0.8 * meanOf(50, 150) + 0.2 * meanOf(1000, 2000);
  }

 private:
  static uint32_t entryBytes(uint32_t value_bytes) { return log::alignedEntryBytes(kKeyBytes, value_bytes, false); }
  static double meanOf(uint32_t first, uint32_t last) {
    double sum = 0;
    for (uint32_t bytes = first; bytes <= last; ++bytes) sum += entryBytes(bytes);
    return sum / (last - first + 1);
  }

  const bool mixed_;
  const int bytes_;
};

struct Point {
  std::string sizes;
  std::string distribution;
  int utilization = 0;
  bool refused = false;
  bool cut = false;  ///< the time was over before the memory had been overwritten as often as asked for
  double live_percent = 0;
  double writes_per_s = 0;
  double copied_per_byte = 0;
  double p50_us = 0;
  double p999_us = 0;
};

class Run {
 public:
  Run(const Options& options, const log::LogConfig& config, const Keys& keys, uint64_t objects, const Lengths& lengths,
      bool zipfian)
      : seconds_max_(options.seconds),
        keys_(keys),
        objects_(objects),
        lengths_(lengths),
        random_(7),
        value_(Lengths::kBytesMax, 'v'),
        store_(config, objects),
        cleaner_(store_.log(), store_.store(), store_.log().replicator()),
        maintenance_(executor_, {store_.log(), cleaner_, store_.store(), store_.index(), store_.rcu()}) {
    if (zipfian) zipfian_.emplace(std::max<uint64_t>(objects, 3), kSkew);
    store_.serve(kClient);
  }
  ~Run() {
    maintenance_.stop();
    maintenance_.wake();
    while (!maintenance_.stopped()) turn();
  }

  /// Writes every object once. False: they do not fit.
  bool fill() {
    for (uint64_t i = 0; i < objects_; ++i) {
      if (!write(i, false)) return false;
    }
    return true;
  }
  /// Overwrites until the log has taken `bytes` more. False: refused.
  bool overwrite(uint64_t bytes, bool measured, Point& point) {
    const log::LogStats& stats = store_.log().stats();
    const uint64_t appended_before = stats.appended_bytes.load();
    const uint64_t copied_before = stats.cleaner_bytes_copied.load();
    LogLinearHistogram ticks;
    const double begin_s = nowSeconds();
    double seconds = 0;
    uint64_t writes = 0;
    uint64_t appended = 0;
    while (appended < bytes && seconds < seconds_max_) {
      const bool second_half = measured && (appended >= bytes / 2 || seconds >= seconds_max_ / 2);
      for (int i = 0; i < 256; ++i) {
        const uint64_t number = zipfian_ ? zipfian_->next(random_) % objects_ : random_.below(objects_);
        const uint64_t begin = Tsc::now();
        if (!write(number, second_half)) return false;
        ticks.record(Tsc::now() - begin);
      }
      writes += 256;
      appended = stats.appended_bytes.load() - appended_before;
      seconds = nowSeconds() - begin_s;
    }
    point.cut = point.cut || appended < bytes;
    point.live_percent =
        100 * static_cast<double>(stats.live_bytes.load()) / static_cast<double>(store_.log().config().memory_bytes);
    point.writes_per_s = static_cast<double>(writes) / seconds;
    point.copied_per_byte =
        static_cast<double>(stats.cleaner_bytes_copied.load() - copied_before) / static_cast<double>(appended);
    point.p50_us = tsc_.ns(ticks.quantile(0.5)) / 1000;
    point.p999_us = tsc_.ns(ticks.quantile(0.999)) / 1000;
    return true;
  }

 private:
  void turn() {
    executor_.runOne();
    store_.turn();
  }

  bool write(uint64_t number, bool second_half) {
    const std::string_view key = keys_.at(number);
    const ByteSpan value = asBytes(value_).first(lengths_.draw(random_, second_half));
    store::Mutation mutation;
    mutation.opcode = wire::Opcode::Write;
    mutation.identity = {kClient, Sequence(sequence_), Sequence(sequence_ - 1)};
    mutation.epoch = LocalStore::kEpoch;
    mutation.table = LocalStore::kTable;
    mutation.key = asBytes(key);
    mutation.hash = hashKey(LocalStore::kTable, mutation.key);
    mutation.value = std::span(&value, 1);
    double refused_since_s = 0;
    for (;;) {
      turn();
      const store::Answer answer = *store_.store().apply(mutation, store::ObjectStore::Locking::Wait);
      if (answer.status == Status::Ok) break;
      if (!isRetryable(answer.status)) die("a write was answered " + std::string(name(answer.status)));
      maintenance_.wake();
      const double now_s = nowSeconds();
      if (refused_since_s == 0) refused_since_s = now_s;
      if (now_s - refused_since_s > kRefusedSeconds) return false;
    }
    ++sequence_;
    if (maintenance_.isDue()) maintenance_.wake();
    return true;
  }

  const double seconds_max_;
  const Keys& keys_;
  const uint64_t objects_;
  const Lengths& lengths_;
  runtime::Random random_;
  std::optional<Zipfian> zipfian_;
  const std::string value_;
  uint64_t sequence_ = 1;
  const Tsc tsc_;
  runtime::SystemClock clock_;
  InlineExecutor executor_{clock_};
  LocalStore store_;
  log::Cleaner cleaner_;
  store::Maintenance maintenance_;
};

Point measure(const Options& options, const log::LogConfig& config, const Lengths& lengths, Point point) {
  const auto objects = static_cast<uint64_t>(static_cast<double>(config.memory_bytes) / 100 * point.utilization /
                                             lengths.meanEntryBytes());
  const Keys keys(objects, 3);
  Run run(options, config, keys, objects, lengths, point.distribution == "zipfian");
  const auto measured_bytes = static_cast<uint64_t>(static_cast<double>(config.memory_bytes) * options.overwrites);
  point.refused =
      !run.fill() || !run.overwrite(config.memory_bytes, false, point) || !run.overwrite(measured_bytes, true, point);
  return point;
}

std::string jsonOf(const Point& point, double ratio) {
  char text[400];
  std::snprintf(text, sizeof text,
                "{\"sizes\":\"%s\",\"distribution\":\"%s\",\"utilization\":%d,\"refused\":%s,\"cut\":%s,"
                "\"writes_per_s\":%.0f,\"ratio\":%.3f,\"copied_per_byte\":%.3f,\"p50_us\":%.2f,\"p999_us\":%.2f}",
                point.sizes.c_str(), point.distribution.c_str(), point.utilization, point.refused ? "true" : "false",
                point.cut ? "true" : "false", point.refused ? 0 : point.writes_per_s, ratio, point.copied_per_byte,
                point.p50_us, point.p999_us);
  return text;
}

/// One size and distribution at all utilizations; ratios are to the first of them.
void measureCurve(const Options& options, const log::LogConfig& config, const std::string& sizes,
                  const std::string& distribution, std::string& json) {
  const Lengths lengths(sizes);
  std::printf("\n%s%s, %s\n%12s %8s %12s %8s %12s %9s %10s\n", sizes.c_str(), sizes == "mixed" ? "" : " B",
              distribution.c_str(), "utilization", "live", "writes/s", "ratio", "copied B/B", "p50 us", "p99.9 us");
  double first = 0;
  for (const std::string& utilization : parts(options.utilizations)) {
    const Point point = measure(options, config, lengths,
                                {.sizes = sizes,
                                 .distribution = distribution,
                                 .utilization = std::clamp(std::atoi(utilization.c_str()), 1, 99)});
    if (first == 0 && !point.refused) first = point.writes_per_s;
    const double ratio = point.refused || first == 0 ? 0 : point.writes_per_s / first;
    if (point.refused) {
      std::printf("%11d%% refused: NoSpace\n", point.utilization);
    } else {
      std::printf("%11d%% %7.1f%% %12.0f %8.2f %12.2f %9.2f %10.1f%s\n", point.utilization, point.live_percent,
                  point.writes_per_s, ratio, point.copied_per_byte, point.p50_us, point.p999_us,
                  point.cut ? "  cut short" : "");
    }
    std::fflush(stdout);
    json += (json.empty() ? "" : ",") + jsonOf(point, ratio);
  }
}

int measureCopying(const Options& options, const log::LogConfig& config) {
  const int utilization = std::clamp(std::atoi(options.utilizations.c_str()), 1, 90);
  std::printf("\n%d%% in use\n%9s %9s %9s %8s\n", utilization, "cleaners", "MB/s", "MB", "shared");
  std::string json;
  for (int cleaners = 1; cleaners <= options.cleaners; ++cleaners) {
    const auto run =
        std::make_unique<CopyingRun>(config, static_cast<uint32_t>(utilization), static_cast<uint32_t>(cleaners));
    const CopyingRate rate = run->measure();
    std::printf("%9d %9.0f %9.0f %7.0f%%\n", cleaners, rate.mbPerSecond(), static_cast<double>(rate.copied_bytes) / 1e6,
                rate.sharedPercent());
    std::fflush(stdout);
    char text[160];
    std::snprintf(text, sizeof text, "%s{\"cleaners\":%d,\"copied_mb_per_s\":%.0f,\"shared_percent\":%.0f}",
                  json.empty() ? "" : ",", cleaners, rate.mbPerSecond(), rate.sharedPercent());
    json += text;
  }
  std::printf("json {\"bench\":\"cleaning\",\"memory_bytes\":%llu,\"copying\":[%s]}\n",
              static_cast<unsigned long long>(config.memory_bytes), json.c_str());
  return 0;
}

int runAll(int argc, char** argv) {
  Options options;
  Flags flags;
  flags.number("--memory-mb", options.memory_mb);
  flags.number("--overwrites", options.overwrites);
  flags.number("--seconds", options.seconds);
  flags.number("--live-percent-max", options.live_percent_max);
  flags.number("--cleaners", options.cleaners);
  flags.text("--utilizations", options.utilizations);
  flags.text("--sizes", options.sizes);
  flags.text("--distributions", options.distributions);
  flags.flag("--smoke", [&] {
    options.memory_mb = 128;
    options.seconds = 0.3;
    options.utilizations = "30,50";
    options.sizes = "mixed";
    options.distributions = "zipfian";
  });
  flags.parse(argc, argv);
  pinTo(kClientCore);
  log::LogConfig config;
  config.memory_bytes = options.memory_mb << 20;
  config.live_percent_max = static_cast<uint32_t>(options.live_percent_max);
  if (const auto valid = config.validate(); !valid.ok()) die(valid.error().message);
  std::printf("cleaning: %llu MB of memory, live bytes at most %.1f %% of it\n",
              static_cast<unsigned long long>(options.memory_mb),
              100 * static_cast<double>(config.liveBytesMax()) / static_cast<double>(config.memory_bytes));
  if (options.cleaners > 0) return measureCopying(options, config);
  std::string json;
  for (const std::string& sizes : parts(options.sizes)) {
    for (const std::string& distribution : parts(options.distributions)) {
      if (distribution != "uniform" && distribution != "zipfian") die("no distribution is called " + distribution);
      measureCurve(options, config, sizes, distribution, json);
    }
  }
  std::printf("json {\"bench\":\"cleaning\",\"memory_bytes\":%llu,\"points\":[%s]}\n",
              static_cast<unsigned long long>(config.memory_bytes), json.c_str());
  return 0;
}

}  // namespace
}  // namespace ramcore::bench

int main(int argc, char** argv) { return ramcore::bench::runAll(argc, argv); }
