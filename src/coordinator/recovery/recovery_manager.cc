#include "coordinator/recovery/recovery_manager.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/mutation.h"
#include "coordinator/state/stored_state.h"
#include "coordinator/survey/storage_lineage.h"

namespace ramcore::coordinator {
namespace {

// How long a complete answer waits for those that were asked, too: more holders share the reading.
constexpr int64_t kGraceNs = 250 * runtime::kNanosPerMilli;
// Between two questions to a backup that gave no answer.
constexpr int64_t kAskAgainNs = runtime::kNanosPerSecond;
// While nobody keeps replicas.
constexpr int64_t kNobodyNs = 5 * runtime::kNanosPerSecond;
// For what ends without telling: moves, splits, creations and drops.
constexpr int64_t kOthersNs = 100 * runtime::kNanosPerMilli;
// After the last change of the members, before anything is said of what cannot be recovered.
constexpr int64_t kSettledNs = 3 * runtime::kNanosPerSecond;
constexpr int64_t kAttemptPauseNsMin = 50 * runtime::kNanosPerMilli;
constexpr int64_t kAttemptPauseNsMax = 5 * runtime::kNanosPerSecond;
constexpr size_t kShownMax = 10;
// Of one order: what a backup filters by at a time (wire::ReadReplica), and far from the longest message.
constexpr size_t kOrderTabletsMax = 1'024;

std::string text(ServerId id) { return "server " + std::to_string(id.value); }

std::string text(const std::vector<SegmentId>& segments) {
  std::string list;
  for (size_t i = 0; i < segments.size() && i < kShownMax; ++i) {
    list += (i == 0 ? "" : ", ") + std::to_string(segments[i].value);
  }
  return list + (segments.size() > kShownMax ? ", ..." : "");
}

}  // namespace

RecoveryManager::RecoveryManager(const Parts& parts)
    : parts_(parts),
      attempts_(parts, {.on_back = [this](ServerId dead, size_t tablets) { onBack(dead, tablets); },
                        .on_failed = [this](ServerId dead, bool for_places) { onFailed(dead, for_places); },
                        .on_lacking = [this](ServerId dead) { onLacking(dead); }}),
      changed_(parts.journal.executor()) {
  parts_.membership.setListener([this] { onMembers(); });
}

runtime::Task<Status> RecoveryManager::load() {
  for (const Table* table : parts_.map.tables()) {
    for (const Tablet* tablet : parts_.map.tabletsOf(table->id)) {
      const Server* owner = parts_.membership.find(tablet->owner);
      const char* wrong = nullptr;
      if (owner == nullptr) {
        wrong = "belongs to a server that never was";
      } else if (owner->recovered) {
        wrong = "belongs to a server of which nothing was left";
      } else if (tablet->state == TabletState::Recovering && owner->alive) {
        wrong = "is recovered from a server that lives";
      } else if (tablet->state == TabletState::Recovering && tablet->epoch == tablet->last_epoch) {
        wrong = "is recovered under the epoch of its owner";
      } else if (tablet->state == TabletState::Taking && tablet->epoch != tablet->last_epoch) {
        wrong = "was granted under an epoch that is not its last";
      }
      if (wrong != nullptr) co_return parts_.journal.corrupt(keyOf(tablet->id), wrong);
    }
  }
  co_return Status::Ok;
}

void RecoveryManager::resume() {
  is_running_ = true;
  std::map<std::pair<ServerId, ServerId>, std::vector<Tablet>> fetched;
  std::map<ServerId, std::vector<TabletId>> granted;
  for (const Table* table : parts_.map.tables()) {
    if (table->state != TableState::Ready) continue;
    for (const Tablet* tablet : parts_.map.tabletsOf(table->id)) {
      if (tablet->state == TabletState::Recovering)
        fetched[{tablet->owner, tablet->recovery_master}].push_back(*tablet);
      if (tablet->state == TabletState::Taking) granted[tablet->owner].push_back(tablet->id);
    }
  }
  for (auto& [between, tablets] : fetched) attempts_.carryOn(between.first, between.second, std::move(tablets));
  for (auto& [owner, tablets] : granted) attempts_.take({}, owner, std::move(tablets));
  onMembers();
}

void RecoveryManager::stop() {
  is_running_ = false;
  changed_.failAll(Status::Shutdown);
}

// ---- what happens elsewhere

void RecoveryManager::onMembers() {
  if (!is_running_) return;
  members_changed_ns_ = parts_.journal.nowNs();
  std::vector<ServerId> fresh;
  for (const Server* server : parts_.membership.servers()) {
    if (!server->alive && !server->recovered && !recoveries_.contains(server->id)) fresh.push_back(server->id);
  }
  for (const ServerId dead : fresh) {
    recoveries_[dead].detected_ns = parts_.journal.nowNs();
    run(dead).detach();
  }
  changed_.notifyAll();
}

void RecoveryManager::onBack(ServerId dead, size_t tablets) {
  finished_.tablets += tablets;
  const auto found = recoveries_.find(dead);
  if (found == recoveries_.end()) return;
  Recovery& recovery = found->second;
  recovery.attempt_pause_ns = 0;
  if (tablets != 0) {
    recovery.was_given_up = false;
    noteTabletsBack();
    recovery.last_back_ns = parts_.journal.nowNs();
    if (recovery.tablets_back == 0) recovery.first_back_ns = recovery.last_back_ns;
    recovery.tablets_back += tablets;
  }
  changed_.notifyAll();
}

// What was offered may be gone or rotten: everybody is asked again.
void RecoveryManager::onFailed(ServerId dead, bool for_places) {
  const auto found = recoveries_.find(dead);
  if (found == recoveries_.end()) return;
  Recovery& recovery = found->second;
  noteAttemptFailed(recovery, for_places);
  recovery.answers.clear();
  recovery.asked_ns = 0;
  for (auto& [backup, asked] : recovery.asked) {
    asked.is_answered = false;
    if (asked.is_under_way) recovery.asked_ns = parts_.journal.nowNs();  // since another one failed
  }
  recovery.attempt_pause_ns = std::clamp(2 * recovery.attempt_pause_ns, kAttemptPauseNsMin, kAttemptPauseNsMax);
  recovery.not_before_ns = parts_.journal.nowNs() + recovery.attempt_pause_ns;
  changed_.notifyAll();
}

// ---- one dead server

RecoveryManager::Work RecoveryManager::workOf(ServerId dead) const {
  Work work;
  work.any = attempts_.isTakingFrom(dead);
  for (const Table* table : parts_.map.tables()) {
    // Its tablets may become the dead one's, unless others are found.
    const bool intended = table->state == TableState::Creating &&
                          std::find(table->owners.begin(), table->owners.end(), dead) != table->owners.end();
    work.any = work.any || intended;
  }
  for (const Tablet* tablet : parts_.map.tabletsOwnedBy(dead)) {
    work.any = !RC_MUTATION("release-before-all-is-back");
    const Table* table = parts_.map.findTable(tablet->table);
    const bool is_ours = tablet->state == TabletState::Normal || tablet->state == TabletState::Recovering ||
                         tablet->state == TabletState::Taking;
    if (is_ours && table->state == TableState::Ready && !attempts_.isAtWork(tablet->id)) {
      work.open.push_back(tablet->id);
    }
  }
  return work;
}

runtime::Task<void> RecoveryManager::run(ServerId dead) {
  Journal::Running running(parts_.journal);
  Recovery& recovery = recoveries_.at(dead);  // nobody else removes it
  while (!parts_.journal.stopping()) {
    const Work work = workOf(dead);
    int64_t wake_ns = parts_.journal.nowNs() + kOthersNs;
    if (!work.any) {
      const bool stored = co_await storeRecovered(dead, recovery);
      if (stored) break;
    } else if (!work.open.empty()) {
      wake_ns = co_await recover(dead, recovery);
    } else {
      if (isLacking(recovery)) co_await noteStuck(recovery);
      recovery.text = textOfFetching(recovery);
    }
    if (parts_.journal.stopping()) break;
    [[maybe_unused]] const Status changed = co_await changed_.wait(wake_ns);
  }
  if (turn_ == dead) turn_ = {};
  recoveries_.erase(dead);
  endTurns();
}

// One step towards new attempts. Gives when to look again, if nothing happens before.
runtime::Task<int64_t> RecoveryManager::recover(ServerId dead, Recovery& recovery) {
  const bool has_backups = askBackups(dead, recovery);
  review(dead, recovery);
  const int64_t now_ns = parts_.journal.nowNs();
  const bool all_answered = std::none_of(recovery.asked.begin(), recovery.asked.end(),
                                         [](const auto& one) { return one.second.is_under_way; });
  if (!recovery.survey.isComplete() && !mayLose(dead, recovery)) {
    // Who has not answered yet may have it.
    if (all_answered || now_ns >= recovery.asked_ns + kAskAgainNs) say(dead, recovery, whatIsMissing(dead, recovery));
    co_return now_ns + (has_backups ? kAskAgainNs : kNobodyNs);
  }
  const int64_t ready_ns = std::max(all_answered ? 0 : recovery.asked_ns + kGraceNs, recovery.not_before_ns);
  if (now_ns < ready_ns) {
    if (recovery.was_given_up) recovery.text = textOfWaiting(recovery);
    co_return ready_ns;
  }
  if (places_are_scarce_) {
    if (!hasTurn(dead)) {
      recovery.text = textOfWaiting(recovery);
      co_return now_ns + kOthersNs;
    }
    turn_ = dead;
    if (!std::exchange(places_are_asked_, true)) {
      co_await askPlaces();
      turn_ = {};
      co_return parts_.journal.nowNs();  // as the log is then
    }
  }
  if (!recovery.survey.isComplete()) {
    parts_.trace.warning(text(dead) +
                         " is recovered without what is missing, as was accepted: " + whatIsMissing(dead, recovery));
  }
  // As it is now: while this is stored, somebody may look at the log again.
  recovery.is_in_turn = places_are_scarce_;
  const bool assigned = co_await assign(dead, planOf(recovery));
  if (turn_ == dead) turn_ = {};  // also where the attempt has failed by now
  if (assigned) places_are_asked_ = false;
  if (!assigned) say(dead, recovery, "no server can take its tablets now");
  co_return parts_.journal.nowNs() + (assigned ? kOthersNs : kAskAgainNs);
}

// ---- who has what

// Asks those who were not asked yet, or gave no answer. False if nobody keeps replicas.
bool RecoveryManager::askBackups(ServerId dead, Recovery& recovery) {
  const int64_t now_ns = parts_.journal.nowNs();
  bool any = false;
  for (const Server* server : parts_.membership.servers()) {
    if (!server->keeps_replicas || !parts_.membership.hasReported(server->id)) continue;
    any = true;
    Asked& asked = recovery.asked[server->id];
    if (asked.is_answered || asked.is_under_way || now_ns < asked.again_ns) continue;
    asked.is_under_way = true;
    if (recovery.asked_ns == 0) recovery.asked_ns = now_ns;
    fence(dead, server->id).detach();
  }
  return any;
}

runtime::Task<void> RecoveryManager::fence(ServerId dead, ServerId backup) {
  Journal::Running running(parts_.journal);
  FenceResult result = co_await parts_.masters.fenceServer(backup, dead);
  const auto found = recoveries_.find(dead);
  if (found == recoveries_.end()) co_return;
  Asked& asked = found->second.asked[backup];
  asked.is_under_way = false;
  asked.is_answered = result.status == Status::Ok;
  if (asked.is_answered) {
    found->second.answers[backup] = std::move(result.replicas);
  } else {
    asked.again_ns = parts_.journal.nowNs() + kAskAgainNs;
  }
  changed_.notifyAll();
}

// What a server said counts while it lives: afterwards it can be asked for nothing.
void RecoveryManager::review(ServerId dead, Recovery& recovery) {
  const auto is_gone = [&](const auto& one) { return !parts_.membership.isAlive(one.first); };
  std::erase_if(recovery.answers, is_gone);
  std::erase_if(recovery.asked, [&](const auto& one) { return is_gone(one) && !one.second.is_under_way; });
  const ReplicaFloor& floor = parts_.membership.find(dead)->floor;
  // Also of sync tables: a replica whose newest bytes have rotted looks the same as one that lost what was not flushed.
  const SurveyFacts facts{.nobody_is_away = awayFrom(dead, recovery).empty()};
  recovery.survey = surveyLog(floor, recovery.answers, facts);
  if (recovery.survey.isComplete()) recovery.segment_count = recovery.survey.segments.size();
  recovery.salvage = {};
  recovery.loss_token = 0;
  if (recovery.survey.isComplete()) return;
  recovery.salvage = salvageLog(floor, recovery.answers, facts);
  if (haveAllAnswered(recovery)) recovery.loss_token = recovery.salvage.token(dead, awayFrom(dead, recovery));
}

// Of those that live: nothing is given up that one of them might still offer.
bool RecoveryManager::haveAllAnswered(const Recovery& recovery) const {
  for (const Server* server : parts_.membership.servers()) {
    if (server->alive && server->keeps_replicas && !recovery.answers.contains(server->id)) return false;
  }
  return true;
}

// An operator has agreed to the loss, and it is not a larger one now.
bool RecoveryManager::mayLose(ServerId dead, const Recovery& recovery) const {
  const AcceptedLoss& accepted = parts_.membership.find(dead)->accepted_loss;
  return accepted.token != 0 && recovery.loss_token != 0 && covers(accepted, recovery.salvage);
}

runtime::Task<Status> RecoveryManager::acceptLoss(ServerId dead, uint64_t token) {
  const Server* server = parts_.membership.find(dead);
  // Of a repetition the answer may come late.
  if (server != nullptr && token != 0 && server->accepted_loss.token == token) co_return Status::Ok;
  const auto found = recoveries_.find(dead);
  if (found == recoveries_.end() || server == nullptr) co_return Status::NotFound;
  Recovery& recovery = found->second;
  review(dead, recovery);
  if (recovery.survey.isComplete()) co_return Status::WrongVersion;
  if (recovery.loss_token == 0) co_return Status::RetryLater;
  if (recovery.loss_token != token) co_return Status::WrongVersion;
  const LogSalvage& salvage = recovery.salvage;
  AcceptedLoss loss{.token = token, .list = salvage.list, .whole = salvage.whole, .in_part = salvage.in_part};
  const Status stored = co_await parts_.membership.storeAcceptedLoss(dead, std::move(loss));
  if (stored != Status::Ok) co_return stored;
  parts_.trace.warning(text(dead) + ": an operator accepts the loss of what is missing of its log");
  changed_.notifyAll();
  co_return Status::Ok;
}

std::string RecoveryManager::whatIsMissing(ServerId dead, const Recovery& recovery) const {
  const LogSurvey& survey = recovery.survey;
  std::string what;
  if (survey.head == SegmentId()) {
    const ReplicaFloor& floor = parts_.membership.find(dead)->floor;
    what = "the end of its log is not found: no open replica of segment " + std::to_string(floor.segment.value) +
           " at replica epoch " + std::to_string(floor.replica_epoch) + ", or of a later one";
  } else if (!survey.missing.empty()) {
    what = std::to_string(survey.missing.size()) + " of " + std::to_string(survey.segments.size()) +
           " segments of its log are missing: " + text(survey.missing);
  }
  for (const DoubtfulSegment& doubtful : survey.doubtful) {
    what += (what.empty() ? "" : "; ") + whatIsDoubtful(doubtful);
  }
  const std::vector<ServerId> away = awayFrom(dead, recovery);
  if (recovery.asked.empty()) return what + "; no server keeps replicas";
  for (size_t i = 0; i < away.size() && i < kShownMax; ++i) {
    const Server* server = parts_.membership.find(away[i]);
    what += (i == 0 ? "; servers away: " : ", ") + std::to_string(away[i].value) + " (" + server->name + ")";
  }
  what += away.size() > kShownMax ? ", ..." : "";
  if (parts_.membership.find(dead)->accepted_loss.token == 0 || recovery.loss_token == 0 || mayLose(dead, recovery)) {
    return what;
  }
  return what + "; more is missing than was accepted";
}

std::string RecoveryManager::whatIsDoubtful(const DoubtfulSegment& doubtful) const {
  std::string who;
  for (size_t i = 0; i < doubtful.held_by.size() && i < kShownMax; ++i) {
    const ServerId id = doubtful.held_by[i];
    who += (i == 0 ? "" : ", ") + std::to_string(id.value) + " (" + parts_.membership.find(id)->name + ")";
  }
  return "what there is of segment " + std::to_string(doubtful.id.value) + ", on " + who +
         ", came through a loss of power and may be short; who is away may have more of it";
}

// Those that keep replicas and did not say which: silent ones, and dead ones whose storage nobody has brought back. The
// dead one itself is none of them if anybody else has replicas of it: then it had none of its own.
std::vector<ServerId> RecoveryManager::awayFrom(ServerId dead, const Recovery& recovery) const {
  const bool others_have_it = std::any_of(recovery.answers.begin(), recovery.answers.end(),
                                          [](const auto& answer) { return !answer.second.empty(); });
  const std::vector<const Server*> all = parts_.membership.servers();
  const StorageLineage lineage(all);
  const auto answers = [&](ServerId id) { return recovery.answers.contains(id); };
  std::vector<ServerId> away;
  for (const Server* server : all) {
    if (!server->keeps_replicas || answers(server->id) || server->returned) continue;
    if ((server->id == dead && others_have_it) || lineage.isSuperseded(*server, answers)) continue;
    away.push_back(server->id);
  }
  return away;
}

// Keeps it for reports, and traces it once: not while servers are coming or leaving, nor with none left, which says
// all. So a cluster that is stopped in order does not look like a disaster.
void RecoveryManager::say(ServerId dead, Recovery& recovery, std::string text_now) {
  recovery.text = std::move(text_now);
  const std::vector<const Server*> servers = parts_.membership.servers();
  const bool any_lives = std::any_of(servers.begin(), servers.end(), [](const Server* one) { return one->alive; });
  if (!any_lives || parts_.journal.nowNs() < members_changed_ns_ + kSettledNs) return;
  if (recovery.told == recovery.text) return;
  recovery.told = recovery.text;
  parts_.trace.warning(text(dead) + " cannot be recovered yet: " + recovery.text);
}

std::vector<RecoveryReport> RecoveryManager::reports() const {
  std::vector<RecoveryReport> all;
  for (const auto& [dead, recovery] : recoveries_) {
    RecoveryReport report;
    report.server = dead;
    report.missing = recovery.survey.missing;
    report.text = recovery.text;
    report.missing_places = missingPlacesNow(recovery);
    for (const Tablet* tablet : parts_.map.tabletsOwnedBy(dead)) {
      const Table* table = parts_.map.findTable(tablet->table);
      report.tablets_left += table->state == TableState::Ready ? 1 : 0;
    }
    if (report.tablets_left == 0) continue;
    if (!recovery.survey.isComplete()) {
      report.away = awayFrom(dead, recovery);
      report.loss_token = recovery.loss_token;
      report.loss_accepted = mayLose(dead, recovery);
      report.salvage = recovery.salvage;
      // Also what an old list names.
      report.missing.clear();
      std::merge(recovery.salvage.missing.begin(), recovery.salvage.missing.end(), recovery.salvage.in_part.begin(),
                 recovery.salvage.in_part.end(), std::back_inserter(report.missing));
    }
    all.push_back(std::move(report));
  }
  return all;
}

// ---- who fetches what

RecoveryManager::LogPlan RecoveryManager::planOf(const Recovery& recovery) {
  if (recovery.survey.isComplete()) return {recovery.survey.holders, recovery.survey.segments, false};
  return {recovery.salvage.holders, recovery.salvage.segments, true};
}

// Gives each open tablet to a server: stored first, under a new epoch. False if there is no server, or no space to
// store it.
runtime::Task<bool> RecoveryManager::assign(ServerId dead, LogPlan plan) {
  auto guard = co_await parts_.map_lock.lock();
  Recovery& recovery = recoveries_.at(dead);
  Loads loads = recovery.is_in_turn ? loadsInTurn(recovery) : loadsNow();
  if (loads.empty()) co_return false;
  Given given;
  const std::vector<TabletId> open = workOf(dead).open;
  bool is_stored = true;
  for (size_t first = 0; first < open.size() && is_stored; first += Batch::kChangesMax / 2) {
    const size_t end = std::min(open.size(), first + Batch::kChangesMax / 2);
    const std::vector<TabletId> some(open.begin() + static_cast<std::ptrdiff_t>(first),
                                     open.begin() + static_cast<std::ptrdiff_t>(end));
    is_stored = co_await storeAssigned(some, loads, given);
  }
  guard.release();
  if (parts_.journal.stopping()) co_return false;
  for (auto& [master, tablets] : given) {
    for (size_t first = 0; first < tablets.size(); first += kOrderTabletsMax) {
      const auto begin = tablets.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end =
          tablets.begin() + static_cast<std::ptrdiff_t>(std::min(tablets.size(), first + kOrderTabletsMax));
      attempts_.begin(master, {.dead = dead,
                               .tablets = {begin, end},
                               .holders = plan.holders,
                               .segments = plan.segments,
                               .is_salvage = plan.is_salvage});
    }
  }
  co_return is_stored;
}

// Who can take tablets, those with the least to recover first.
RecoveryManager::Loads RecoveryManager::loadsNow() const {
  std::map<ServerId, size_t> loads;
  for (const ServerId server : parts_.membership.heardServers()) loads[server] = 0;
  for (const Tablet* tablet : parts_.map.tabletsIn(TabletState::Recovering)) {
    const auto load = loads.find(tablet->recovery_master);
    if (load != loads.end() && attempts_.isAtWork(tablet->id)) ++load->second;
  }
  Loads by_load;
  for (const auto& [server, load] : loads) by_load.emplace(load, server);
  return by_load;
}

// Under the lock of the map; one batch. Adds the tablets to `given` as they will be.
runtime::Task<bool> RecoveryManager::storeAssigned(const std::vector<TabletId>& ids, Loads& loads, Given& given) {
  Batch batch;
  std::vector<Tablet> tablets;
  for (const TabletId id : ids) {
    Tablet tablet = *parts_.map.findTablet(id);
    // Who has failed at it is the last to try again: of those with the least to recover the next one has its turn, or
    // two without room for it would give it to each other for ever, and never to who has.
    auto target = loads.upper_bound({loads.begin()->first, tablet.recovery_master});
    if (target == loads.end() || target->first != loads.begin()->first) target = loads.begin();
    if (target->second == tablet.recovery_master && loads.size() > 1) ++target;
    const auto [load, server] = *target;
    loads.erase(target);
    loads.emplace(load + 1, server);
    tablet.state = TabletState::Recovering;
    tablet.recovery_master = server;
    tablet.last_epoch.value += 1;
    batch.put(keyOf(id), encode(tablet));
    tablets.push_back(std::move(tablet));
  }
  const Status stored = co_await parts_.journal.commit(std::move(batch));
  if (stored != Status::Ok) co_return false;
  for (Tablet& tablet : tablets) {
    parts_.map.updateTablet(tablet);
    tablet.owner = tablet.recovery_master;
    tablet.recovery_master = {};
    tablet.epoch = tablet.last_epoch;
    tablet.state = TabletState::Normal;
    given[tablet.owner].push_back(std::move(tablet));
  }
  co_return true;
}

// True if nothing of the server's log is needed any more, and that is stored. The lock keeps its tablets from becoming
// more: whoever gives a tablet to a server holds it, and sees that the server lives.
runtime::Task<bool> RecoveryManager::storeRecovered(ServerId dead, Recovery& recovery) {
  auto guard = co_await parts_.map_lock.lock();
  if (workOf(dead).any) co_return false;
  const Status stored = co_await parts_.membership.storeRecovered(dead);
  if (stored != Status::Ok) co_return false;
  if (recovery.tablets_back == 0) co_return true;
  ++finished_.servers;
  const auto after = [&](int64_t ns) {
    return std::to_string((ns - recovery.detected_ns) / runtime::kNanosPerMilli) + " ms";
  };
  parts_.trace.info(text(dead) + " is recovered: " + std::to_string(recovery.tablets_back) +
                    " tablets, the first back after " + after(recovery.first_back_ns) + ", the last after " +
                    after(recovery.last_back_ns));
  co_return true;
}

// ---- drops

runtime::Task<bool> RecoveryManager::endAll(TableId table) {
  std::vector<runtime::Task<bool>> tasks;
  for (const Tablet* tablet : parts_.map.tabletsOf(table)) {
    if (tablet->state != TabletState::Recovering) continue;
    tasks.push_back(attempts_.forget(tablet->recovery_master, tablet->id, tablet->last_epoch));
  }
  bool ended = true;
  for (runtime::Task<bool>& task : tasks) {
    const bool forgotten = co_await task;
    ended = ended && forgotten;
  }
  co_return ended && !parts_.journal.stopping();
}

}  // namespace ramcore::coordinator
