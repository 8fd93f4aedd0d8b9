#include "tools/rcmigrate/commands.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <iostream>
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
  const int code = mover.run(steps);
  if (flags_.json) say(mover.asJson());
  return code;
}

int Commands::move() {
  const Result<client::ClusterStatus> cluster = clusterStatus();
  if (!cluster) return failed(cluster.error(), "the cluster");
  const Outcome<std::vector<PlanStep>> steps = stepsOfMove(*cluster);
  if (!steps) return tools::fail(kProgram, steps.error());
  if (steps->empty()) {
    say("nothing to do: all of it is there\n");
    return tools::kExitOk;
  }
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

int Commands::drain() {
  const Outcome<PlanInput> input = gatherInput(session_, 0, flags_.timeout_ms);
  if (!input) return tools::fail(kProgram, input.error());
  const Outcome<ServerId> server = findServer(input->cluster, flags_.server);
  if (!server) return tools::fail(kProgram, server.error());
  const std::string name = nameOf(input->cluster, *server);
  if (std::ranges::find(input->silent, *server) != input->silent.end()) {
    return failedAs(kExitNotNow, {Status::RetryLater, name + " does not answer; try again when it does"});
  }
  const Plan plan = rcmigrate::drain(input->servers, input->tablets, *server);
  if (plan.bytes_without_room != 0) {
    return failedAs(
        kExitNoRoom,
        {Status::NoSpace, "the other servers have no room for " + formatBytes(plan.bytes_without_room) + " of what " +
                              name + " has, without being filled above 85 %; add a server, or remove objects"});
  }
  if (plan.steps.empty()) {
    say("nothing to do: " + name + " has no tablets\n");
    return tools::kExitOk;
  }
  if (!flags_.json) say(textOf(*input, plan, Measure::Bytes));
  const int code = carryOut(plan.steps);
  if (!flags_.json && code == tools::kExitOk && !flags_.no_wait) {
    say(name + " has no tablets any more; 'rcmigrate rebalance' brings some back\n");
  }
  return code;
}

int Commands::plan() {
  const Outcome<PlanInput> input = gatherInput(session_, sampleMs(), flags_.timeout_ms);
  if (!input) return tools::fail(kProgram, input.error());
  const Measure measure = measureOf(flags_.by).value_or(Measure::Bytes);
  const Plan plan = level(input->servers, input->tablets, measure);
  say(flags_.json ? jsonOf(*input, plan, measure) : textOf(*input, plan, measure));
  return tools::kExitOk;
}

// Sizes and calls are estimated from samples. So it is looked at what has come of a plan, and what is left is planned
// again.
int Commands::rebalance() {
  const Measure measure = measureOf(flags_.by).value_or(Measure::Bytes);
  Mover mover(session_, moverSettings(), interrupted_);
  int code = tools::kExitOk;
  for (int round = 0; round < kRoundsMax && code == tools::kExitOk && interrupted_ == 0; ++round) {
    const Outcome<PlanInput> input = gatherInput(session_, sampleMs(), flags_.timeout_ms);
    if (!input) return tools::fail(kProgram, input.error());
    const Plan plan = level(input->servers, input->tablets, measure);
    const bool is_first = round == 0;
    if (!flags_.json && (is_first || !plan.steps.empty())) say(textOf(*input, plan, measure));
    if (flags_.json && is_first && plan.steps.empty()) say(jsonOf(*input, plan, measure));
    if (plan.steps.empty() && is_first) return tools::kExitOk;
    if (plan.steps.empty()) break;
    if (!flags_.yes && isatty(STDIN_FILENO) == 0) {
      return tools::fail(kProgram, {Status::BadConfig, "nobody can be asked whether to do that; give --yes"});
    }
    if (!flags_.yes && !isAgreed(movesIn(plan.steps))) {
      say(is_first ? "nothing was done\n" : "nothing more was done\n");
      break;
    }
    code = mover.run(plan.steps);
    // Where the load will be is not known before the tablets are there.
    if (flags_.no_wait) break;
  }
  if (flags_.json) say(mover.asJson());
  return code;
}

bool Commands::isAgreed(size_t moves) const {
  std::cerr << "carry out " << moves << (moves == 1 ? " move" : " moves") << "? [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

// ---- moves under way

int Commands::status() {
  if (flags_.migration != 0) return statusOfOne();
  CallHistory calls;
  size_t looks = 0;
  while (true) {
    const auto moves = session_.await(coordinator().listMigrations(deadlineNs()));
    if (!moves) return failed(moves.error(), "the moves");
    const Result<client::ClusterStatus> cluster = clusterStatus();
    if (!cluster) return failed(cluster.error(), "the cluster");
    if (flags_.watch && lookAtCalls(calls)) ++looks;
    // From the second look on it is known what was between two of them.
    const CallHistory* const known = looks > 1 ? &calls : nullptr;
    say(flags_.json ? movesJson(*moves, *cluster, known) : movesText(*moves, *cluster, known));
    const bool goes_on = std::ranges::any_of(*moves, isRunning);
    if (!flags_.watch || !goes_on || interrupted_ != 0) return tools::kExitOk;
    session_.await(pause(session_.dispatch(), kWatchNs));
    if (interrupted_ != 0) return tools::kExitOk;
    if (!flags_.json) say("\n");
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
                         {"to", nameOf(cluster, move.destination)},
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
  return out.dump(2) + "\n";
}

std::string Commands::movesText(const std::vector<MigrationRecord>& moves, const client::ClusterStatus& cluster,
                                const CallHistory* calls) const {
  if (moves.empty()) return "no move is under way, and none was lately\n";
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
    if (!move.reason.empty()) out += (isRunning(move) ? ", waits for " : ", ") + move.reason;
    out += "\n";
  }
  if (calls == nullptr) return out;
  for (const ServerId server : serversOf(moves)) {
    out += "calls at " + nameOf(cluster, server) + ": " + textOf(calls->lately(server)) + "\n";
  }
  return out;
}

int Commands::statusOfOne() {
  const std::string what = "migration " + std::to_string(flags_.migration);
  while (true) {
    const Result<MigrationStatus> now = session_.await(coordinator().migrationStatus(flags_.migration, deadlineNs()));
    if (!now && now.error() == Status::NotFound) {
      return tools::fail(kProgram, {Status::NotFound, what + " is not known; 'rcmigrate status' shows the moves"});
    }
    if (!now) return failed(now.error(), what);
    if (flags_.json) {
      tools::Json out = {{"migration", flags_.migration}};
      out.update(jsonOf(*now));
      say(out.dump(2) + "\n");
    } else {
      std::printf("%s: %s%s%s, %.0f %%, %" PRIu64 " objects, %s%s%s\n", what.c_str(), nameOf(now->state).c_str(),
                  now->step.empty() ? "" : ", ", now->step.c_str(), now->fraction * 100, now->objects,
                  formatBytes(now->bytes).c_str(), now->reason.empty() ? "" : ", ", now->reason.c_str());
      std::fflush(stdout);
    }
    if (!flags_.watch || now->state != MigrationStatus::State::Running || interrupted_ != 0) return tools::kExitOk;
    session_.await(pause(session_.dispatch(), kWatchNs));
  }
}

int Commands::rate() {
  const std::string what = "migration " + std::to_string(flags_.migration);
  const Status status = session_.await(coordinator().setMigrationRate(flags_.migration, flags_.rate_max, deadlineNs()));
  if (status == Status::BadRequest) {
    return tools::fail(kProgram, {status, what + " is over; 'rcmigrate status' shows the moves under way"});
  }
  if (status == Status::NotFound) {
    return tools::fail(kProgram, {status, what + " is not known; 'rcmigrate status' shows the moves"});
  }
  if (status != Status::Ok) return failed(status, what);
  say(what + ": " + formatBytes(flags_.rate_max) + "/s at the most\n");
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
    return failedAs(kExitNoRoom,
                    {status, what +
                                 ": the server that the tablet comes from has no room for what was changed since; "
                                 "the move goes on. Remove objects there, or let it end; 'rcmigrate status " +
                                 std::to_string(flags_.migration) + "' has the numbers"});
  }
  if (status == Status::NotFound) {
    return tools::fail(kProgram, {status, what + " is not known; 'rcmigrate status' shows the moves"});
  }
  if (status != Status::Ok) return failed(status, what);
  say(what + ": cancelled\n");
  return tools::kExitOk;
}

}  // namespace ramcore::rcmigrate
