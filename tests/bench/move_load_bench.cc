// Load on a table while a tablet moves, as a client of the cluster sees it: migration_bench.py runs it.
//
//   bench_move_load --coordinator LOCATOR --table NAME --records N --load
//   bench_move_load --coordinator LOCATOR --table NAME --records N [--move NAME --to SERVER] ...
//
// --load writes the records and ends. --idle moves the tablet while nobody calls. Else: reads and overwrites of records
// that are chosen uniformly, or by --zipfian, --outstanding at a time, or --rate per second. For --seconds nothing
// moves; then the one tablet of the table --move goes to the server
// --to, and the load goes on until a moment after the move is over. Without --move the second part is as the first.
// Prints one line of JSON: latencies of both parts, the longest times without an answer, and when the coordinator was
// at which step of the move; with --line-ms also the latencies of each so many milliseconds. Times begin with the move.
#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "bench/support/child.h"
#include "bench/support/flags.h"
#include "bench/support/workload.h"
#include "bench/support/zipfian.h"
#include "client/cluster_client.h"
#include "runtime/await.h"
#include "runtime/real/system_clock.h"
#include "tools/support/cluster_session.h"

namespace ramcore::bench {
namespace {

using client::MigrationStatus;
using runtime::Task;

constexpr double kNsPerMs = 1e6;
constexpr int64_t kStatusPauseNs = 2 * runtime::kNanosPerMilli;
constexpr int64_t kWarmUpNs = 300 * runtime::kNanosPerMilli;
constexpr int64_t kAfterNs = 500 * runtime::kNanosPerMilli;
constexpr int64_t kCallNs = 30 * runtime::kNanosPerSecond;
constexpr int64_t kMoveNs = 120 * runtime::kNanosPerSecond;

struct Settings {
  std::string coordinator;
  std::string cluster = "ramcore";
  std::string transport = "tcp";
  std::string table;
  std::string move;
  std::string to;
  uint64_t records = 1'000'000;
  int outstanding = 64;
  int reads_percent = 95;
  double rate = 0;  // calls per second, whose latency counts from when each was due; 0: the next when one has ended
  double seconds = 2;
  uint64_t seed = 1;
  uint64_t value_bytes = kValueBytes;
  double zipfian = 0;  // skew of the choice of keys; 0: uniform
  int line_ms = 0;
  bool load = false;
  bool idle = false;
};

enum Kind : size_t { kRead, kWrite, kKinds };
constexpr std::array<const char*, kKinds> kKindNames = {"read", "write"};

struct Longest {
  int64_t begin_ns = 0;
  int64_t ns = 0;
};

/// What was seen of the calls that began in one part of the run, whenever they ended.
struct Part {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::array<LogLinearHistogram, kKinds> latency_ns;
  std::array<Longest, kKinds> call;
};

/// A step of the move: not yet at `before_ns`, and since then at `seen_ns` at the latest.
struct Step {
  std::string name;
  int64_t before_ns = 0;
  int64_t seen_ns = 0;
};

/// The longest time without an answer of one kind that touches [first_ns, last_ns].
Longest longestGap(const std::vector<int64_t>& answered_ns, int64_t first_ns, int64_t last_ns) {
  Longest longest;
  for (size_t i = 1; i < answered_ns.size(); ++i) {
    const int64_t begin_ns = answered_ns[i - 1];
    if (answered_ns[i] < first_ns || begin_ns > last_ns) continue;
    if (answered_ns[i] - begin_ns > longest.ns) longest = {begin_ns, answered_ns[i] - begin_ns};
  }
  return longest;
}

class MoveLoad {
 public:
  explicit MoveLoad(const Settings& settings)
      : settings_(settings),
        keys_(settings.records, settings.seed),
        zipfian_(settings.zipfian > 0 ? std::make_optional<Zipfian>(settings.records, settings.zipfian) : std::nullopt),
        sleeper_(clock_),
        thread_{.clock = clock_, .entropy = entropy_, .trace = silentTrace(), .sleeper = sleeper_},
        session_(open(transport::Role::Client)),
        admin_(open(transport::Role::Admin)) {}

  void run() {
    const Result<TableId> table = await(session_->client().openTable(settings_.table, deadlineNs()));
    if (!table) die("table '" + settings_.table + "': " + std::string(name(table.error())));
    table_ = *table;
    findTablet();
    std::vector<Task<void>> tasks;
    const runtime::Random random(settings_.seed);
    for (int i = 0; i < settings_.outstanding && !settings_.idle; ++i) {
      tasks.push_back(settings_.load ? loader() : worker(random.stream(std::to_string(i))));
    }
    if (!settings_.load) tasks.push_back(course());
    tools::SessionLoop loop({session_.get(), admin_.get()}, thread_, false);
    while (!std::ranges::all_of(tasks, [](const Task<void>& task) { return task.isDone(); })) loop.advance();
    session_->close();
    admin_->close();
  }
  void print() const;

 private:
  std::unique_ptr<tools::ClusterSession> open(transport::Role role) {
    tools::ClusterAccess access;
    const auto locator = transport::Locator::parse(settings_.coordinator);
    if (!locator) die(locator.error().message);
    access.coordinators = {*locator};
    access.cluster_name = settings_.cluster;
    access.role = role;
    access.transports.tcp = settings_.transport == "tcp";
    access.transports.shm = settings_.transport == "shm";
    access.transports.verbs = transport::TransportChoices::Wanted::No;
    auto session = tools::ClusterSession::open(access, thread_);
    if (!session) die(session.error().message);
    return std::move(session).value();
  }
  template <typename T>
  T await(Task<T> task) {
    while (!task.isDone()) {
      session_->advance();
      admin_->advance();
    }
    return task.take();
  }
  int64_t deadlineNs() { return clock_.nowNs() + kCallNs; }

  void findTablet();
  Task<void> loader();
  Task<void> worker(runtime::Random random);
  Task<void> course();
  Task<void> move();
  void begin(size_t part) {
    const int64_t now_ns = clock_.nowNs();
    if (part_ != nullptr) part_->end_ns = now_ns;
    part_ = part < parts_.size() ? &parts_[part] : nullptr;
    if (part_ != nullptr) part_->begin_ns = now_ns;
  }
  void note(const std::string& step, int64_t before_ns, int64_t now_ns) {
    if (steps_.empty() || steps_.back().name != step) steps_.push_back({step, before_ns, now_ns});
  }
  void noteOnLine(int64_t begin_ns, int64_t end_ns);
  void printPart(const char* name, const Part& part) const;
  void printLine() const;
  /// When the source may have refused writes, as far as the coordinator says: the whole move if it names no steps.
  std::pair<int64_t, int64_t> handOver() const;

  const Settings& settings_;
  Keys keys_;
  const std::optional<Zipfian> zipfian_;
  runtime::SystemClock clock_;
  runtime::SystemEntropy entropy_;
  transport::tcp::AsioSleeper sleeper_;
  const tools::ToolThread thread_;
  std::unique_ptr<tools::ClusterSession> session_;
  std::unique_ptr<tools::ClusterSession> admin_;
  TableId table_;
  TabletId tablet_;
  ServerId destination_;
  std::array<Part, 2> parts_;
  Part* part_ = nullptr;
  std::array<std::vector<int64_t>, kKinds> answered_ns_;  // in order
  std::deque<LogLinearHistogram> line_ns_;                // of the calls that began in each piece of time
  const int64_t begin_ns_ = clock_.nowNs();
  uint64_t due_ = 0;
  bool is_over_ = false;
  uint64_t loaded_ = 0;
  uint64_t failures_ = 0;
  uint64_t misses_ = 0;
  MigrationStatus moved_;
  std::vector<Step> steps_;
};

void MoveLoad::findTablet() {
  if (settings_.move.empty()) return;
  const auto cluster = await(admin_->client().coordinator().clusterStatus(deadlineNs()));
  if (!cluster) die("the cluster: " + std::string(name(cluster.error())));
  for (const client::TableMap& table : cluster->tables) {
    if (table.name == settings_.move && table.tablets.size() == 1) tablet_ = table.tablets.front().id;
  }
  for (const client::ServerStatus& server : cluster->servers) {
    if (server.name == settings_.to && server.is_alive) destination_ = server.id;
  }
  if (!tablet_ || !destination_) die("no table '" + settings_.move + "' of one tablet, or no server " + settings_.to);
}

Task<void> MoveLoad::loader() {
  constexpr uint64_t kBatch = 64;
  const std::string value(settings_.value_bytes, 'v');
  co_await runtime::resumeOn(session_->dispatch());
  while (loaded_ < settings_.records) {
    std::vector<MutateItem> items(std::min(kBatch, settings_.records - loaded_));
    for (MutateItem& item : items) {
      item.table = Table{table_.value};
      item.key = keys_.at(loaded_++);
      item.value = value;
    }
    co_await session_->client().multiMutate(items, deadlineNs());
    for (const MutateItem& item : items) {
      if (item.status != Status::Ok) die("a record is not written: " + std::string(name(item.status)));
    }
  }
}

Task<void> MoveLoad::worker(runtime::Random random) {
  client::ClusterClient& client = session_->client();
  std::string value(settings_.value_bytes, 'v');
  co_await runtime::resumeOn(session_->dispatch());
  int64_t begin_ns = clock_.nowNs();
  while (true) {
    if (settings_.rate > 0) {
      begin_ns = begin_ns_ + static_cast<int64_t>(static_cast<double>(due_++) * 1e9 / settings_.rate);
      if (begin_ns > clock_.nowNs()) co_await runtime::sleepUntil(session_->dispatch(), begin_ns);
    }
    if (is_over_) co_return;
    Part* const part = part_;
    const std::string_view key = zipfian_ ? keys_.at(zipfian_->next(random)) : keys_.next();
    const Kind kind = random.below(100) < static_cast<uint64_t>(settings_.reads_percent) ? kRead : kWrite;
    client::PointResult result;
    if (kind == kRead) {
      result = co_await client.read(table_, asBytes(key), clock_.nowNs() + kCallNs);
    } else {
      const uint64_t draw = random.next();
      std::memcpy(value.data(), &draw, sizeof draw);
      result = co_await client.write(table_, asBytes(key), asBytes(value), Condition(), clock_.nowNs() + kCallNs);
    }
    const int64_t end_ns = clock_.nowNs();
    if (result.status == Status::NotFound) ++misses_;
    if (result.status == Status::Ok || result.status == Status::NotFound) {
      answered_ns_[kind].push_back(end_ns);
    } else {
      ++failures_;
    }
    noteOnLine(begin_ns, end_ns);
    if (part != nullptr) {
      part->latency_ns[kind].record(static_cast<uint64_t>(end_ns - begin_ns));
      if (end_ns - begin_ns > part->call[kind].ns) part->call[kind] = {begin_ns, end_ns - begin_ns};
    }
    begin_ns = end_ns;
  }
}

void MoveLoad::noteOnLine(int64_t begin_ns, int64_t end_ns) {
  if (settings_.line_ms == 0) return;
  const auto piece = static_cast<size_t>((begin_ns - begin_ns_) / (settings_.line_ms * runtime::kNanosPerMilli));
  if (line_ns_.size() <= piece) line_ns_.resize(piece + 1);
  line_ns_[piece].record(static_cast<uint64_t>(end_ns - begin_ns));
}

Task<void> MoveLoad::course() {
  rpc::Dispatch& dispatch = admin_->dispatch();
  co_await runtime::resumeOn(dispatch);
  const auto seconds_ns = settings_.idle ? 0 : static_cast<int64_t>(settings_.seconds * 1e9);
  if (!settings_.idle) co_await runtime::sleepFor(dispatch, kWarmUpNs);
  begin(0);
  co_await runtime::sleepFor(dispatch, seconds_ns);
  begin(1);
  if (settings_.move.empty()) {
    co_await runtime::sleepFor(dispatch, seconds_ns);
    begin(parts_.size());
  } else {
    co_await move();
    begin(parts_.size());
    // migration_bench.py sees which server is asked.
    if (!settings_.idle) co_await runtime::sleepFor(dispatch, kAfterNs);
  }
  is_over_ = true;
}

Task<void> MoveLoad::move() {
  rpc::Dispatch& dispatch = admin_->dispatch();
  client::CoordinatorStub& coordinator = admin_->client().coordinator();
  const Result<uint64_t> migration = co_await coordinator.moveTablet(tablet_, destination_, deadlineNs());
  if (!migration) die("the move is not begun: " + std::string(name(migration.error())));
  const int64_t give_up_ns = clock_.nowNs() + kMoveNs;
  int64_t before_ns = parts_[1].begin_ns;
  while (clock_.nowNs() < give_up_ns) {
    const int64_t asked_ns = clock_.nowNs();
    const Result<MigrationStatus> now = co_await coordinator.migrationStatus(*migration, deadlineNs());
    if (!now) die("the move: " + std::string(name(now.error())));
    const bool is_done = now->state == MigrationStatus::State::Done;
    if (!is_done && now->state != MigrationStatus::State::Running) die("the move failed: " + now->reason);
    note(is_done ? "done" : now->step, before_ns, clock_.nowNs());
    moved_ = *now;
    if (is_done) co_return;
    before_ns = asked_ns;
    co_await runtime::sleepFor(dispatch, kStatusPauseNs);
  }
  die("the move takes too long");
}

std::pair<int64_t, int64_t> MoveLoad::handOver() const {
  const auto first = std::ranges::find_if(
      steps_, [](const Step& step) { return step.name == "handing over" || step.name == "arriving"; });
  const auto last = std::ranges::find_if(steps_, [](const Step& step) { return step.name == "arriving"; });
  if (first == steps_.end() || last == steps_.end()) return {parts_[1].begin_ns, parts_[1].end_ns};
  return {first->before_ns, last->seen_ns};
}

void printLongest(const char* what, const Longest& longest, int64_t zero_ns) {
  std::printf("\"%s\":{\"ms\":%.3f,\"begin_ms\":%.3f}", what, static_cast<double>(longest.ns) / kNsPerMs,
              static_cast<double>(longest.begin_ns - zero_ns) / kNsPerMs);
}

void printQuantiles(const LogLinearHistogram& latency_ns) {
  const auto microseconds = [&](double share) { return static_cast<double>(latency_ns.quantile(share)) / 1000; };
  std::printf("\"p50_us\":%.2f,\"p99_us\":%.2f,\"p999_us\":%.2f", microseconds(0.5), microseconds(0.99),
              microseconds(0.999));
}

void MoveLoad::printLine() const {
  std::printf(",\"line\":[");
  for (size_t i = 0; i < line_ns_.size(); ++i) {
    const int64_t at_ns = begin_ns_ + static_cast<int64_t>(i) * settings_.line_ms * runtime::kNanosPerMilli;
    std::printf("%s{\"ms\":%.1f,\"calls\":%llu,", i == 0 ? "" : ",",
                static_cast<double>(at_ns - parts_[1].begin_ns) / kNsPerMs,
                static_cast<unsigned long long>(line_ns_[i].count()));
    printQuantiles(line_ns_[i]);
    std::printf("}");
  }
  std::printf("]");
}

void MoveLoad::printPart(const char* name, const Part& part) const {
  const int64_t zero_ns = parts_[1].begin_ns;
  // Nothing, before a move while nobody calls.
  const double seconds = std::max(static_cast<double>(part.end_ns - part.begin_ns) * 1e-9, 1e-9);
  LogLinearHistogram all;
  for (const LogLinearHistogram& one : part.latency_ns) all.merge(one);
  std::printf("\"%s\":{\"seconds\":%.4f,\"calls\":%llu,\"calls_per_s\":%.1f,", name, seconds,
              static_cast<unsigned long long>(all.count()), static_cast<double>(all.count()) / seconds);
  printQuantiles(all);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    std::printf(",\"%s\":{", kKindNames[kind]);
    printQuantiles(part.latency_ns[kind]);
    std::printf(",");
    printLongest("call", part.call[kind], zero_ns);
    std::printf(",");
    printLongest("gap", longestGap(answered_ns_[kind], part.begin_ns, part.end_ns), zero_ns);
    std::printf("}");
  }
  std::printf("}");
}

void MoveLoad::print() const {
  const int64_t zero_ns = parts_[1].begin_ns;
  std::printf("{\"begin_s\":%.6f,\"end_s\":%.6f,\"failures\":%llu,\"misses\":%llu,",
              static_cast<double>(zero_ns) * 1e-9, static_cast<double>(parts_[1].end_ns) * 1e-9,
              static_cast<unsigned long long>(failures_), static_cast<unsigned long long>(misses_));
  printPart("still", parts_[0]);
  std::printf(",");
  printPart("moving", parts_[1]);
  if (!settings_.move.empty()) {
    const auto [first_ns, last_ns] = handOver();
    std::printf(",\"objects\":%llu,\"bytes\":%llu,", static_cast<unsigned long long>(moved_.objects),
                static_cast<unsigned long long>(moved_.bytes));
    printLongest("hand_over", longestGap(answered_ns_[kWrite], first_ns, last_ns), zero_ns);
    std::printf(",\"coordinator_ms\":%.3f", static_cast<double>(last_ns - first_ns) / kNsPerMs);
    std::printf(",\"steps\":{");
    for (const Step& step : steps_) {
      std::printf("%s\"%s\":%.3f", &step == steps_.data() ? "" : ",", step.name.c_str(),
                  static_cast<double>(step.seen_ns - zero_ns) / kNsPerMs);
    }
    std::printf("}");
  }
  if (settings_.line_ms != 0) printLine();
  std::printf("}\n");
}

}  // namespace
}  // namespace ramcore::bench

int main(int argc, char** argv) {
  using namespace ramcore::bench;
  Settings settings;
  Flags flags;
  flags.text("--coordinator", settings.coordinator);
  flags.text("--cluster", settings.cluster);
  flags.text("--transport", settings.transport);
  flags.text("--table", settings.table);
  flags.text("--move", settings.move);
  flags.text("--to", settings.to);
  flags.number("--records", settings.records);
  flags.number("--outstanding", settings.outstanding);
  flags.number("--reads-percent", settings.reads_percent);
  flags.number("--rate", settings.rate);
  flags.number("--seconds", settings.seconds);
  flags.number("--seed", settings.seed);
  flags.number("--value-bytes", settings.value_bytes);
  flags.number("--zipfian", settings.zipfian);
  flags.number("--line-ms", settings.line_ms);
  flags.flag("--load", [&settings] { settings.load = true; });
  flags.flag("--idle", [&settings] { settings.idle = true; });
  flags.parse(argc, argv);
  if (settings.coordinator.empty() || settings.table.empty() || settings.move.empty() != settings.to.empty()) {
    std::fprintf(stderr, "bench_move_load: say --coordinator and --table, and --move together with --to\n");
    return 2;
  }
  MoveLoad load(settings);
  load.run();
  if (!settings.load) load.print();
  return 0;
}
