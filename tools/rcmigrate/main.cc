// rcmigrate: shows where the tablets of a Ramcore cluster are, moves and splits them.
#include <unistd.h>

#include <cinttypes>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "runtime/await.h"
#include "runtime/real/system_clock.h"
#include "tools/rcmigrate/tablet_listing.h"
#include "tools/support/cluster_flags.h"
#include "tools/support/command_line.h"
#include "tools/support/display.h"
#include "tools/support/json.h"
#include "tools/support/process.h"
#include "tools/support/standard_output.h"

namespace {

using namespace ramcore;
using namespace ramcore::rcmigrate;
using client::MigrationStatus;
using tools::formatBytes;

constexpr const char* kProgram = "rcmigrate";
constexpr int64_t kPollNs = 50 * runtime::kNanosPerMilli;
constexpr int64_t kProgressNs = runtime::kNanosPerSecond;

void say(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

volatile sig_atomic_t interrupted = 0;
void onSignal(int) { interrupted = 1; }

struct Flags {
  tools::ClusterFlags cluster;
  uint32_t timeout_ms = 5000;
  std::string table;
  bool json = false;
  std::vector<uint64_t> tablets;
  uint64_t tablet = 0;
  std::string server;
  std::string at;
  bool no_wait = false;
  bool quiet = false;
  uint64_t migration = 0;
};

/// What the commands share: a connection to the cluster, and errors as exit codes.
class Commands {
 public:
  Commands(const Flags& flags, tools::ClusterSession& session) : flags_(flags), session_(session) {}

  int list();
  int move();
  int split();
  int status();
  int cancel();

 private:
  client::CoordinatorStub& coordinator() { return session_.client().coordinator(); }
  int64_t deadlineNs() const { return session_.nowNs() + flags_.timeout_ms * runtime::kNanosPerMilli; }
  int failed(Status status, const std::string& what) {
    return tools::fail(kProgram, tools::explain(status, what, coordinator()));
  }
  Result<client::ClusterStatus> clusterStatus() { return session_.await(coordinator().clusterStatus(deadlineNs())); }
  static int unknown(const std::string& migration) {
    return tools::fail(kProgram, {Status::NotFound, migration + " is not known; 'rcmigrate move' prints the numbers"});
  }
  int moveOne(const client::ClusterStatus& cluster, TabletId tablet, ServerId destination);
  int waitFor(uint64_t migration, const std::string& what);
  void showProgress(const std::string& what, const MigrationStatus& now, double seconds, bool is_last);

  const Flags& flags_;
  tools::ClusterSession& session_;
  bool line_open_ = false;
};

runtime::Task<void> pause(runtime::Executor& executor, int64_t duration_ns) {
  co_await runtime::sleepFor(executor, duration_ns);
}

int Commands::list() {
  const Result<client::ClusterStatus> cluster = clusterStatus();
  if (!cluster) return failed(cluster.error(), "the cluster");
  if (!flags_.table.empty()) {
    bool exists = false;
    for (const client::TableMap& table : cluster->tables) exists |= table.name == flags_.table;
    if (!exists) return failed(Status::NoSuchTable, "table '" + flags_.table + "'");
  }
  say(listTablets(*cluster, flags_.table, flags_.json));
  return tools::kExitOk;
}

int Commands::move() {
  const Result<client::ClusterStatus> cluster = clusterStatus();
  if (!cluster) return failed(cluster.error(), "the cluster");
  const Outcome<ServerId> destination = findServer(*cluster, flags_.server);
  if (!destination) return tools::fail(kProgram, destination.error());
  // All tablets are looked up before the first one moves.
  for (const uint64_t id : flags_.tablets) {
    const Outcome<client::TabletInfo> tablet = findTablet(*cluster, id);
    if (!tablet) return tools::fail(kProgram, tablet.error());
  }
  for (const uint64_t id : flags_.tablets) {
    const int code = moveOne(*cluster, TabletId(id), *destination);
    if (code != tools::kExitOk || interrupted != 0) return code;
  }
  return tools::kExitOk;
}

int Commands::moveOne(const client::ClusterStatus& cluster, TabletId tablet, ServerId destination) {
  const Outcome<client::TabletInfo> info = findTablet(cluster, tablet.value);
  const std::string what = "tablet " + std::to_string(tablet.value) + " to " + nameOf(cluster, destination);
  if (info.ok() && info->owner == destination) {
    say(what + ": it is there already\n");
    return tools::kExitOk;
  }
  const Result<uint64_t> migration = session_.await(coordinator().moveTablet(tablet, destination, deadlineNs()));
  if (!migration && migration.error() == Status::RetryLater) {
    return tools::fail(kProgram,
                       {Status::RetryLater, what + ": not now, the tablet is already moving or being split, or "
                                                   "one of the servers does not answer; try again"});
  }
  if (!migration && migration.error() == Status::NotFound) {
    return tools::fail(kProgram, {Status::NotFound, what + ": the tablet or the server is gone; 'rcmigrate list' shows "
                                                           "the tablets and 'ramcore status' the servers that exist"});
  }
  if (!migration) return failed(migration.error(), "moving " + what);
  if (flags_.no_wait) {
    say(what + ": migration " + std::to_string(*migration) + " has begun\n");
    return tools::kExitOk;
  }
  return waitFor(*migration, what);
}

int Commands::waitFor(uint64_t migration, const std::string& what) {
  const int64_t begin_ns = session_.nowNs();
  int64_t shown_ns = begin_ns;
  while (true) {
    const Result<MigrationStatus> now = session_.await(coordinator().migrationStatus(migration, deadlineNs()));
    if (!now) return failed(now.error(), "migration " + std::to_string(migration));
    const int64_t now_ns = session_.nowNs();
    const double seconds = static_cast<double>(now_ns - begin_ns) * 1e-9;
    switch (now->state) {
      case MigrationStatus::State::Done:
        showProgress(what, *now, seconds, true);
        return tools::kExitOk;
      case MigrationStatus::State::Cancelled:
        return tools::fail(kProgram, {Status::Cancelled, what + ": given up (" + now->reason +
                                                             "); 'rcmigrate list' shows where the tablet is"});
      case MigrationStatus::State::Failed:
      case MigrationStatus::State::Unknown:
        return tools::fail(kProgram, {Status::Internal, what + ": failed (" + now->reason +
                                                            "); 'rcmigrate list' shows where the tablet is"});
      case MigrationStatus::State::Running:
        break;
    }
    if (interrupted != 0) {
      const std::string number = std::to_string(migration);
      say(what + ": migration " + number + " goes on; 'rcmigrate cancel " + number +
          "' gives it up, if the tablet has not been handed over\n");
      return tools::kExitOk;
    }
    if (now_ns - shown_ns >= kProgressNs || isatty(STDERR_FILENO) != 0) {
      showProgress(what, *now, seconds, false);
      shown_ns = now_ns;
    }
    session_.await(pause(session_.dispatch(), kPollNs));
  }
}

void Commands::showProgress(const std::string& what, const MigrationStatus& now, double seconds, bool is_last) {
  char line[512];
  const double rate = seconds > 0 ? static_cast<double>(now.bytes) / seconds : 0;
  std::snprintf(line, sizeof line, "%s: %3.0f %%, %" PRIu64 " objects, %s in %.2f s, %s/s%s%s", what.c_str(),
                is_last ? 100.0 : now.fraction * 100, now.objects, formatBytes(now.bytes).c_str(), seconds,
                formatBytes(static_cast<uint64_t>(rate)).c_str(), now.reason.empty() ? "" : ", ", now.reason.c_str());
  const bool on_terminal = isatty(STDERR_FILENO) != 0;
  if (!is_last) {
    if (!flags_.quiet) std::cerr << (on_terminal ? "\r\033[K" : "") << line << (on_terminal ? "" : "\n") << std::flush;
    line_open_ = on_terminal && !flags_.quiet;
    return;
  }
  if (line_open_) std::cerr << "\r\033[K" << std::flush;
  line_open_ = false;
  say(std::string(line) + "\n");
}

int Commands::split() {
  const Result<client::ClusterStatus> cluster = clusterStatus();
  if (!cluster) return failed(cluster.error(), "the cluster");
  TableId table;
  KeyHash at = 0;
  if (flags_.tablet != 0) {
    const Outcome<client::TabletInfo> tablet = findTablet(*cluster, flags_.tablet);
    if (!tablet) return tools::fail(kProgram, tablet.error());
    table = tablet->table;
    at = middleOf(tablet->range);
  } else {
    for (const client::TableMap& known : cluster->tables) {
      if (known.name == flags_.table) table = known.table;
    }
    if (!table) return failed(Status::NoSuchTable, "table '" + flags_.table + "'");
    size_t used = 0;
    try {
      at = std::stoull(flags_.at, &used, 0);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used == 0 || used != flags_.at.size() || flags_.at.front() == '-') {
      return tools::fail(kProgram,
                         {Status::BadConfig, "'" + flags_.at + "' is no key hash; write it as 0x8000000000000000"});
    }
  }
  const auto halves = session_.await(coordinator().splitTable(table, at, deadlineNs()));
  if (!halves && halves.error() == Status::BadRequest) {
    return tools::fail(kProgram, {Status::BadRequest,
                                  "a tablet begins at this hash already, or none contains it; "
                                  "'rcmigrate list' shows where they begin"});
  }
  if (!halves) return failed(halves.error(), "splitting");
  std::printf("split at 0x%016" PRIx64 ": tablets %" PRIu64 " and %" PRIu64 "\n", at, halves->lower.value,
              halves->upper.value);
  return tools::kExitOk;
}

int Commands::status() {
  const std::string what = "migration " + std::to_string(flags_.migration);
  const Result<MigrationStatus> now = session_.await(coordinator().migrationStatus(flags_.migration, deadlineNs()));
  if (!now && now.error() == Status::NotFound) return unknown(what);
  if (!now) return failed(now.error(), what);
  if (flags_.json) {
    tools::Json out = {{"migration", flags_.migration},
                       {"state", nameOf(now->state)},
                       {"objects", now->objects},
                       {"bytes", now->bytes},
                       {"fraction", now->fraction},
                       {"reason", now->reason},
                       {"step", now->step}};
    say(out.dump(2) + "\n");
    return tools::kExitOk;
  }
  std::printf("%s: %s%s%s, %.0f %%, %" PRIu64 " objects, %s%s%s\n", what.c_str(), nameOf(now->state).c_str(),
              now->step.empty() ? "" : ", ", now->step.c_str(), now->fraction * 100, now->objects,
              formatBytes(now->bytes).c_str(), now->reason.empty() ? "" : ", ", now->reason.c_str());
  return tools::kExitOk;
}

int Commands::cancel() {
  const std::string what = "migration " + std::to_string(flags_.migration);
  const Status status = session_.await(coordinator().cancelMigration(flags_.migration, deadlineNs()));
  if (status == Status::BadRequest) {
    return tools::fail(kProgram,
                       {status, what + ": too late, everything has been moved; 'rcmigrate move' moves it back"});
  }
  if (status == Status::NoSpace) {
    return tools::fail(kProgram,
                       {status, what +
                                    ": the server that the tablet comes from has no room for what was changed since; "
                                    "the migration goes on. Remove objects there, or let it end; 'rcmigrate status " +
                                    std::to_string(flags_.migration) + "' has the numbers"});
  }
  if (status == Status::NotFound) return unknown(what);
  if (status != Status::Ok) return failed(status, what);
  say(what + ": cancelled\n");
  return tools::kExitOk;
}

struct Parsed {
  tools::Command list;
  tools::Command move;
  tools::Command split;
  tools::Command status;
  tools::Command cancel;
};

Parsed declare(tools::Command& app, Flags& flags) {
  flags.cluster.addTo(app);
  app.addOption("--timeout-ms", flags.timeout_ms, "Milliseconds that one question to the coordinator may take")
      .showDefault()
      .inRange(1, 3'600'000);
  app.requireCommand();
  app.takeOptionsBehindCommands();
  Parsed parsed{
      .list = app.addCommand("list", "Show the tablets and where they are"),
      .move = app.addCommand("move", "Move tablets to a server, one after the other"),
      .split = app.addCommand("split", "Cut a tablet in two, in place"),
      .status = app.addCommand("status", "Show how far a migration is"),
      .cancel = app.addCommand("cancel", "Give up a migration; one that has handed its tablet over is taken back")};

  parsed.list.addOption("TABLE", flags.table, "Only the tablets of this table");
  parsed.list.addFlag("--json", flags.json, "Print JSON");

  parsed.move.addOption("TABLET", flags.tablets, "Numbers of the tablets, as 'list' shows them")
      .required()
      .check(tools::wholeNumber());
  parsed.move.addOption("--to", flags.server, "Name or number of the server").required().typeName("SERVER");
  parsed.move.addFlag("--no-wait", flags.no_wait, "Only start the moves and print their numbers");
  parsed.move.addFlag("--quiet", flags.quiet, "No progress on stderr");

  tools::Option table = parsed.split.addOption("TABLE", flags.table, "Table to cut at --at");
  tools::Option at = parsed.split.addOption("--at", flags.at, "Key hash that becomes the first of the upper half");
  tools::Option tablet = parsed.split.addOption("--tablet", flags.tablet, "Cut this tablet in the middle").positive();
  at.needs(table);
  table.needs(at);
  tablet.excludes(at).excludes(table);

  parsed.status.addOption("MIGRATION", flags.migration, "Its number, as 'move --no-wait' prints it")
      .required()
      .check(tools::wholeNumber());
  parsed.status.addFlag("--json", flags.json, "Print JSON");

  parsed.cancel.addOption("MIGRATION", flags.migration, "Its number, as 'move --no-wait' prints it")
      .required()
      .check(tools::wholeNumber());
  return parsed;
}

int runCommand(int argc, char** argv) {
  tools::CommandLine app("Shows where the tablets of a Ramcore cluster are, moves and splits them", kProgram);
  Flags flags;
  const Parsed parsed = declare(app, flags);
  int exit_code = 0;
  if (!tools::parseFlags(app, argc, argv, exit_code)) return exit_code;
  if (parsed.split.isGiven() && flags.tablet == 0 && flags.table.empty()) {
    return tools::fail(kProgram, {Status::BadConfig, "split needs a TABLE with --at, or --tablet; see --help"});
  }
  const Outcome<tools::ClusterAccess> access = flags.cluster.open(transport::Role::Admin);
  if (!access) return tools::fail(kProgram, access.error());
  struct sigaction action{};
  action.sa_handler = onSignal;
  sigaction(SIGINT, &action, nullptr);

  runtime::SystemClock clock;
  runtime::SystemEntropy entropy;
  Trace& trace = stderrTrace(kProgram);
  trace.setLevel(TraceLevel::Off);
  transport::tcp::AsioSleeper sleeper(clock);
  const auto session =
      tools::ClusterSession::open(*access, {.clock = clock, .entropy = entropy, .trace = trace, .sleeper = sleeper});
  if (!session) return tools::fail(kProgram, session.error());
  Commands commands(flags, **session);
  const int code = parsed.list.isGiven()     ? commands.list()
                   : parsed.move.isGiven()   ? commands.move()
                   : parsed.split.isGiven()  ? commands.split()
                   : parsed.status.isGiven() ? commands.status()
                                             : commands.cancel();
  (*session)->close();
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  ramcore::tools::StandardOutput output(kProgram);
  return output.finish(runCommand(argc, argv));
}
