#include "tools/rcmigrate/mover.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <set>
#include <utility>

#include "base/id_text.h"
#include "runtime/await.h"
#include "tools/rcmigrate/program.h"
#include "tools/rcmigrate/tablet_listing.h"
#include "tools/support/cluster_flags.h"
#include "tools/support/display.h"

namespace ramcore::rcmigrate {
namespace {

using client::MigrationStatus;
using tools::formatBytes;

// For one step, while the coordinator is there and does not say whether it has begun.
constexpr int kAttemptsMax = 6;
constexpr int64_t kLookNs = 50 * runtime::kNanosPerMilli;
// Between two looks at the calls of clients, and two lines about how far the moves are.
constexpr int64_t kProgressNs = runtime::kNanosPerSecond;
// The calls of so long a time are what was before the moves.
constexpr int64_t kBeforeNs = runtime::kNanosPerSecond / 2;

bool overlaps(const PlanStep& a, const PlanStep& b) {
  return a.table == b.table && a.range.first <= b.range.last && b.range.first <= a.range.last;
}

std::string textOf(const HashRange& range) { return hexText(range.first) + " to " + hexText(range.last); }

}  // namespace

std::string progressText(const MigrationStatus& now, double seconds) {
  char text[160];
  const double rate = seconds > 0 ? static_cast<double>(now.bytes) / seconds : 0;
  const bool is_done = now.state == MigrationStatus::State::Done;
  std::snprintf(text, sizeof text, "%3.0f %%, %" PRIu64 " objects, %s in %.2f s, %s/s",
                is_done ? 100.0 : now.fraction * 100, now.objects, formatBytes(now.bytes).c_str(), seconds,
                formatBytes(static_cast<uint64_t>(rate)).c_str());
  return text;
}

int Mover::run(const std::vector<PlanStep>& steps) {
  steps_count_ += static_cast<size_t>(std::ranges::count(steps, PlanStep::Kind::Move, &PlanStep::kind));
  if (tellsOfCalls() && !calls_.hasBegun()) lookBefore();
  size_t next = 0;
  while (next < steps.size() || !under_way_.empty()) {
    while (next < steps.size() && under_way_.size() < settings_.parallel && interrupted_ == 0) {
      if (isBusy(steps[next])) break;
      begin(steps[next++]);
    }
    if (under_way_.empty()) {
      if (interrupted_ != 0) break;
      continue;
    }
    if (!look() || interrupted_ != 0) break;
    showProgress();
    if (!under_way_.empty()) session_.await(pause(session_.dispatch(), kLookNs));
  }
  progress_.clear();
  if (tellsOfCalls()) lookAtCalls();
  for (const Move& move : under_way_) {
    const std::string number = std::to_string(move.migration);
    std::cerr << move.what << ": migration " << number << " goes on; 'rcmigrate cancel " << number
              << "' gives it up, or takes it back\n";
  }
  return exitCode();
}

// A split, or a move of the same tablet to the same server, that was begun before is not begun again.
template <typename Ask>
auto Mover::untilKnown(const Ask& ask) {
  auto answer = session_.await(ask());
  for (int i = 1; i < kAttemptsMax && !answer && answer.error() == Status::OutcomeUnknown && interrupted_ == 0; ++i) {
    answer = session_.await(ask());
  }
  return answer;
}

bool Mover::isBusy(const PlanStep& step) const {
  return std::ranges::any_of(under_way_, [&](const Move& move) { return overlaps(move.step, step); });
}

void Mover::begin(const PlanStep& step) {
  if (step.kind == PlanStep::Kind::Split) return beginSplit(step);
  const Result<client::ClusterStatus> cluster = session_.await(coordinator().clusterStatus(deadlineNs()));
  if (!cluster) return failAnswer(cluster.error(), "the cluster");
  const auto table = std::ranges::find(cluster->tables, step.table, &client::TableMap::table);
  if (table == cluster->tables.end()) return failDropped(step.table);
  const auto tablet = std::ranges::find(table->tablets, step.range, &client::TabletInfo::range);
  if (tablet != table->tablets.end()) return beginMove(step, *cluster, *tablet);
  fail(tools::kExitFailed, {Status::NotFound, "there is no tablet from " + textOf(step.range) + " of table '" +
                                                  table->name + "' any more; somebody has changed it, so begin again"});
}

// What was to be done with a table is told once.
void Mover::failDropped(TableId table) {
  if (!dropped_.insert(table).second) {
    ++failed_;
    return;
  }
  fail(tools::kExitFailed, {Status::NoSuchTable, "table " + std::to_string(table.value) +
                                                     " has been dropped meanwhile; what was planned for other tables "
                                                     "goes on"});
}

void Mover::beginSplit(const PlanStep& step) {
  const auto halves = untilKnown([&] { return coordinator().splitTable(step.table, step.at, deadlineNs()); });
  // BadRequest: a tablet begins there already.
  if (halves || halves.error() == Status::BadRequest) return;
  if (halves.error() == Status::NoSuchTable) return failDropped(step.table);
  if (halves.error() == Status::RetryLater) {
    return fail(kExitNotNow, {Status::RetryLater, "the tablet from " + textOf(step.range) +
                                                      " cannot be split now: it is in transition; try again"});
  }
  failAnswer(halves.error(), "splitting the tablet from " + textOf(step.range));
}

void Mover::beginMove(const PlanStep& step, const client::ClusterStatus& cluster, const client::TabletInfo& tablet) {
  const std::string what = "tablet " + std::to_string(tablet.id.value) + " to " + nameOf(cluster, step.to);
  if (tablet.owner == step.to) {
    if (!settings_.json) say(what + ": it is there already\n");
    ++done_;
    return;
  }
  const Result<uint64_t> migration =
      untilKnown([&] { return coordinator().moveTablet(tablet.id, step.to, deadlineNs(), settings_.rate_max); });
  if (!migration && migration.error() == Status::RetryLater) {
    return fail(kExitNotNow, {Status::RetryLater, what + ": not now, the tablet is already moving or being split, or "
                                                         "one of the servers does not answer; try again"});
  }
  if (!migration && migration.error() == Status::NotFound) {
    return fail(tools::kExitFailed,
                {Status::NotFound, what + ": the tablet or the server is gone; 'rcmigrate list' shows "
                                          "the tablets and 'ramcore status' the servers that exist"});
  }
  if (!migration) return failAnswer(migration.error(), "moving " + what);
  Move move{.migration = *migration,
            .step = step,
            .what = what,
            .from_name = nameOf(cluster, tablet.owner),
            .to_name = nameOf(cluster, step.to),
            .begun_ns = session_.nowNs(),
            .now = {}};
  if (settings_.waits) {
    under_way_.push_back(std::move(move));
    return;
  }
  ++done_;
  if (!settings_.json) say(what + ": migration " + std::to_string(*migration) + " has begun\n");
  move.now.state = MigrationStatus::State::Running;
  over_.push_back(std::move(move));
}

// False: the coordinator does not answer.
bool Mover::look() {
  const auto moves = session_.await(coordinator().listMigrations(deadlineNs()));
  if (!moves) {
    failAnswer(moves.error(), "the moves");
    return false;
  }
  std::vector<Move> left;
  for (Move& move : under_way_) {
    const auto found = std::ranges::find(*moves, move.migration, &client::MigrationRecord::migration);
    if (found == moves->end()) {
      fail(tools::kExitFailed, {Status::NotFound, move.what + ": the coordinator does not know of its end any more; "
                                                              "'rcmigrate list' shows where the tablet is"});
      continue;
    }
    move.now = *found;
    if (move.now.state == MigrationStatus::State::Running) {
      left.push_back(std::move(move));
    } else {
      finish(move);
    }
  }
  under_way_ = std::move(left);
  return true;
}

void Mover::finish(const Move& move) {
  over_.push_back(move);
  const double seconds = static_cast<double>(session_.nowNs() - move.begun_ns) * 1e-9;
  const std::string where = "); 'rcmigrate list' shows where the tablet is";
  switch (move.now.state) {
    case MigrationStatus::State::Done:
      ++done_;
      progress_.clear();
      if (!settings_.json) say(move.what + ": " + progressText(move.now, seconds) + "\n");
      return;
    case MigrationStatus::State::Cancelled:
      return fail(kExitCancelled, {Status::Cancelled, move.what + ": given up (" + move.now.reason + where});
    default:
      return fail(move.now.lacks_room ? static_cast<int>(kExitNoRoom) : static_cast<int>(tools::kExitFailed),
                  {Status::Internal, move.what + ": failed (" + move.now.reason + where});
  }
}

// ---- how it goes

// Calls are only told of: if nobody answers, the moves go on.
void Mover::lookAtCalls() {
  looked_ns_ = session_.nowNs();
  auto loads = session_.await(coordinator().clusterLoads(deadlineNs(), /*only_calls=*/true));
  if (!loads) return;
  for (client::ServerCalls& server : loads->calls) calls_.note(server.server, std::move(server.counts));
}

void Mover::lookBefore() {
  lookAtCalls();
  session_.await(pause(session_.dispatch(), kBeforeNs));
  lookAtCalls();
  calls_.markBegin();
}

void Mover::showProgress() {
  if (under_way_.empty() || !tellsOfCalls()) return;
  const bool is_time = session_.nowNs() - looked_ns_ >= kProgressNs;
  if (is_time) lookAtCalls();
  if (settings_.quiet || (!is_time && !progress_.isOnTerminal())) return;
  const Move& first = under_way_.front();
  std::vector<std::string> lines{progressOf(first)};
  lines.push_back("  calls at " + first.from_name + ": " + callsAt(first.now.source));
  lines.push_back("  calls at " + first.to_name + ": " + callsAt(first.now.destination));
  progress_.show(lines);
}

std::string Mover::progressOf(const Move& move) const {
  const double seconds = static_cast<double>(session_.nowNs() - move.begun_ns) * 1e-9;
  std::string line = move.what + ": " + progressText(move.now, seconds);
  if (move.now.fraction > 0.01 && move.now.fraction < 1) {
    char left[48];
    std::snprintf(left, sizeof left, ", about %.0f s left", seconds * (1 - move.now.fraction) / move.now.fraction);
    line += left;
  }
  line += ", is " + move.now.step;
  if (!move.now.reason.empty()) line += ", waits for " + move.now.reason;
  if (steps_count_ > 1) {
    line += "; " + std::to_string(done_) + " of " + std::to_string(steps_count_) + " moves done, " +
            std::to_string(under_way_.size()) + " under way";
  }
  return line;
}

std::string Mover::callsAt(ServerId server) const {
  return textOf(calls_.lately(server)) + " (before: " + textOf(calls_.before(server)) + ")";
}

void Mover::fail(int code, const Failure& failure) {
  progress_.clear();
  static_cast<void>(tools::fail(kProgram, failure));
  ++failed_;
  if (failure_code_ == 0) failure_code_ = code;
}

void Mover::failAnswer(Status status, const std::string& what) {
  fail(tools::kExitFailed, tools::explain(status, what, coordinator()));
}

int Mover::exitCode() const {
  const bool is_all_done = failed_ == 0 && done_ == steps_count_;
  if (is_all_done) return tools::kExitOk;
  // What goes on without this process is neither done nor has it failed.
  if (failed_ == 0) return tools::kExitPartial;
  return done_ == 0 ? failure_code_ : static_cast<int>(tools::kExitPartial);
}

std::string Mover::asJson() const {
  tools::Json moves = tools::Json::array();
  for (const Move& move : over_) {
    moves.append({{"migration", move.migration},
                  {"tablet", move.now.tablet.value},
                  {"from", tools::formatServer(move.step.from)},
                  {"to", tools::formatServer(move.step.to)},
                  {"state", nameOf(move.now.state)},
                  {"objects", move.now.objects},
                  {"bytes", move.now.bytes},
                  {"reason", move.now.reason}});
  }
  return tools::Json{{"moves", moves}, {"calls", callsAsJson()}}.dump(2) + "\n";
}

// How long calls took at the servers that took part.
tools::Json Mover::callsAsJson() const {
  const auto asObject = [](const CallTimes& times) -> tools::Json {
    return {{"calls", times.calls}, {"p50_ns", times.p50_ns}, {"p999_ns", times.p999_ns}};
  };
  std::set<ServerId> servers;
  for (const Move& move : over_) servers.insert({move.step.from, move.step.to});
  tools::Json list = tools::Json::array();
  for (const ServerId server : servers) {
    list.append({{"server", tools::formatServer(server)},
                 {"before", asObject(calls_.before(server))},
                 {"during", asObject(calls_.sinceBegin(server))}});
  }
  return list;
}

}  // namespace ramcore::rcmigrate
