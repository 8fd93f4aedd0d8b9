#include "coordinator/recovery/dead_log.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "coordinator/survey/storage_lineage.h"

namespace ramcore::coordinator {
namespace {

constexpr size_t kShownMax = 10;
// For how long a survivor waits for answers that may make its plan shorter.
constexpr int64_t kSurvivorGraceNs = runtime::kNanosPerSecond;

std::string text(const std::vector<SegmentId>& segments) {
  std::string list;
  for (size_t i = 0; i < segments.size() && i < kShownMax; ++i) {
    list += (i == 0 ? "" : ", ") + std::to_string(segments[i].value);
  }
  return list + (segments.size() > kShownMax ? ", ..." : "");
}

}  // namespace

bool DeadLog::ask(const std::function<void(ServerId backup)>& fence) {
  const int64_t now_ns = parts_.journal.nowNs();
  bool any = false;
  for (const Server* server : parts_.membership.servers()) {
    if (!server->keeps_replicas || !parts_.membership.hasReported(server->id)) continue;
    any = true;
    Asked& asked = asked_[server->id];
    if (asked.is_answered || asked.is_under_way || now_ns < asked.again_ns) continue;
    asked.is_under_way = true;
    if (asked_ns_ == 0) asked_ns_ = now_ns;
    fence(server->id);
  }
  return any;
}

void DeadLog::noteAnswer(ServerId backup, FenceResult result) {
  Asked& asked = asked_[backup];
  asked.is_under_way = false;
  asked.is_answered = result.status == Status::Ok;
  if (asked.is_answered) {
    answers_[backup] = std::move(result.replicas);
  } else {
    asked.again_ns = parts_.journal.nowNs() + kAskAgainNs;
  }
}

void DeadLog::forgetAnswers() {
  answers_.clear();
  asked_ns_ = 0;
  for (auto& [backup, asked] : asked_) {
    asked.is_answered = false;
    if (asked.is_under_way) asked_ns_ = parts_.journal.nowNs();  // a question that is under way counts as asked now
  }
}

bool DeadLog::isAsking() const {
  return std::any_of(asked_.begin(), asked_.end(), [](const auto& one) { return one.second.is_under_way; });
}

// The answer of a server counts while the server lives: a dead server can be asked for no replica.
void DeadLog::review() {
  const auto is_gone = [&](const auto& one) { return !parts_.membership.isAlive(one.first); };
  std::erase_if(answers_, is_gone);
  std::erase_if(asked_, [&](const auto& one) { return is_gone(one) && !one.second.is_under_way; });
  const ReplicaFloor& floor = parts_.membership.find(dead_)->floor;
  // Sync tables are no exception: a replica whose newest bytes have rotted looks the same as one that lost what was not
  // flushed.
  const SurveyFacts facts{.nobody_is_away = away().empty(), .read = parts_.membership.find(dead_)->read};
  survey_ = surveyLog(floor, answers_, facts);
  salvage_ = {};
  loss_token_ = 0;
  if (survey_.isComplete()) return;
  salvage_ = salvageLog(floor, answers_, facts);
  if (hasAllAnswers()) loss_token_ = salvage_.token(dead_, away());
}

bool DeadLog::hasAllAnswers() const {
  for (const Server* server : parts_.membership.servers()) {
    if (server->alive && server->keeps_replicas && !answers_.contains(server->id)) return false;
  }
  return true;
}

bool DeadLog::mayLose() const {
  const AcceptedLoss& accepted = parts_.membership.find(dead_)->accepted_loss;
  return accepted.token != 0 && loss_token_ != 0 && covers(accepted, salvage_);
}

std::string DeadLog::whatIsMissing() const {
  const LogSurvey& survey = survey_;
  std::string what;
  if (survey.head == SegmentId()) {
    const ReplicaFloor& floor = parts_.membership.find(dead_)->floor;
    what = "the end of its log is not found: no open replica of segment " + std::to_string(floor.segment.value) +
           " at replica epoch " + std::to_string(floor.replica_epoch) + ", or of a later one";
  } else if (!survey.missing.empty()) {
    what = std::to_string(survey.missing.size()) + " of " + std::to_string(survey.segments.size()) +
           " segments of its log are missing: " + text(survey.missing);
  }
  for (const DoubtfulSegment& doubtful : survey.doubtful) {
    what += (what.empty() ? "" : "; ") + whatIsDoubtful(doubtful);
  }
  const std::vector<ServerId> away_now = away();
  if (asked_.empty()) return what + "; no server keeps replicas";
  for (size_t i = 0; i < away_now.size() && i < kShownMax; ++i) {
    const Server* server = parts_.membership.find(away_now[i]);
    what += (i == 0 ? "; servers away: " : ", ") + std::to_string(away_now[i].value) + " (" + server->name + ")";
  }
  what += away_now.size() > kShownMax ? ", ..." : "";
  if (parts_.membership.find(dead_)->accepted_loss.token == 0 || loss_token_ == 0 || mayLose()) {
    return what;
  }
  return what + "; more is missing than was accepted";
}

std::string DeadLog::whatIsDoubtful(const DoubtfulSegment& doubtful) const {
  std::string who;
  for (size_t i = 0; i < doubtful.held_by.size() && i < kShownMax; ++i) {
    const ServerId id = doubtful.held_by[i];
    who += (i == 0 ? "" : ", ") + std::to_string(id.value) + " (" + parts_.membership.find(id)->name + ")";
  }
  return "what there is of segment " + std::to_string(doubtful.id.value) + ", on " + who +
         ", came through a loss of power and may be short; a server that is away may have more of it";
}

std::vector<ServerId> DeadLog::away() const {
  const bool others_have_it =
      std::any_of(answers_.begin(), answers_.end(), [](const auto& answer) { return !answer.second.empty(); });
  const std::vector<const Server*> all = parts_.membership.servers();
  const StorageLineage lineage(all);
  const auto answers = [&](ServerId id) { return answers_.contains(id); };
  std::vector<ServerId> away;
  for (const Server* server : all) {
    if (!server->keeps_replicas || answers(server->id) || server->returned) continue;
    if ((server->id == dead_ && others_have_it) || lineage.isSuperseded(*server, answers)) continue;
    away.push_back(server->id);
  }
  return away;
}

DeadLog::SurvivorPlan DeadLog::planForSurvivor() const {
  const Server& server = *parts_.membership.find(dead_);
  // A salvage makes other versions of what it brings back, and an operator has agreed to it.
  if (!survey_.isComplete()) return {.plan = plan(), .read = server.read};
  LogSurvey survey = surveyLog(server.floor, answers_,
                               {.nobody_is_away = away().empty(), .read = server.read, .is_for_survivor = true});
  if (!survey.isComplete()) survey = survey_;
  std::vector<ReadSegment> read = narrowForSurvivor(survey.head, survey.segments);
  return {.plan = {dead_, std::move(survey.holders), std::move(survey.segments), false}, .read = std::move(read)};
}

int64_t DeadLog::readyForSurvivorNs() const { return hasAllAnswers() ? 0 : asked_ns_ + kSurvivorGraceNs; }

runtime::Task<bool> DeadLog::storeRead(std::vector<ReadSegment> read) const {
  if (parts_.membership.find(dead_)->read == read) co_return true;
  const Status stored = co_await parts_.membership.storeRead(dead_, std::move(read));
  co_return stored == Status::Ok && !parts_.journal.stopping();
}

LogPlan DeadLog::plan() const {
  RC_CHECK_MSG(mayBegin(), "a log that is not complete is not fetched");
  if (survey_.isComplete()) return {dead_, survey_.holders, survey_.segments, false};
  return {dead_, salvage_.holders, salvage_.segments, true};
}

}  // namespace ramcore::coordinator
