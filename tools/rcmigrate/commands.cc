#include "tools/rcmigrate/commands.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "runtime/await.h"
#include "tools/rcmigrate/input_gathering.h"
#include "tools/rcmigrate/plan_text.h"
#include "tools/rcmigrate/program.h"
#include "tools/rcmigrate/selection.h"
#include "tools/rcmigrate/tablet_listing.h"
#include "tools/support/cluster_flags.h"
#include "tools/support/display.h"
#include "tools/support/json.h"

namespace ramcore::rcmigrate {
namespace {

using client::MigrationRecord;
using client::MigrationStatus;
using tools::formatBytes;

constexpr int64_t kWatchNs = runtime::kNanosPerSecond;
// Plans of one rebalance.
constexpr int kRoundsMax = 4;

const client::TableMap* findTable(const client::ClusterStatus& cluster, const std::string& name) {
  const auto table = std::ranges::find(cluster.tables, name, &client::TableMap::name);
  return table == cluster.tables.end() ? nullptr : &*table;
}

tools::Json jsonOf(const MigrationStatus& now) {
  return {{"state", nameOf(now.state)}, {"objects", now.objects}, {"bytes", now.bytes},
          {"fraction", now.fraction},   {"reason", now.reason},   {"step", now.step}};
}

bool isRunning(const MigrationRecord& move) { return move.state == MigrationStatus::State::Running; }

// Those that take part in the moves under way.
std::set<ServerId> serversOf(const std::vector<MigrationRecord>& moves) {
  std::set<ServerId> servers;
  for (const MigrationRecord& move : moves) {
    if (isRunning(move)) servers.insert({move.source, move.destination});
  }
  return servers;
}

size_t tabletsAt(const client::ClusterStatus& cluster, ServerId server) {
  size_t count = 0;
  for (const client::TableMap& table : cluster.tables) {
    count += static_cast<size_t>(std::ranges::count(table.tablets, server, &client::TabletInfo::owner));
  }
  return count;
}

size_t movesIn(const std::vector<PlanStep>& steps) {
  return static_cast<size_t>(std::ranges::count(steps, PlanStep::Kind::Move, &PlanStep::kind));
}

}  // namespace

int Commands::failed(Status status, const std::string& what) {
  return tools::fail(kProgram, tools::explain(status, what, coordinator()));
}

int Commands::failedAs(int code, const Failure& failure) {
  static_cast<void>(tools::fail(kProgram, failure));
  return code;
}

int Commands::list() {
  const Result<client::ClusterStatus> cluster = clusterStatus();
  if (!cluster) return failed(cluster.error(), "the cluster");
  if (!flags_.table.empty() && findTable(*cluster, flags_.table) == nullptr) {
    return failed(Status::NoSuchTable, "table '" + flags_.table + "'");
  }
  say(listTablets(*cluster, flags_.table, flags_.json));
  return tools::kExitOk;
}

// ---- what moves tablets

MoverSettings Commands::moverSettings() const {
  return {.rate_max = flags_.rate_max,
          .parallel = flags_.parallel,
          .timeout_ms = flags_.timeout_ms,
          .waits = !flags_.no_wait,
          .quiet = flags_.quiet,
          .json = flags_.json};
}

int Commands::carryOut(const std::vector<PlanStep>& steps) {
  Mover mover(session_, moverSettings(), interrupted_);
  if (!steps.empty()) mover.run(steps);
  if (flags_.json) say(mover.report().dump(2) + "\n");
  return mover.exitCode();
}

int Commands::move() {
  const Result<client::ClusterStatus> cluster = clusterStatus();
  if (!cluster) return failed(cluster.error(), "the cluster");
  const Outcome<std::vector<PlanStep>> steps = stepsOfMove(*cluster);
  if (!steps) return tools::fail(kProgram, steps.error());
  if (steps->empty() && !flags_.json) say("nothing to do: nothing of it is elsewhere\n");
  return carryOut(*steps);
}

// All is looked up before the first tablet moves.
Outcome<std::vector<PlanStep>> Commands::stepsOfMove(const client::ClusterStatus& cluster) {
  const Outcome<ServerId> destination = findServer(cluster, flags_.server);
  if (!destination) return destination.error();
  std::vector<PlanStep> steps;
  for (const uint64_t id : flags_.tablets) {
    const Outcome<client::TabletInfo> tablet = findTablet(cluster, id);
    if (!tablet) return tablet.error();
    steps.push_back({.table = tablet->table, .range = tablet->range, .from = tablet->owner, .to = *destination});
  }
  if (flags_.table.empty()) return steps;
  const client::TableMap* const table = findTable(cluster, flags_.table);
  if (table == nullptr) {
    return Failure{Status::NoSuchTable, "there is no table '" + flags_.table + "'; 'rcmigrate list' shows the tables"};
  }
  Selection selection{.range = {}, .fraction = flags_.fraction};
  if (!flags_.range.empty()) {
    const Outcome<HashRange> range = parseRange(flags_.range);
    if (!range) return range.error();
    selection.range = *range;
  }
  if (!flags_.from.empty()) {
    const Outcome<ServerId> from = findServer(cluster, flags_.from);
    if (!from) return from.error();
    if (*from == *destination) {
      return Failure{Status::BadConfig, "--from and --to are the same server; name another one"};
    }
    selection.from = *from;
  }
  return stepsFor(*table, selection, *destination);
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
    if (tablet->range.first == tablet->range.last) {
      return tools::fail(kProgram, {Status::BadRequest, "tablet " + std::to_string(flags_.tablet) +
                                                            " has one key hash, and cannot be cut"});
    }
  } else {
    const client::TableMap* const known = findTable(*cluster, flags_.table);
    if (known == nullptr) return failed(Status::NoSuchTable, "table '" + flags_.table + "'");
    table = known->table;
    const std::optional<KeyHash> hash = parseHash(flags_.at);
    if (!hash) {
      return tools::fail(kProgram,
                         {Status::BadConfig, "'" + flags_.at + "' is no key hash; write it as 0x8000000000000000"});
    }
    at = *hash;
  }
  const auto halves = session_.await(coordinator().splitTable(table, at, deadlineNs()));
  if (!halves && halves.error() == Status::BadRequest) {
    return tools::fail(kProgram, {Status::BadRequest,
                                  "a tablet begins at this hash already, or none contains it; "
                                  "'rcmigrate list' shows where they begin"});
  }
  if (!halves && halves.error() == Status::RetryLater) {
    return failedAs(kExitNotNow, {Status::RetryLater, "the tablet is in transition; try again"});
  }
  if (!halves) return failed(halves.error(), "splitting");
  std::printf("split at 0x%016" PRIx64 ": tablets %" PRIu64 " and %" PRIu64 "\n", at, halves->lower.value,
              halves->upper.value);
  return tools::kExitOk;
}

// Empties the server, and looks whether that is so: tablets may have come meanwhile.
int Commands::drain() {
  Mover mover(session_, moverSettings(), interrupted_);
  if (const int code = awaitOthers(mover); code != tools::kExitOk) return end(mover, code);
  for (int round = 0;; ++round) {
    const Outcome<PlanInput> input = gatherInput(session_, 0, flags_.timeout_ms, interrupted_);
    if (!input) return end(mover, tools::fail(kProgram, input.error()));
    const Outcome<ServerId> server = findServer(input->cluster, flags_.server);
    if (!server) return end(mover, tools::fail(kProgram, server.error()));
    const std::string name = nameOf(input->cluster, *server);
    const size_t tablets = tabletsAt(input->cluster, *server);
    if (tablets == 0) {
      tell(name + " has no tablets" +
           (round == 0 ? "; nothing to do\n" : " any more; 'rcmigrate rebalance' brings some back\n"));
      return end(mover, tools::kExitOk);
    }
    if (const int code = mayPlan(*input); code != tools::kExitOk) return end(mover, code);
    if (std::ranges::find(input->silent, *server) != input->silent.end()) {
      return end(mover, failedAs(kExitNotNow, {Status::RetryLater, name + " does not say what it has; try again"}));
    }
    const Plan plan = rcmigrate::drain(input->servers, input->tablets, *server);
    if (plan.bytes_without_room != 0) {
      return end(mover,
                 failedAs(kExitNoRoom, {Status::NoSpace, "the other servers have no room for " +
                                                             formatBytes(plan.bytes_without_room) + " of what " + name +
                                                             " has, without being filled above 85 %; add a server, or "
                                                             "remove objects"}));
    }
    if (plan.steps.empty() || round == kRoundsMax) {
      return end(mover,
                 failedAs(kExitNotNow, {Status::RetryLater, name + " still has " + std::to_string(tablets) +
                                                                " tablets, which cannot be moved now; try again"}));
    }
    tell(textOf(*input, plan, Measure::Bytes));
    mover.run(plan.steps);
    if (mover.hasFailed() || interrupted_ != 0 || flags_.no_wait) return end(mover, tools::kExitOk);
  }
}

int Commands::plan() {
  const Outcome<PlanInput> input = gatherInput(session_, sampleMs(), flags_.timeout_ms, interrupted_);
  if (!input) return tools::fail(kProgram, input.error());
  const Measure measure = measureOf(flags_.by).value_or(Measure::Bytes);
  const Plan plan = level(input->servers, input->tablets, measure, input->seconds);
  say(flags_.json ? jsonOf(*input, plan, measure).dump(2, tools::Json::BadUtf8::Replace) + "\n"
                  : textOf(*input, plan, measure));
  return tools::kExitOk;
}

// Sizes and calls are estimated from samples. So it is looked at what has come of a plan, and what is left is planned
// again.
int Commands::rebalance() {
  const Measure measure = measureOf(flags_.by).value_or(Measure::Bytes);
  Mover mover(session_, moverSettings(), interrupted_);
  if (const int code = awaitOthers(mover); code != tools::kExitOk) return end(mover, code);
  for (int round = 0;; ++round) {
    const Outcome<PlanInput> input = gatherInput(session_, sampleMs(), flags_.timeout_ms, interrupted_);
    if (!input) return end(mover, tools::fail(kProgram, input.error()));
    if (const int code = mayPlan(*input); code != tools::kExitOk) return end(mover, code);
    const Plan plan = level(input->servers, input->tablets, measure, input->seconds);
    if (round == 0) first_plan_ = jsonOf(*input, plan, measure);
    if (round == 0 || !plan.steps.empty()) tell(textOf(*input, plan, measure));
    if (plan.steps.empty() || interrupted_ != 0) return end(mover, tools::kExitOk);
    if (round == kRoundsMax) {
      return end(mover, failedAs(tools::kExitPartial, {Status::RetryLater, "not level yet; give the command again"}));
    }
    if (!flags_.yes && isatty(STDIN_FILENO) == 0) {
      return tools::fail(kProgram, {Status::BadConfig, "nobody can be asked whether to do that; give --yes"});
    }
    if (!flags_.yes && !isAgreed(textOf(*input, plan, measure), movesIn(plan.steps))) {
      std::cerr << (round == 0 ? "nothing was done\n" : "nothing more was done\n");
      return end(mover, kExitCancelled);
    }
    mover.run(plan.steps);
    // Where the load will be is not known before the tablets are there.
    if (mover.hasFailed() || interrupted_ != 0 || flags_.no_wait) return end(mover, tools::kExitOk);
  }
}

// Moves under way are at neither server: they have to end before anything is planned.
int Commands::awaitOthers(Mover& mover) {
  const auto moves = session_.await(coordinator().listMigrations(deadlineNs()));
  if (!moves) return failed(moves.error(), "the moves");
  std::vector<MigrationRecord> running;
  std::ranges::copy_if(*moves, std::back_inserter(running), isRunning);
  if (running.empty()) return tools::kExitOk;
  const std::string what =
      std::to_string(running.size()) + (running.size() == 1 ? " move is" : " moves are") + " under way";
  if (flags_.no_wait) {
    return failedAs(kExitNotNow,
                    {Status::RetryLater, what + "; wait with 'rcmigrate status --watch', or without --no-wait"});
  }
  if (!flags_.quiet) std::cerr << what << " already; waiting for the end\n";
  mover.follow(running);
  return interrupted_ != 0 ? static_cast<int>(tools::kExitPartial) : static_cast<int>(tools::kExitOk);
}

int Commands::mayPlan(const PlanInput& input) {
  if (input.tablets_away == 0) return tools::kExitOk;
  return failedAs(kExitNotNow, {Status::RetryLater, std::to_string(input.tablets_away) +
                                                        " tablets of dead servers are not back yet; 'ramcore status' "
                                                        "shows how far their recovery is. Try again afterwards"});
}

// Ends the command with its report. @param code  0: that of the moves
int Commands::end(const Mover& mover, int code) {
  if (flags_.json) {
    tools::Json report = mover.report();
    if (first_plan_) report["plan"] = *first_plan_;
    say(report.dump(2, tools::Json::BadUtf8::Replace) + "\n");
  }
  const int of_moves = mover.exitCode();
  if (code == tools::kExitOk) return of_moves;
  return mover.hasDone() && code == tools::kExitFailed ? static_cast<int>(tools::kExitPartial) : code;
}

void Commands::tell(const std::string& text) const {
  if (!flags_.json) say(text);
}

bool Commands::isAgreed(const std::string& plan, size_t moves) const {
  if (flags_.json) std::cerr << plan;
  std::cerr << "carry out " << moves << (moves == 1 ? " move" : " moves") << "? [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

// ---- moves under way

int Commands::status() {
  CallHistory calls;
  size_t looks = 0;
  std::set<uint64_t> told;  // moves that are over
  while (true) {
    auto moves = session_.await(coordinator().listMigrations(deadlineNs()));
    if (!moves) return failed(moves.error(), "the moves");
    const Result<client::ClusterStatus> cluster = clusterStatus();
    if (!cluster) return failed(cluster.error(), "the cluster");
    if (flags_.migration != 0) {
      std::erase_if(*moves, [this](const MigrationRecord& move) { return move.migration != flags_.migration; });
      if (moves->empty()) return unknownMove();
    }
    const bool goes_on = std::ranges::any_of(*moves, isRunning);
    const int outcome = flags_.migration != 0 && flags_.watch ? codeOf(moves->front()) : tools::kExitOk;
    std::erase_if(*moves,
                  [&](const MigrationRecord& move) { return !isRunning(move) && !told.insert(move.migration).second; });
    if (flags_.watch && lookAtCalls(calls)) ++looks;
    // From the second look on it is known what was between two of them.
    const CallHistory* const known = looks > 1 ? &calls : nullptr;
    say(flags_.json ? movesJson(*moves, *cluster, known) : movesText(*moves, *cluster, known));
    if (!flags_.watch || !goes_on) return outcome;
    if (interrupted_ == 0) session_.await(pause(session_.dispatch(), kWatchNs));
    if (interrupted_ != 0) return tools::kExitPartial;
    if (!flags_.json) say("\n");
  }
}

int Commands::unknownMove() {
  return tools::fail(kProgram, {Status::NotFound, "migration " + std::to_string(flags_.migration) +
                                                      " is not known; 'rcmigrate status' shows the moves"});
}

// What has become of a move.
int Commands::codeOf(const MigrationRecord& move) {
  switch (move.state) {
    case MigrationStatus::State::Cancelled:
      return kExitCancelled;
    case MigrationStatus::State::Failed:
      return move.lacks_room ? static_cast<int>(kExitNoRoom) : static_cast<int>(tools::kExitFailed);
    default:
      return tools::kExitOk;
  }
}

bool Commands::lookAtCalls(CallHistory& calls) {
  auto loads = session_.await(coordinator().clusterLoads(deadlineNs(), /*only_calls=*/true));
  if (!loads) return false;
  for (client::ServerCalls& server : loads->calls) calls.note(server.server, std::move(server.counts));
  return true;
}

std::string Commands::movesJson(const std::vector<MigrationRecord>& moves, const client::ClusterStatus& cluster,
                                const CallHistory* calls) const {
  tools::Json list = tools::Json::array();
  for (const MigrationRecord& move : moves) {
    tools::Json entry = {{"migration", move.migration},
                         {"tablet", move.tablet.value},
                         {"from", nameOf(cluster, move.source)},
                         {"from_id", tools::formatServer(move.source)},
                         {"to", nameOf(cluster, move.destination)},
                         {"to_id", tools::formatServer(move.destination)},
                         {"rate_max", move.rate_max}};
    entry.update(jsonOf(move));
    list.append(std::move(entry));
  }
  tools::Json out = {{"moves", list}};
  if (calls != nullptr) {
    tools::Json servers = tools::Json::array();
    for (const ServerId server : serversOf(moves)) {
      const CallTimes times = calls->lately(server);
      servers.append({{"server", nameOf(cluster, server)},
                      {"calls", times.calls},
                      {"p50_ns", times.p50_ns},
                      {"p999_ns", times.p999_ns}});
    }
    out["calls"] = servers;
  }
  // Each of several looks is one line.
  return out.dump(flags_.watch ? -1 : 2) + "\n";
}

std::string Commands::movesText(const std::vector<MigrationRecord>& moves, const client::ClusterStatus& cluster,
                                const CallHistory* calls) const {
  if (moves.empty() && calls == nullptr) return "no move is under way, and none was lately\n";
  std::string out;
  for (const MigrationRecord& move : moves) {
    char line[320];
    std::snprintf(line, sizeof line,
                  "%4" PRIu64 "  tablet %-5" PRIu64 " %.60s to %.60s: %s, %.0f %%, %" PRIu64 " objects, %s",
                  move.migration, move.tablet.value, nameOf(cluster, move.source).c_str(),
                  nameOf(cluster, move.destination).c_str(), (isRunning(move) ? move.step : nameOf(move.state)).c_str(),
                  move.fraction * 100, move.objects, formatBytes(move.bytes).c_str());
    out += line;
    if (move.rate_max != 0) out += ", " + formatBytes(move.rate_max) + "/s at the most";
    if (isRunning(move) && move.age_ns >= 0)
      out += ", for " + std::to_string(move.age_ns / runtime::kNanosPerSecond) + " s";
    if (!move.reason.empty()) out += ": " + move.reason;
    out += "\n";
  }
  if (calls == nullptr) return out;
  for (const ServerId server : serversOf(moves)) {
    out += "calls at " + nameOf(cluster, server) + ": " + textOf(calls->lately(server)) + "\n";
  }
  return out;
}

int Commands::rate() {
  const std::string what = "migration " + std::to_string(flags_.migration);
  const Status status = session_.await(coordinator().setMigrationRate(flags_.migration, flags_.rate_max, deadlineNs()));
  if (status == Status::BadRequest) {
    return tools::fail(kProgram, {status, what + " is over; 'rcmigrate status' shows the moves under way"});
  }
  if (status == Status::NotFound) return unknownMove();
  if (status != Status::Ok) return failed(status, what);
  say(what + ": " + formatBytes(flags_.rate_max) + "/s at the most\n");
  return tools::kExitOk;
}

int Commands::cancel() {
  const std::string what = "migration " + std::to_string(flags_.migration);
  const Status status = session_.await(coordinator().cancelMigration(flags_.migration, deadlineNs()));
  if (status == Status::NotFound) return unknownMove();
  if (status == Status::Ok) {
    say(what + ": cancelled\n");
    return tools::kExitOk;
  }
  const auto now = session_.await(coordinator().migrationStatus(flags_.migration, deadlineNs()));
  if (!now) return failed(status, what);
  const std::string why = now->reason.empty() ? "" : " (" + now->reason + ")";
  if (status == Status::BadRequest && now->state == MigrationStatus::State::Failed) {
    return tools::fail(kProgram, {status, what + ": it has failed" + why + "; the tablet is where it was"});
  }
  if (status == Status::BadRequest) {
    return tools::fail(kProgram,
                       {status, what + ": too late, everything has been moved; 'rcmigrate move' moves it back"});
  }
  if (status == Status::NoSpace) {
    return failedAs(kExitNoRoom, {status, what +
                                              ": the server that the tablet comes from has no room for what was "
                                              "changed since" +
                                              why +
                                              "; the move goes on. Remove objects there, or "
                                              "let it end"});
  }
  return failedAs(kExitNotNow, {status, what + ": it cannot be given up or taken back now, and is " + now->step + why +
                                            "; try again"});
}

}  // namespace ramcore::rcmigrate
