// rcbench: puts load on a Ramcore cluster and reports throughput and latency.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/tablets/table_manager.h"
#include "runtime/real/system_clock.h"
#include "tools/rcbench/load_loop.h"
#include "tools/support/cluster_flags.h"
#include "tools/support/command_line.h"
#include "tools/support/process.h"
#include "tools/support/standard_output.h"

namespace {

using namespace ramcore;
using namespace ramcore::rcbench;

constexpr const char* kProgram = "rcbench";

volatile sig_atomic_t interrupted = 0;
void onSignal(int number) {
  interrupted = interrupted + 1;
  // A third signal ends the process at once, whatever keeps it, and without a report.
  if (interrupted > 2) _exit(128 + number);
}

/// Checks for a number from `least` to `most`. CLI11's own check lets text pass that is no number.
std::function<std::string(const std::string&)> numberBetween(double least, double most) {
  return [=](const std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (end != text.c_str() && *end == '\0' && value >= least && value <= most) return "";
    char range[80];
    std::snprintf(range, sizeof range, "%g to %g", least, most);
    return "'" + text + "' is no number from " + range;
  };
}

/// The same, or 0.
std::function<std::string(const std::string&)> zeroOrBetween(double least, double most) {
  return [=](const std::string& text) -> std::string {
    if (numberBetween(0, 0)(text).empty()) return "";
    const std::string wrong = numberBetween(least, most)(text);
    return wrong.empty() ? "" : wrong + ", or 0";
  };
}

// Bounds of what a run may keep in memory.
constexpr uint64_t kOperationsInFlightMax = 262'144;
constexpr double kBytesInFlightMax = 8.0 * (1ULL << 30);
constexpr double kIntervalsMax = 1'000'000;
constexpr double kRateMin = 0.001;
constexpr double kSeriesMin = 0.001;

/// Values of flags that are not settings themselves.
struct Flags {
  tools::ClusterFlags cluster;
  Settings settings;
  std::string workload;
  double read_ratio = 0.95;
  std::string distribution = "zipfian";
  std::string transport = "any";
  uint32_t tablets = 0;
  bool no_load = false;
  bool load_only = false;
  bool csv = false;
  bool json = false;
  bool busy_poll = false;
  std::string announce;
};

// Declares the flags of the table and of what is in it.
void declareTable(tools::Command& app, Flags& flags) {
  Settings& settings = flags.settings;
  app.addOption("--table", settings.table, "Table to use; made if there is none").showDefault();
  app.addOption("--tablets", flags.tablets, "Tablets of a table that is made; 0: one per server")
      .showDefault()
      .inRange(0U, coordinator::TableManager::kTabletsPerTableMax);
  app.addOption("--records", settings.record_count, "Records in the table")
      .showDefault()
      .inRange(uint64_t{1}, uint64_t{1'000'000'000'000});
  app.addOption("--key-bytes", settings.key_bytes, "Length of a key in bytes")
      .showDefault()
      .inRange(uint32_t{2}, static_cast<uint32_t>(kKeyBytesLimit));
  const tools::Option value_bytes = app.addOption("--value-bytes", settings.value_bytes, "Length of a value in bytes")
                                        .showDefault()
                                        .inRange(uint32_t{0}, static_cast<uint32_t>(kValueBytesLimit));
  const tools::Option value_mix =
      app.addOption("--value-mix", settings.value_mix,
                    "In place of --value-bytes: lengths of values are drawn from ranges with shares, FIRST-LAST:SHARE, "
                    "separated by commas, as 50-150:80,1000-2000:20")
          .typeName("MIX")
          .excludes(value_bytes);
  app.addOption("--value-mix-later", settings.value_mix_later,
                "With --value-mix: the ranges from the middle of the measured part on")
      .typeName("MIX")
      .needs(value_mix);
}

// Declares the flags that say which operations there are, on which records.
void declareMix(tools::Command& app, Flags& flags) {
  Settings& settings = flags.settings;
  const tools::Option workload =
      app.addOption("--workload", flags.workload,
                    "YCSB mix: A 50 % reads 50 % updates, B 95/5, C reads, D 95 % reads of the "
                    "newest 5 % inserts, E 95 % scans 5 % inserts, F 50 % reads 50 % "
                    "read-modify-writes")
          .oneOfInAnyCase({"A", "B", "C", "D", "E", "F"});
  tools::Option ratio = app.addOption("--read-ratio", flags.read_ratio, "Share of reads, 0 to 1; the rest are updates")
                            .showDefault()
                            .check(numberBetween(0.0, 1.0));
  ratio.excludes(workload);
  app.addOption("--distribution", flags.distribution,
                "Which records are taken: uniform or zipfian (workload D: always the newest)")
      .showDefault()
      .oneOf({"uniform", "zipfian"});
  app.addOption("--skew", settings.skew, "Exponent of the zipfian distribution, above 0 and below 1")
      .showDefault()
      .check(numberBetween(0.01, 0.999));
  app.addOption("--batch", settings.batch, "Keys of one read; above 1 the reads are multi-reads")
      .showDefault()
      .inRange(1, 4096);
  app.addOption("--scan-objects", settings.scan_objects,
                "Most objects of one scan; each scan draws its length from 1 to this number. Scans go in the order of "
                "key hashes")
      .showDefault()
      .inRange(1, 100'000);
}

// Declares the flags that say how much load there is, and for how long.
void declareLoad(tools::Command& app, Flags& flags) {
  Settings& settings = flags.settings;
  app.addOption("--connections", settings.connections, "Clients, each with its own connections and lease")
      .showDefault()
      .inRange(1, 4096);
  app.addOption("--outstanding", settings.outstanding,
                "Operations in flight on each of these clients; in an open loop the most that may be in flight "
                "(default there: 64)")
      .showDefault()
      .inRange(1, 16384);
  app.addOption("--rate", settings.rate,
                "Open loop: operations per second in total, latency counted from when each was due; 0: closed loop")
      .showDefault()
      .check(zeroOrBetween(kRateMin, 1e9));
  app.addOption("--warmup-s", settings.warmup_s, "Seconds of load before the measurement")
      .showDefault()
      .check(numberBetween(0.0, 86400.0));
  app.addOption("--duration-s", settings.duration_s, "Seconds that are measured")
      .showDefault()
      .check(numberBetween(0.001, 1e6));
  app.addOption("--operations", settings.operations_max, "End after this many measured operations; 0: no such end")
      .showDefault()
      .check(tools::wholeNumber());
  app.addOption("--timeout-ms", settings.timeout_ms, "Milliseconds that one operation may take, retries included")
      .showDefault()
      .inRange(1, 3'600'000);
  app.addOption("--seed", settings.seed, "Seed of keys and mixes").showDefault().check(tools::wholeNumber());
  app.addFlag("--busy-poll", flags.busy_poll, "Never sleep; for a processor that belongs to rcbench alone");
}

// Declares the flags that say which parts the run has, and what is reported.
void declareCourse(tools::Command& app, Flags& flags) {
  Settings& settings = flags.settings;
  const tools::Option no_load = app.addFlag("--no-load", flags.no_load, "The records are there: do not write them");
  app.addFlag("--load-only", flags.load_only, "Write the records and end").excludes(no_load);
  app.addFlag("--drop", settings.drop, "Drop the table at the end");

  app.addOption("--series-s", settings.series_s, "Also a time series with intervals of this many seconds; 0: none")
      .showDefault()
      .check(zeroOrBetween(kSeriesMin, 86400.0));
  app.addOption("--announce", flags.announce, "Write a line to this file or pipe when the measurement begins")
      .typeName("FILE");
  const tools::Option csv = app.addFlag("--csv", flags.csv, "Print CSV instead of a table");
  app.addFlag("--json", flags.json, "Print JSON instead of a table").excludes(csv);
}

// Declares all flags, in the order in which the help shows them.
void declare(tools::Command& app, Flags& flags) {
  flags.cluster.addTo(app);
  app.addOption("--transport", flags.transport, "Use only this transport: any, tcp, shm, verbs or dpdk")
      .showDefault()
      .oneOf({"any", "tcp", "shm", "verbs", "dpdk"});
  declareTable(app, flags);
  declareMix(app, flags);
  declareLoad(app, flags);
  declareCourse(app, flags);
}

Outcome<bool> settleValues(Settings& settings) {
  settings.value_sizes = ValueSizes(settings.value_bytes);
  if (!settings.value_mix.empty()) {
    Outcome<ValueSizes> sizes = ValueSizes::parse(settings.value_mix, static_cast<uint32_t>(kValueBytesLimit));
    if (!sizes) return sizes.error();
    settings.value_sizes = *sizes;
    settings.value_bytes = sizes->bytesMean();
  }
  settings.later_sizes = settings.value_sizes;
  if (settings.value_mix_later.empty()) return true;
  Outcome<ValueSizes> later = ValueSizes::parse(settings.value_mix_later, static_cast<uint32_t>(kValueBytesLimit));
  if (!later) return later.error();
  settings.later_sizes = *later;
  return true;
}

/// Refuses what would take more memory than a machine has to spare.
Outcome<bool> checkMemory(const Settings& settings) {
  if (settings.series_s > 0 && settings.duration_s / settings.series_s > kIntervalsMax) {
    return Failure{Status::BadConfig, "--series-s makes more than 1000000 intervals of --duration-s: raise it"};
  }
  const uint64_t in_flight = uint64_t{settings.connections} * settings.outstanding;
  if (in_flight > kOperationsInFlightMax) {
    return Failure{Status::BadConfig, "--connections and --outstanding make " + std::to_string(in_flight) +
                                          " operations in flight, more than " + std::to_string(kOperationsInFlightMax) +
                                          ": lower one of them"};
  }
  const double object_bytes =
      settings.key_bytes + std::max(settings.value_sizes.bytesMax(), settings.later_sizes.bytesMax());
  const double bytes = static_cast<double>(in_flight) * object_bytes *
                       std::max(settings.batch, settings.mix.has(Kind::Scan) ? settings.scan_objects : 1);
  if (bytes > kBytesInFlightMax) {
    return Failure{Status::BadConfig,
                   "all operations in flight may have " + std::to_string(static_cast<uint64_t>(bytes / (1 << 20))) +
                       " MiB of keys and values, more than 8192: lower --outstanding, --connections, "
                       "--batch, --scan-objects or the size of values"};
  }
  return true;
}

/// Turns flags into settings; an error is one line.
Outcome<bool> settle(const tools::Command& app, Flags& flags) {
  Settings& settings = flags.settings;
  if (!flags.workload.empty()) {
    const char letter = static_cast<char>(std::toupper(flags.workload.front()));
    settings.mix = Mix::ycsb(letter);
    settings.workload = std::string("YCSB ") + letter;
  } else {
    settings.mix.share[static_cast<size_t>(Kind::Read)] = flags.read_ratio;
    settings.mix.share[static_cast<size_t>(Kind::Update)] = 1 - flags.read_ratio;
    char text[32];
    std::snprintf(text, sizeof text, "%g %% reads", flags.read_ratio * 100);
    settings.workload = text;
  }
  if (settings.mix.distribution != Distribution::Latest && flags.distribution == "uniform") {
    settings.mix.distribution = Distribution::Uniform;
  }
  if (settings.isOpenLoop() && !app.isGiven("--outstanding")) settings.outstanding = 64;
  settings.load = !flags.no_load;
  settings.run = !flags.load_only;
  settings.output = flags.json ? Output::Json : flags.csv ? Output::Csv : Output::Table;
  const Outcome<bool> values = settleValues(settings);
  if (!values) return values.error();
  const Outcome<bool> memory = checkMemory(settings);
  if (!memory) return memory.error();
  const uint64_t names = KeyFormat(settings.key_bytes).recordCountMax();
  // Inserts need names too; ten times the records are more than any run adds.
  if (settings.record_count > names / (settings.mix.has(Kind::Insert) ? 10 : 1)) {
    return Failure{Status::BadConfig, "keys of " + std::to_string(settings.key_bytes) +
                                          " bytes are too short to number " + std::to_string(settings.record_count) +
                                          " records: raise --key-bytes"};
  }
  return true;
}

/// False: it could not be written; errno says why.
bool announce(const std::string& file) {
  if (file.empty()) return true;
  std::FILE* const out = std::fopen(file.c_str(), "ae");
  if (out == nullptr) return false;
  const bool is_written = std::fputs("measuring\n", out) >= 0 && std::fflush(out) == 0;
  const int error = errno;
  std::fclose(out);
  errno = error;
  return is_written;
}

void choose(const std::string& transport, transport::TransportChoices& choices) {
  if (transport == "any") return;
  using Wanted = transport::TransportChoices::Wanted;
  choices.tcp = transport == "tcp";
  choices.shm = transport == "shm";
  choices.verbs = transport == "verbs" ? Wanted::Yes : Wanted::No;
}

int runBench(const Flags& flags, const tools::ClusterAccess& access) {
  const Settings& settings = flags.settings;
  runtime::SystemClock clock;
  runtime::SystemEntropy entropy;
  Trace& trace = stderrTrace(kProgram);
  trace.setLevel(TraceLevel::Off);
  transport::tcp::AsioSleeper sleeper(clock);
  const tools::ToolThread thread{.clock = clock, .entropy = entropy, .trace = trace, .sleeper = sleeper};

  std::vector<std::unique_ptr<tools::ClusterSession>> owned;
  std::vector<tools::ClusterSession*> sessions;
  for (uint32_t i = 0; i < settings.connections; ++i) {
    auto session = tools::ClusterSession::open(access, thread);
    if (!session) return tools::fail(kProgram, session.error());
    owned.push_back(std::move(session).value());
    sessions.push_back(owned.back().get());
  }
  LoadLoop loop(settings, sessions, thread, flags.busy_poll, interrupted);
  Recorder recorder(static_cast<int64_t>(settings.series_s * 1e9));
  LoadResult loaded;
  const std::string table = "table '" + settings.table + "'";
  int code = tools::kExitOk;

  Status status = loop.openTable(flags.tablets);
  if (status == Status::Ok && settings.load) status = loop.load(loaded);
  if (status != Status::Ok) {
    code = tools::fail(kProgram, tools::explain(status, table, sessions.front()->client().coordinator()));
  } else {
    if (settings.run && interrupted == 0) {
      loop.run(recorder, [&] {
        if (announce(flags.announce)) return;
        code = tools::fail(
            kProgram, {Status::IoError, "cannot write to --announce " + flags.announce + ": " + std::strerror(errno) +
                                            "; the start of the measurement is not announced"});
      });
    }
    const std::string text = report({.settings = settings, .load = loaded, .recorder = recorder});
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (recorder.failures() > 0 && code == tools::kExitOk) code = tools::kExitPartial;
    if (settings.drop) {
      status = loop.dropTable();
      if (status != Status::Ok)
        code = tools::fail(kProgram, tools::explain(status, table, sessions.front()->client().coordinator()));
    }
  }
  loop.close();
  return code;
}

int runCommand(int argc, char** argv) {
  tools::CommandLine app(
      "Puts load on a Ramcore cluster: loads a table, runs a mix of operations, reports rates and latencies", kProgram);
  Flags flags;
  declare(app, flags);
  int exit_code = 0;
  if (!tools::parseFlags(app, argc, argv, exit_code)) return exit_code;
  const Outcome<bool> settled = settle(app, flags);
  if (!settled) return tools::fail(kProgram, settled.error());
  Outcome<tools::ClusterAccess> access = flags.cluster.open(transport::Role::Client);
  if (!access) return tools::fail(kProgram, access.error());
  choose(flags.transport, access->transports);
  struct sigaction action{};
  action.sa_handler = onSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return runBench(flags, *access);
}

}  // namespace

int main(int argc, char** argv) {
  ramcore::tools::StandardOutput output(kProgram);
  return output.finish(runCommand(argc, argv));
}
