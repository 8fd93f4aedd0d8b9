#include "tools/rcbench/report.h"

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "tools/support/json.h"

namespace ramcore::rcbench {
namespace {

struct Percentile {
  std::string_view name;
  double fraction;
};
constexpr Percentile kPercentiles[] = {{"p50", 0.5},     {"p90", 0.9},       {"p99", 0.99},
                                       {"p99.9", 0.999}, {"p99.99", 0.9999}, {"max", 1.0}};

__attribute__((format(printf, 2, 3))) void print(std::string& out, const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  out += line;
}

double micros(uint64_t ns) { return static_cast<double>(ns) * 1e-3; }

std::string_view nameOf(Distribution distribution) {
  switch (distribution) {
    case Distribution::Uniform:
      return "uniform";
    case Distribution::Zipfian:
      return "zipfian";
    case Distribution::Latest:
      return "latest";
  }
  return "";
}

std::string describe(const Settings& settings) {
  std::string out;
  print(out, "%s, %s", settings.workload.c_str(), std::string(nameOf(settings.distribution())).c_str());
  if (settings.distribution() != Distribution::Uniform) print(out, " %.2f", settings.skew);
  print(out, "; %llu records of %u + %u B", static_cast<unsigned long long>(settings.record_count), settings.key_bytes,
        settings.value_bytes);
  if (!settings.value_mix.empty()) print(out, " on average (%s)", settings.value_mix.c_str());
  if (!settings.value_mix_later.empty()) print(out, ", in the second half %s", settings.value_mix_later.c_str());
  if (settings.batch > 1) print(out, "; reads of %u keys", settings.batch);
  print(out, "; %u connection%s x %u outstanding", settings.connections, settings.connections == 1 ? "" : "s",
        settings.outstanding);
  if (settings.isOpenLoop()) {
    print(out, "; open loop at %.0f/s", settings.rate);
  } else {
    print(out, "; closed loop");
  }
  return out;
}

void printRow(std::string& out, std::string_view what, uint64_t operations, double seconds,
              const LogLinearHistogram& latency_ns) {
  print(out, "%-18s %12llu %12.0f", std::string(what).c_str(), static_cast<unsigned long long>(operations),
        seconds > 0 ? static_cast<double>(operations) / seconds : 0);
  for (const Percentile& percentile : kPercentiles) {
    print(out, " %10.1f", micros(latency_ns.quantile(percentile.fraction)));
  }
  out += "\n";
}

void printErrors(std::string& out, const Recorder& recorder) {
  if (recorder.failures() == 0) {
    out += "errors: none\n";
  } else {
    print(out, "errors: %llu", static_cast<unsigned long long>(recorder.failures()));
    for (const auto& [status, count] : recorder.errors()) {
      print(out, "  %s %llu", std::string(name(status)).c_str(), static_cast<unsigned long long>(count));
    }
    out += "\n";
  }
}

void printSeries(std::string& out, const Recorder& recorder) {
  if (recorder.series().empty()) return;
  print(out, "\n%10s %12s %10s %10s %10s %10s\n", "second", "per second", "p50 us", "p99 us", "max us", "errors");
  double begin_s = 0;
  for (const Interval& interval : recorder.series()) {
    print(out, "%10.2f %12.0f %10.1f %10.1f %10.1f %10llu\n", interval.end_s,
          static_cast<double>(interval.operations) / (interval.end_s - begin_s), micros(interval.p50_ns),
          micros(interval.p99_ns), micros(interval.max_ns), static_cast<unsigned long long>(interval.failures));
    begin_s = interval.end_s;
  }
}

std::string table(const Findings& findings) {
  const Recorder& recorder = findings.recorder;
  std::string out;
  if (findings.load.records > 0) {
    print(out, "loaded %llu records in %.2f s: %.0f records/s\n",
          static_cast<unsigned long long>(findings.load.records), findings.load.seconds,
          static_cast<double>(findings.load.records) / findings.load.seconds);
  }
  if (!findings.settings.run) return out;
  print(out, "%s\nmeasured %.2f s after %.2f s of warm-up\n\n", describe(findings.settings).c_str(), recorder.seconds(),
        findings.settings.warmup_s);
  print(out, "%-18s %12s %12s", "operation", "count", "per second");
  for (const Percentile& percentile : kPercentiles) {
    print(out, " %7s us", std::string(percentile.name).c_str());
  }
  out += "\n";
  LogLinearHistogram all;
  size_t kinds = 0;
  for (size_t i = 0; i < kKindCount; ++i) {
    const auto kind = static_cast<Kind>(i);
    const KindStats& stats = recorder.of(kind);
    if (stats.operations == 0) continue;
    printRow(out, name(kind), stats.operations, recorder.seconds(), stats.latency_ns);
    all.merge(stats.latency_ns);
    ++kinds;
  }
  if (kinds != 1) printRow(out, "all", recorder.operations(), recorder.seconds(), all);
  if (findings.settings.isOpenLoop()) {
    print(out, "due %llu, done %llu\n", static_cast<unsigned long long>(recorder.due()),
          static_cast<unsigned long long>(recorder.operations()));
  }
  if (recorder.objects() != recorder.operations()) {
    print(out, "objects: %llu, %.0f/s\n", static_cast<unsigned long long>(recorder.objects()),
          static_cast<double>(recorder.objects()) / recorder.seconds());
  }
  if (recorder.misses() > 0) {
    print(out, "reads that found nothing: %llu\n", static_cast<unsigned long long>(recorder.misses()));
  }
  if (recorder.conflicts() > 0) {
    print(out, "read-modify-writes begun again after a conflict: %llu\n",
          static_cast<unsigned long long>(recorder.conflicts()));
  }
  printErrors(out, recorder);
  printSeries(out, recorder);
  return out;
}

void csvRow(std::string& out, const Settings& settings, std::string_view what, uint64_t operations, uint64_t objects,
            uint64_t errors, double seconds, const LogLinearHistogram& latency_ns) {
  print(out, "%s,%s,%s,%u,%u,%u,%.0f,%llu,%llu,%llu,%.3f,%.1f", settings.workload.c_str(),
        std::string(nameOf(settings.distribution())).c_str(), std::string(what).c_str(), settings.connections,
        settings.outstanding, settings.batch, settings.rate, static_cast<unsigned long long>(operations),
        static_cast<unsigned long long>(objects), static_cast<unsigned long long>(errors), seconds,
        seconds > 0 ? static_cast<double>(operations) / seconds : 0);
  for (const Percentile& percentile : kPercentiles) {
    print(out, ",%.3f", micros(latency_ns.quantile(percentile.fraction)));
  }
  out += "\n";
}

std::string csv(const Findings& findings) {
  const Recorder& recorder = findings.recorder;
  std::string out =
      "workload,distribution,operation,connections,outstanding,batch,rate,operations,objects,errors,seconds,"
      "operations_per_s";
  for (const Percentile& percentile : kPercentiles) print(out, ",%s_us", std::string(percentile.name).c_str());
  out += "\n";
  LogLinearHistogram all;
  for (size_t i = 0; i < kKindCount; ++i) {
    const auto kind = static_cast<Kind>(i);
    const KindStats& stats = recorder.of(kind);
    if (stats.operations == 0) continue;
    csvRow(out, findings.settings, name(kind), stats.operations, stats.objects, 0, recorder.seconds(),
           stats.latency_ns);
    all.merge(stats.latency_ns);
  }
  csvRow(out, findings.settings, "all", recorder.operations(), recorder.objects(), recorder.failures(),
         recorder.seconds(), all);
  return out;
}

tools::Json latencyJson(const LogLinearHistogram& latency_ns) {
  tools::Json latency;
  for (const Percentile& percentile : kPercentiles) {
    latency[std::string(percentile.name)] = micros(latency_ns.quantile(percentile.fraction));
  }
  return latency;
}

std::string json(const Findings& findings) {
  const Settings& settings = findings.settings;
  const Recorder& recorder = findings.recorder;
  tools::Json out;
  out["workload"] = settings.workload;
  out["distribution"] = nameOf(settings.distribution());
  out["skew"] = settings.skew;
  out["records"] = settings.record_count;
  out["key_bytes"] = settings.key_bytes;
  out["value_bytes"] = settings.value_bytes;
  if (!settings.value_mix.empty()) out["value_mix"] = settings.value_mix;
  if (!settings.value_mix_later.empty()) out["value_mix_later"] = settings.value_mix_later;
  out["connections"] = settings.connections;
  out["outstanding"] = settings.outstanding;
  out["batch"] = settings.batch;
  out["rate"] = settings.rate;
  if (findings.load.records > 0) {
    out["load"] = {{"records", findings.load.records}, {"seconds", findings.load.seconds}};
  }
  out["seconds"] = recorder.seconds();
  out["operations"] = recorder.operations();
  if (settings.isOpenLoop()) out["due"] = recorder.due();
  out["objects"] = recorder.objects();
  out["operations_per_s"] =
      recorder.seconds() > 0 ? static_cast<double>(recorder.operations()) / recorder.seconds() : 0;
  LogLinearHistogram all;
  tools::Json kinds = tools::Json::object();
  for (size_t i = 0; i < kKindCount; ++i) {
    const auto kind = static_cast<Kind>(i);
    const KindStats& stats = recorder.of(kind);
    if (stats.operations == 0) continue;
    kinds[std::string(name(kind))] = {
        {"operations", stats.operations}, {"objects", stats.objects}, {"latency_us", latencyJson(stats.latency_ns)}};
    all.merge(stats.latency_ns);
  }
  out["latency_us"] = latencyJson(all);
  out["kinds"] = kinds;
  out["misses"] = recorder.misses();
  out["conflicts"] = recorder.conflicts();
  tools::Json errors = tools::Json::object();
  for (const auto& [status, count] : recorder.errors()) errors[std::string(name(status))] = count;
  out["errors"] = errors;
  tools::Json series = tools::Json::array();
  for (const Interval& interval : recorder.series()) {
    series.append({{"end_s", interval.end_s},
                   {"operations", interval.operations},
                   {"errors", interval.failures},
                   {"p50_us", micros(interval.p50_ns)},
                   {"p99_us", micros(interval.p99_ns)},
                   {"max_us", micros(interval.max_ns)}});
  }
  if (settings.series_s > 0) out["series"] = series;
  return out.dump(2) + "\n";
}

}  // namespace

std::string report(const Findings& findings) {
  switch (findings.settings.output) {
    case Output::Table:
      return table(findings);
    case Output::Csv:
      return csv(findings);
    case Output::Json:
      return json(findings);
  }
  return {};
}

}  // namespace ramcore::rcbench
