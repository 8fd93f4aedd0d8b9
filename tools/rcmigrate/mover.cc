#include "tools/rcmigrate/mover.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iostream>
#include <iterator>
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
using tools::Json;

// For one step, while the coordinator is there and does not say whether it has begun.
constexpr int kAttemptsMax = 6;
constexpr int64_t kLookNs = 50 * runtime::kNanosPerMilli;
// Between two looks at the calls of clients, and two lines about how far the moves are.
constexpr int64_t kProgressNs = runtime::kNanosPerSecond;
// The same where there is no terminal, once it takes longer.
constexpr int64_t kLaterProgressNs = 10 * runtime::kNanosPerSecond;
// The calls of so long a time are what was before the moves.
constexpr int64_t kBeforeNs = runtime::kNanosPerSecond / 2;
// For how long a coordinator that does not answer is asked how far the moves are.
constexpr int64_t kSilenceNs = 60 * runtime::kNanosPerSecond;

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

void Mover::run(const std::vector<PlanStep>& steps) {
  steps_count_ += static_cast<size_t>(std::ranges::count(steps, PlanStep::Kind::Move, &PlanStep::kind));
  if (tellsOfCalls() && !calls_.hasBegun()) lookBefore();
  size_t next = 0;
  while (next < steps.size() || !under_way_.empty()) {
    while (next < steps.size() && under_way_.size() < settings_.parallel && interrupted_ == 0 && !is_cut_off_) {
      if (isBusy(steps[next])) break;
      begin(steps[next++]);
    }
    const bool begins_no_more = interrupted_ != 0 || is_cut_off_;
    if (under_way_.empty()) {
      if (begins_no_more) break;
      continue;
    }
    look();
    if (interrupted_ != 0 || (silent_since_ != 0 && session_.nowNs() - silent_since_ >= kSilenceNs)) break;
    showProgress();
    if (!under_way_.empty()) session_.await(pause(session_.dispatch(), kLookNs));
  }
  progress_.clear();
  if (tellsOfCalls()) lookAtCalls();
  sayWhatGoesOn();
}

void Mover::follow(const std::vector<client::MigrationRecord>& moves) {
  for (const client::MigrationRecord& record : moves) {
    Move move{.migration = record.migration, .step = {}, .begun_ns = session_.nowNs(), .now = record};
    move.step = {.table = {}, .range = {}, .from = record.source, .to = record.destination};
    move.from_name = tools::formatServer(record.source);
    move.to_name = tools::formatServer(record.destination);
    move.what = "tablet " + std::to_string(record.tablet.value) + " to server " + move.to_name;
    under_way_.push_back(std::move(move));
  }
  steps_count_ += moves.size();
  run({});
}

void Mover::sayWhatGoesOn() {
  for (const Move& move : under_way_) {
    const std::string number = std::to_string(move.migration);
    std::cerr << move.what << ": migration " << number << " goes on; 'rcmigrate cancel " << number
              << "' gives it up, or takes it back\n";
  }
  const size_t begun = done_ + failed_ + under_way_.size();
  if (begun < steps_count_) {
    std::cerr << steps_count_ - begun << " of " << steps_count_
              << " moves were not begun; give the command again to go on\n";
  }
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

// ---- beginning

void Mover::begin(const PlanStep& step) {
  // What should have become of a cut is not there if the cut has failed.
  const auto is_cut = [&](const Failed& one) {
    return one.step.kind == PlanStep::Kind::Split && overlaps(one.step, step);
  };
  if (std::ranges::any_of(failed_steps_, is_cut)) {
    if (step.kind == PlanStep::Kind::Move) failed_steps_.push_back({step, "the tablet was not cut"});
    if (step.kind == PlanStep::Kind::Move) ++failed_;
    return;
  }
  if (step.kind == PlanStep::Kind::Split) return beginSplit(step);
  const Result<client::ClusterStatus> cluster = session_.await(coordinator().clusterStatus(deadlineNs()));
  if (!cluster) {
    is_cut_off_ = true;
    return failStep(step, tools::kExitFailed, tools::explain(cluster.error(), "the cluster", coordinator()));
  }
  for (const client::TableMap& table : cluster->tables) table_names_[table.table] = table.name;
  const auto table = std::ranges::find(cluster->tables, step.table, &client::TableMap::table);
  if (table == cluster->tables.end()) return failDropped(step);
  const auto tablet = std::ranges::find(table->tablets, step.range, &client::TabletInfo::range);
  if (tablet != table->tablets.end()) return beginMove(step, *cluster, *tablet);
  failStep(step, tools::kExitFailed,
           {Status::NotFound, "there is no tablet from " + textOf(step.range) + " of table '" + table->name +
                                  "' any more; somebody has changed it, so begin again"});
}

void Mover::beginSplit(const PlanStep& step) {
  const auto halves = untilKnown([&] { return coordinator().splitTable(step.table, step.at, deadlineNs()); });
  // BadRequest: a tablet begins there already.
  if (halves || halves.error() == Status::BadRequest) return;
  const std::string what = "the tablet from " + textOf(step.range);
  if (halves.error() == Status::NoSuchTable) return failDropped(step);
  if (halves.error() == Status::RetryLater) {
    return failStep(step, kExitNotNow,
                    {Status::RetryLater, what + " cannot be split now: it is in transition; try again"});
  }
  failStep(step, tools::kExitFailed, tools::explain(halves.error(), "splitting " + what, coordinator()));
}

void Mover::beginMove(const PlanStep& step, const client::ClusterStatus& cluster, const client::TabletInfo& tablet) {
  const std::string what = "tablet " + std::to_string(tablet.id.value) + " to " + nameOf(cluster, step.to);
  if (tablet.owner == step.to && !tablet.is_moving) return noteThere(what);
  const Result<uint64_t> migration =
      untilKnown([&] { return coordinator().moveTablet(tablet.id, step.to, deadlineNs(), settings_.rate_max); });
  // BadRequest: it has come there meanwhile.
  if (!migration && migration.error() == Status::BadRequest) return noteThere(what);
  if (!migration && migration.error() == Status::RetryLater) {
    is_cut_off_ = !settings_.waits;  // the others would have to wait as long
    return failStep(step, kExitNotNow,
                    {Status::RetryLater, what + ": not now, the tablet is already moving or being split, one of the "
                                                "servers does not answer, or 256 moves are under way; try again"});
  }
  if (!migration && migration.error() == Status::NotFound) {
    return failStep(step, tools::kExitFailed,
                    {Status::NotFound, what + ": the tablet or the server is gone; 'rcmigrate list' shows the tablets "
                                              "and 'ramcore status' the servers that exist"});
  }
  if (!migration) {
    return failStep(step, tools::kExitFailed, tools::explain(migration.error(), "moving " + what, coordinator()));
  }
  Move move{.migration = *migration,
            .step = step,
            .what = what,
            .from_name = nameOf(cluster, tablet.owner),
            .to_name = nameOf(cluster, step.to),
            .begun_ns = session_.nowNs(),
            .now = {}};
  move.now.migration = *migration;
  move.now.tablet = tablet.id;
  move.now.source = tablet.owner;
  move.now.destination = step.to;
  move.now.rate_max = settings_.rate_max;
  move.rate_is_to_be_looked_at = settings_.rate_max != 0;
  if (settings_.waits) {
    under_way_.push_back(std::move(move));
    return;
  }
  ++done_;
  if (!settings_.json) say(what + ": migration " + std::to_string(*migration) + " has begun\n");
  move.outcome = "begun";
  over_.push_back(std::move(move));
}

void Mover::noteThere(const std::string& what) {
  if (!settings_.json) say(what + ": it is there already\n");
  ++done_;
}

// ---- how it goes

void Mover::look() {
  const auto moves = session_.await(coordinator().listMigrations(deadlineNs()));
  if (!moves) return noteSilence(moves.error());
  silent_since_ = 0;
  std::vector<Move> left;
  for (Move& move : under_way_) {
    const auto found = std::ranges::find(*moves, move.migration, &client::MigrationRecord::migration);
    if (found == moves->end()) {
      noteForgotten(move);
      continue;
    }
    move.now = *found;
    if (move.now.state == MigrationStatus::State::Running) {
      keepRate(move);
      left.push_back(std::move(move));
    } else {
      finish(move);
    }
  }
  under_way_ = std::move(left);
}

// The moves go on without it.
void Mover::noteSilence(Status status) {
  if (silent_since_ != 0) return;
  silent_since_ = session_.nowNs();
  progress_.clear();
  const Failure why = tools::explain(status, "the moves", coordinator());
  std::cerr << "the coordinator does not say how far the moves are, which go on: " << why.message << "\n";
}

// The coordinator remembers the last moves that have ended. Where the tablet is says how this one has.
void Mover::noteForgotten(Move& move) {
  const Result<client::ClusterStatus> cluster = session_.await(coordinator().clusterStatus(deadlineNs()));
  const auto tablet = cluster ? findTablet(*cluster, move.now.tablet.value) : Outcome<client::TabletInfo>(Failure());
  if (tablet && tablet->owner == move.step.to && !tablet->is_moving) {
    move.now.state = MigrationStatus::State::Done;
    return finish(move);
  }
  move.outcome = "unknown";
  over_.push_back(move);
  fail(tools::kExitFailed, {Status::NotFound, move.what + ": the coordinator does not know of its end any more; "
                                                          "'rcmigrate list' shows where the tablet is"});
}

// The move may have been begun before, with another rate. Whoever changes it later has the last word.
void Mover::keepRate(Move& move) {
  if (!std::exchange(move.rate_is_to_be_looked_at, false) || move.now.rate_max == settings_.rate_max) return;
  static_cast<void>(session_.await(coordinator().setMigrationRate(move.migration, settings_.rate_max, deadlineNs())));
}

void Mover::finish(Move& move) {
  const double seconds = static_cast<double>(session_.nowNs() - move.begun_ns) * 1e-9;
  const std::string where = "); 'rcmigrate list' shows where the tablet is";
  move.outcome = nameOf(move.now.state);
  over_.push_back(move);
  progress_.clear();
  switch (move.now.state) {
    case MigrationStatus::State::Done:
      ++done_;
      if (!settings_.json) say(move.what + ": " + progressText(move.now, seconds) + "\n");
      return;
    case MigrationStatus::State::Cancelled:
      return fail(kExitCancelled, {Status::Cancelled, move.what + ": given up (" + move.now.reason + where});
    default:
      return fail(move.now.lacks_room ? static_cast<int>(kExitNoRoom) : static_cast<int>(tools::kExitFailed),
                  {Status::Internal, move.what + ": failed (" + move.now.reason + where});
  }
}

// Calls are only told of: if nobody answers soon, the moves go on.
void Mover::lookAtCalls() {
  looked_ns_ = session_.nowNs();
  const int64_t deadline_ns = std::min(deadlineNs(), looked_ns_ + runtime::kNanosPerSecond);
  auto loads = session_.await(coordinator().clusterLoads(deadline_ns, /*only_calls=*/true));
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
  const int64_t now_ns = session_.nowNs();
  if (first_shown_ns_ == 0) first_shown_ns_ = now_ns;
  const bool is_time = now_ns - looked_ns_ >= kProgressNs;
  if (is_time) lookAtCalls();
  if (settings_.quiet) return;
  const bool is_late = now_ns - first_shown_ns_ > kLaterProgressNs;
  const int64_t every_ns = is_late ? kLaterProgressNs : kProgressNs;
  if (!progress_.isOnTerminal() && now_ns - std::max(shown_ns_, first_shown_ns_) < every_ns) return;
  shown_ns_ = now_ns;
  const auto arrives = std::ranges::find_if(under_way_, [](const Move& one) { return one.now.step == "arriving"; });
  const Move& move = arrives == under_way_.end() ? under_way_.front() : *arrives;
  progress_.show({progressOf(move), "  calls at " + move.from_name + ": " + callsAt(move.now.source),
                  "  calls at " + move.to_name + ": " + callsAt(move.now.destination)});
}

std::string Mover::progressOf(const Move& move) const {
  const int64_t age_ns = move.now.age_ns >= 0 ? move.now.age_ns : session_.nowNs() - move.begun_ns;
  const double seconds = static_cast<double>(age_ns) * 1e-9;
  std::string line = move.what + ": " + progressText(move.now, seconds);
  if (move.now.fraction > 0.01 && move.now.fraction < 1) {
    char left[48];
    std::snprintf(left, sizeof left, ", about %.0f s left", seconds * (1 - move.now.fraction) / move.now.fraction);
    line += left;
  }
  line += ", is " + move.now.step;
  if (!move.now.reason.empty()) line += ": " + move.now.reason;
  if (steps_count_ > 1) {
    line += "; " + std::to_string(done_) + " of " + std::to_string(steps_count_) + " moves done, " +
            std::to_string(under_way_.size()) + " under way";
  }
  return line;
}

std::string Mover::callsAt(ServerId server) const {
  return textOf(calls_.lately(server)) + " (before: " + textOf(calls_.before(server)) + ")";
}

// ---- failures and the end

void Mover::failStep(const PlanStep& step, int code, const Failure& failure) {
  failed_steps_.push_back({step, failure.message});
  if (step.kind == PlanStep::Kind::Move) return fail(code, failure);
  // The moves of its parts count.
  fail(code, failure);
  --failed_;
}

// What was to be done with a table is told once.
void Mover::failDropped(const PlanStep& step) {
  const auto known = table_names_.find(step.table);
  const std::string name = known == table_names_.end() ? std::to_string(step.table.value) : "'" + known->second + "'";
  const Failure failure{Status::NoSuchTable, "table " + name + " has been dropped meanwhile; nothing of it is moved"};
  if (dropped_.insert(step.table).second) return failStep(step, tools::kExitFailed, failure);
  if (step.kind != PlanStep::Kind::Move) return;
  failed_steps_.push_back({step, failure.message});
  ++failed_;
}

void Mover::fail(int code, const Failure& failure) {
  progress_.clear();
  static_cast<void>(tools::fail(kProgram, failure));
  ++failed_;
  if (failure_code_ == 0) failure_code_ = code;
}

int Mover::exitCode() const {
  const bool is_all_done = failure_code_ == 0 && done_ == steps_count_;
  if (is_all_done) return tools::kExitOk;
  // What goes on without this process, or was not begun, is neither done nor has it failed.
  const bool is_in_part = failure_code_ == 0 || done_ != 0 || !under_way_.empty();
  return is_in_part ? static_cast<int>(tools::kExitPartial) : failure_code_;
}

Json Mover::report() const {
  Json moves = Json::array();
  for (const Move& move : over_) moves.append(asJson(move));
  for (const Move& move : under_way_) moves.append(asJson(move));
  Json failed = Json::array();
  for (const Failed& one : failed_steps_) {
    failed.append({{"step", one.step.kind == PlanStep::Kind::Split ? "split" : "move"},
                   {"first_hash", hexText(one.step.range.first)},
                   {"last_hash", hexText(one.step.range.last)},
                   {"reason", one.reason}});
  }
  const size_t begun = done_ + failed_ + under_way_.size();
  const Json counts = {{"planned", steps_count_},
                       {"done", done_},
                       {"failed", failed_},
                       {"under_way", under_way_.size()},
                       {"not_begun", steps_count_ - std::min(begun, steps_count_)}};
  return {{"moves", moves}, {"failed", failed}, {"counts", counts}, {"calls", callsAsJson()}};
}

Json Mover::asJson(const Move& move) const {
  return {{"migration", move.migration},
          {"tablet", move.now.tablet.value},
          {"from", move.from_name},
          {"from_id", tools::formatServer(move.step.from)},
          {"to", move.to_name},
          {"to_id", tools::formatServer(move.step.to)},
          {"state", move.outcome.empty() ? "running" : move.outcome},
          {"objects", move.now.objects},
          {"bytes", move.now.bytes},
          {"reason", move.now.reason}};
}

// How long calls took at the servers that took part.
Json Mover::callsAsJson() const {
  const auto asObject = [](const CallTimes& times) -> Json {
    if (times.calls == 0) return {{"calls", 0}, {"p50_ns", nullptr}, {"p999_ns", nullptr}};
    return {{"calls", times.calls}, {"p50_ns", times.p50_ns}, {"p999_ns", times.p999_ns}};
  };
  std::map<ServerId, std::string> servers;
  for (const std::vector<Move>* moves : {&over_, &under_way_}) {
    for (const Move& move : *moves) {
      servers[move.step.from] = move.from_name;
      servers[move.step.to] = move.to_name;
    }
  }
  Json list = Json::array();
  for (const auto& [server, name] : servers) {
    list.append({{"server", name},
                 {"server_id", tools::formatServer(server)},
                 {"before", asObject(calls_.before(server))},
                 {"during", asObject(calls_.sinceBegin(server))}});
  }
  return list;
}

}  // namespace ramcore::rcmigrate
