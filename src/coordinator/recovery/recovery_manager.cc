#include "coordinator/recovery/recovery_manager.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/mutation.h"
#include "coordinator/state/stored_state.h"

namespace ramcore::coordinator {
namespace {

// When the log is complete, the other servers that were asked get this long to answer: more holders share the reading.
constexpr int64_t kGraceNs = 250 * runtime::kNanosPerMilli;
// Pause between two looks while no server keeps replicas.
constexpr int64_t kNobodyNs = 5 * runtime::kNanosPerSecond;
// Pause between two looks at what ends without a notification: moves, splits, creations and drops.
constexpr int64_t kOthersNs = 100 * runtime::kNanosPerMilli;
// After a change of the members, no warning about what cannot be recovered is traced for this long.
constexpr int64_t kSettledNs = 3 * runtime::kNanosPerSecond;
// Tablets in one order: as many ranges as a backup filters by at a time (wire::ReadReplica::kRangesMax). An order of
// that length is far shorter than the longest message.
constexpr size_t kOrderTabletsMax = 1'024;

std::string text(ServerId id) { return "server " + std::to_string(id.value); }

}  // namespace

RecoveryManager::RecoveryManager(const Parts& parts)
    : parts_(parts),
      attempts_(parts, {.on_back = [this](ServerId dead, size_t tablets) { onBack(dead, tablets); },
                        .on_failed = [this](ServerId dead, bool for_places) { onFailed(dead, for_places); },
                        .on_lacking = [this](ServerId dead) { turns_.noteLacking(dead); }}),
      turns_(parts, attempts_,
             {.may_begin = [this](ServerId dead) { return recoveries_.at(dead).log.mayBegin(); },
              .has_work = [this](ServerId dead) { return workOf(dead).any; },
              .has_open = [this](ServerId dead) { return !assignable(dead).empty(); }}),
      changed_(parts.journal.executor()) {
  parts_.membership.setListener([this] { onMembers(); });
}

runtime::Task<Status> RecoveryManager::load() {
  for (const Table* table : parts_.map.tables()) {
    for (const Tablet* tablet : parts_.map.tabletsOf(table->id)) {
      const Server* owner = parts_.membership.find(tablet->owner);
      const auto isOfNobody = [&](const LogRef& log) {
        const Server* server = parts_.membership.find(log.server);
        return server == nullptr || server->recovered;
      };
      const char* wrong = nullptr;
      if (owner == nullptr) {
        wrong = "belongs to a server that never was";
      } else if (owner->recovered) {
        wrong = "belongs to a server of which nothing was left";
      } else if (std::ranges::any_of(tablet->logs, isOfNobody)) {
        wrong = "is in the log of a server of which nothing was left";
      } else if (tablet->state == TabletState::Recovering && inRecoveryOf(*tablet) == ServerId()) {
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
  std::map<std::tuple<ServerId, ServerId, bool>, std::vector<Tablet>> fetched;
  std::map<ServerId, std::vector<TabletId>> granted;
  for (const Table* table : parts_.map.tables()) {
    if (table->state != TableState::Ready) continue;
    for (const Tablet* tablet : parts_.map.tabletsOf(table->id)) {
      if (tablet->state == TabletState::Recovering) {
        const ServerId master = tablet->recovery_master;
        const bool is_survivor = tablet->logOf(master) != nullptr;
        fetched[{inRecoveryOf(*tablet), master, is_survivor}].push_back(*tablet);
      }
      if (tablet->state == TabletState::Taking) granted[tablet->owner].push_back(tablet->id);
    }
  }
  for (auto& [what, tablets] : fetched) {
    const auto [dead, master, is_survivor] = what;
    attempts_.carryOn(dead, master, is_survivor, std::move(tablets));
  }
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
    recoveries_.try_emplace(dead, parts_, dead).first->second.detected_ns = parts_.journal.nowNs();
    turns_.add(dead);
    run(dead).detach();
  }
  changed_.notifyAll();
}

void RecoveryManager::onBack(ServerId dead, size_t tablets) {
  tablets_finished_ += tablets;
  const auto found = recoveries_.find(dead);
  if (found == recoveries_.end()) return;
  Recovery& recovery = found->second;
  recovery.attempt_pause.restart();
  if (tablets != 0) {
    turns_.noteBack(dead);
    recovery.last_back_ns = parts_.journal.nowNs();
    if (recovery.tablets_back == 0) recovery.first_back_ns = recovery.last_back_ns;
    recovery.tablets_back += tablets;
  }
  changed_.notifyAll();
}

// The replicas that were offered may be gone or rotten, so all backups are asked again.
void RecoveryManager::onFailed(ServerId dead, bool for_places) {
  const auto found = recoveries_.find(dead);
  if (found == recoveries_.end()) return;
  Recovery& recovery = found->second;
  turns_.noteFailed(dead, for_places);
  recovery.log.forgetAnswers();
  recovery.not_before_ns = parts_.journal.nowNs() + recovery.attempt_pause.nextNs();
  changed_.notifyAll();
}

// ---- one dead server

RecoveryManager::Work RecoveryManager::workOf(ServerId dead) const {
  Work work;
  work.any = attempts_.isTakingFrom(dead);
  for (const Table* table : parts_.map.tables()) {
    // A table that is being created may still give its tablets to this server, unless another owner is found.
    const bool intended = table->state == TableState::Creating &&
                          std::find(table->owners.begin(), table->owners.end(), dead) != table->owners.end();
    work.any = work.any || intended;
  }
  for (const Tablet* tablet : parts_.map.tabletsInLogOf(dead)) {
    if (tablet->owner != dead && RC_MUTATION("recover-by-owner-alone")) continue;
    work.any = !RC_MUTATION("release-before-all-is-back");
    const Table* table = parts_.map.findTable(tablet->table);
    if (table->state == TableState::Ready && inRecoveryOf(*tablet) == dead && !attempts_.isAtWork(tablet->id)) {
      work.open.push_back(tablet->id);
    }
  }
  return work;
}

/// The dead server as a part of whose recovery a tablet is brought back: the owner; or, if that lives, the other server
/// in whose log the tablet has contents. None: nothing has to be recovered, or a move or split has the tablet in hand.
ServerId RecoveryManager::inRecoveryOf(const Tablet& tablet) const {
  const bool is_in_other_hands =
      tablet.state == TabletState::Splitting || (tablet.state == TabletState::Moving && !tablet.isLent());
  if (is_in_other_hands) return {};
  if (!parts_.membership.isAlive(tablet.owner)) return tablet.owner;
  const auto dead =
      std::ranges::find_if(tablet.logs, [this](const LogRef& log) { return !parts_.membership.isAlive(log.server); });
  return dead == tablet.logs.end() ? ServerId() : dead->server;
}

/// The second dead server in whose log the tablet has contents, if both of its servers are dead.
ServerId RecoveryManager::otherDead(const Tablet& tablet, ServerId dead) const {
  const auto other = std::ranges::find_if(
      tablet.logs, [&](const LogRef& log) { return log.server != dead && !parts_.membership.isAlive(log.server); });
  return other == tablet.logs.end() ? ServerId() : other->server;
}

/// The server that lives, of the two of a tablet that was being handed over.
ServerId RecoveryManager::survivorOf(const Tablet& tablet) const {
  if (!tablet.isLent()) return {};
  const auto alive =
      std::ranges::find_if(tablet.logs, [this](const LogRef& log) { return parts_.membership.isAlive(log.server); });
  return alive == tablet.logs.end() ? ServerId() : alive->server;
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
      if (turns_.isLacking(dead)) co_await turns_.noteStuck(dead);
      recovery.text = turns_.textOfFetching(dead);
    }
    if (parts_.journal.stopping()) break;
    [[maybe_unused]] const Status changed = co_await changed_.wait(wake_ns);
  }
  recoveries_.erase(dead);
  turns_.remove(dead);
}

// Makes one step towards the log of a dead server. Returns when to look again if nothing happens before; nothing: the
// log may be fetched now.
std::optional<int64_t> RecoveryManager::awaitLog(ServerId dead, Recovery& recovery) {
  // A backup fences the dead server before it lists the replicas: what is listed cannot grow any more.
  const bool has_backups = recovery.log.ask([&](ServerId backup) { fence(dead, backup).detach(); });
  review(dead, recovery);
  const int64_t now_ns = parts_.journal.nowNs();
  const DeadLog& log = recovery.log;
  const bool all_answered = !log.isAsking();
  if (!log.mayBegin()) {
    // A server that has not answered yet may have the missing replicas.
    if (all_answered || now_ns >= log.askedNs() + DeadLog::kAskAgainNs) say(dead, recovery, log.whatIsMissing());
    return now_ns + (has_backups ? DeadLog::kAskAgainNs : kNobodyNs);
  }
  const int64_t ready_ns = std::max(all_answered ? 0 : log.askedNs() + kGraceNs, recovery.not_before_ns);
  if (now_ns >= ready_ns) return std::nullopt;
  if (turns_.wasGivenUp(dead)) recovery.text = turns_.textOfWaiting(dead);
  return ready_ns;
}

// Makes one step towards the logs of other dead servers in which tablets of this recovery have contents as well.
// Returns when to look again; nothing: some of its tablets can be assigned now.
std::optional<int64_t> RecoveryManager::awaitOtherLogs(ServerId dead, Recovery& recovery) {
  std::set<ServerId> others;
  for (const TabletId id : workOf(dead).open) {
    const ServerId other = otherDead(*parts_.map.findTablet(id), dead);
    if (other != ServerId()) others.insert(other);
  }
  std::optional<int64_t> again_ns;
  for (const ServerId other : others) {
    // The verdict on it may be so new that its recovery has not begun.
    const auto known = recoveries_.find(other);
    std::optional<int64_t> wait_ns = parts_.journal.nowNs() + kOthersNs;
    if (known != recoveries_.end()) wait_ns = awaitLog(other, known->second);
    if (!wait_ns) continue;
    again_ns = std::min(*wait_ns, again_ns.value_or(*wait_ns));
    recovery.text = "its tablets are also in the log of " + text(other) + ", which is waited for";
  }
  return assignable(dead).empty() ? again_ns : std::nullopt;
}

// The open tablets of which all logs may be fetched.
std::vector<TabletId> RecoveryManager::assignable(ServerId dead) const {
  std::vector<TabletId> ids = workOf(dead).open;
  std::erase_if(ids, [&](TabletId id) { return !mayFetchFrom(otherDead(*parts_.map.findTablet(id), dead)); });
  return ids;
}

// Whether the log of this dead server is complete, too; it may be none.
bool RecoveryManager::mayFetchFrom(ServerId other) const {
  if (other == ServerId()) return true;
  const auto known = recoveries_.find(other);
  return known != recoveries_.end() && known->second.log.mayBegin();
}

// Makes one step towards new attempts. Returns when to look again if nothing happens before.
runtime::Task<int64_t> RecoveryManager::recover(ServerId dead, Recovery& recovery) {
  std::optional<int64_t> again_ns = awaitLog(dead, recovery);
  if (!again_ns) again_ns = awaitOtherLogs(dead, recovery);
  if (again_ns) co_return *again_ns;
  const int64_t now_ns = parts_.journal.nowNs();
  const DeadLog& log = recovery.log;
  if (turns_.areOn()) {
    if (!turns_.hasTurn(dead)) {
      recovery.text = turns_.textOfWaiting(dead);
      co_return now_ns + kOthersNs;
    }
    if (turns_.take(dead)) {
      co_await turns_.askPlaces();
      turns_.leave(dead);
      co_return parts_.journal.nowNs();  // the log may have changed meanwhile
    }
  }
  if (!log.survey().isComplete()) {
    parts_.trace.warning(text(dead) + " is recovered without what is missing, as was accepted: " + log.whatIsMissing());
  }
  const bool has_survivor = hasSurvivor(dead);
  if (has_survivor && now_ns < log.readyForSurvivorNs()) co_return log.readyForSurvivorNs();
  // The plans are made now: while something is being stored, the log may be reviewed again.
  LogPlan plan = log.plan();
  DeadLog::SurvivorPlan for_survivor = log.planForSurvivor();
  if (has_survivor && !co_await log.storeRead(std::move(for_survivor.read))) {
    say(dead, recovery, "how far a survivor is to read its log cannot be stored now");
    co_return parts_.journal.nowNs() + DeadLog::kAskAgainNs;
  }
  turns_.attemptBegins(dead);
  const bool assigned = co_await assign(dead, std::move(plan), std::move(for_survivor.plan));
  turns_.attemptBegun(dead, assigned);  // even if the attempt has failed already
  if (!assigned) say(dead, recovery, "no server can take its tablets now");
  co_return parts_.journal.nowNs() + (assigned ? kOthersNs : DeadLog::kAskAgainNs);
}

// ---- who has what

runtime::Task<void> RecoveryManager::fence(ServerId dead, ServerId backup) {
  Journal::Running running(parts_.journal);
  FenceResult result = co_await parts_.masters.fenceServer(backup, dead);
  const auto found = recoveries_.find(dead);
  if (found == recoveries_.end()) co_return;
  found->second.log.noteAnswer(backup, std::move(result));
  changed_.notifyAll();
}

void RecoveryManager::review(ServerId dead, Recovery& recovery) {
  recovery.log.review();
  const LogSurvey& survey = recovery.log.survey();
  if (survey.isComplete()) turns_.noteLength(dead, survey.segments.size());
}

runtime::Task<Status> RecoveryManager::acceptLoss(ServerId dead, uint64_t token) {
  const Server* server = parts_.membership.find(dead);
  // A repeated call gets Ok even if the recovery has ended since.
  if (server != nullptr && token != 0 && server->accepted_loss.token == token) co_return Status::Ok;
  const auto found = recoveries_.find(dead);
  if (found == recoveries_.end() || server == nullptr) co_return Status::NotFound;
  Recovery& recovery = found->second;
  review(dead, recovery);
  const DeadLog& log = recovery.log;
  if (log.survey().isComplete()) co_return Status::WrongVersion;
  if (log.lossToken() == 0) co_return Status::RetryLater;
  if (log.lossToken() != token) co_return Status::WrongVersion;
  const LogSalvage& salvage = log.salvage();
  AcceptedLoss loss{.token = token, .list = salvage.list, .whole = salvage.whole, .in_part = salvage.in_part};
  const Status stored = co_await parts_.membership.storeAcceptedLoss(dead, std::move(loss));
  if (stored != Status::Ok) co_return stored;
  parts_.trace.warning(text(dead) + ": an operator accepts the loss of what is missing of its log");
  changed_.notifyAll();
  co_return Status::Ok;
}

// Keeps the text for reports, and traces it once. It is not traced for kSettledNs after a change of the members, nor
// when no server lives: a cluster that is stopped in order must not look like a disaster.
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
    const DeadLog& log = recovery.log;
    RecoveryReport report;
    report.server = dead;
    report.missing = log.survey().missing;
    report.text = turns_.textNow(recovery.text);
    report.missing_places = turns_.missingPlacesNow(dead);
    for (const Tablet* tablet : parts_.map.tabletsInLogOf(dead)) {
      const Table* table = parts_.map.findTable(tablet->table);
      report.tablets_left += table->state == TableState::Ready ? 1 : 0;
    }
    if (report.tablets_left == 0) continue;
    if (!log.survey().isComplete()) {
      const LogSalvage& salvage = log.salvage();
      report.away = log.away();
      report.loss_token = log.lossToken();
      report.loss_accepted = log.mayLose();
      report.salvage = salvage;
      // The segments of the salvage include those that only an old digest names.
      report.missing.clear();
      std::merge(salvage.missing.begin(), salvage.missing.end(), salvage.in_part.begin(), salvage.in_part.end(),
                 std::back_inserter(report.missing));
    }
    all.push_back(std::move(report));
  }
  return all;
}

// ---- who fetches what

// Gives each open tablet to a server: stored first, under a new epoch. False if there is no server, or no space to
// store it.
runtime::Task<bool> RecoveryManager::assign(ServerId dead, LogPlan plan, LogPlan for_survivor) {
  auto guard = co_await parts_.map_lock.lock();
  const ServerId alone = turns_.chooseMaster(dead);
  MasterLoads loads = alone != ServerId() ? MasterLoads(alone) : MasterLoads(parts_, attempts_);
  if (loads.isEmpty()) co_return false;
  Given given;
  const std::vector<TabletId> open = assignable(dead);
  bool is_stored = true;
  for (size_t first = 0; first < open.size() && is_stored; first += Batch::kChangesMax / 2) {
    const size_t end = std::min(open.size(), first + Batch::kChangesMax / 2);
    const std::vector<TabletId> some(open.begin() + static_cast<std::ptrdiff_t>(first),
                                     open.begin() + static_cast<std::ptrdiff_t>(end));
    is_stored = co_await storeAssigned(dead, some, loads, given);
  }
  guard.release();
  if (parts_.journal.stopping()) co_return false;
  // Nothing is sent that is not stored: a coordinator that takes over would not know of it, and could give the tablet
  // to another server as well.
  for (const auto& [order, part] : given) begin(order.is_survivor ? for_survivor : plan, order, part);
  co_return is_stored;
}

// Whether a server that lives keeps what it has read of this log.
bool RecoveryManager::hasSurvivor(ServerId dead) const {
  return std::ranges::any_of(parts_.map.tabletsInLogOf(dead),
                             [this](const Tablet* tablet) { return bool{survivorOf(*tablet)}; });
}

void RecoveryManager::begin(const LogPlan& plan, const Order& order, const Part& part) {
  const std::vector<Tablet>& tablets = part.tablets;
  for (size_t first = 0; first < tablets.size(); first += kOrderTabletsMax) {
    const auto from = tablets.begin() + static_cast<std::ptrdiff_t>(first);
    const auto to = tablets.begin() + static_cast<std::ptrdiff_t>(std::min(tablets.size(), first + kOrderTabletsMax));
    RecoveryOrder sent;
    static_cast<LogPlan&>(sent) = plan;
    sent.tablets = {from, to};
    sent.is_survivor = order.is_survivor;
    sent.second = part.second;
    attempts_.begin(order.master, std::move(sent));
  }
}

// Under map_lock; one batch. Adds the tablets to `given` as they will be.
runtime::Task<bool> RecoveryManager::storeAssigned(ServerId dead, const std::vector<TabletId>& ids, MasterLoads& loads,
                                                   Given& given) {
  Batch batch;
  // Which servers live is asked before the commit: one that dies meanwhile fails its attempt.
  std::vector<std::pair<Order, Tablet>> assigned;
  for (const TabletId id : ids) {
    Tablet tablet = *parts_.map.findTablet(id);
    const ServerId survivor = survivorOf(tablet);
    const ServerId second = otherDead(tablet, dead);
    if (!mayFetchFrom(second)) continue;
    tablet.state = TabletState::Recovering;
    tablet.recovery_master = survivor != ServerId() ? survivor : loads.takeLeast(tablet.recovery_master);
    tablet.last_epoch.value += 1;
    batch.put(keyOf(id), encode(tablet));
    const Order order{.master = tablet.recovery_master, .second = second, .is_survivor = survivor != ServerId()};
    // What is known of the other log now: an attempt that fails during the commit has all backups asked again.
    if (second != ServerId()) given[order].second = recoveries_.at(second).log.plan();
    assigned.emplace_back(order, std::move(tablet));
  }
  if (assigned.empty()) co_return true;
  const Status stored = co_await parts_.journal.commit(std::move(batch));
  if (stored != Status::Ok) co_return false;
  for (auto& [order, tablet] : assigned) {
    parts_.map.updateTablet(tablet);
    tablet.owner = tablet.recovery_master;
    tablet.recovery_master = {};
    tablet.epoch = tablet.last_epoch;
    tablet.state = TabletState::Normal;
    given[order].tablets.push_back(std::move(tablet));
  }
  co_return true;
}

// True if nothing of the server's log is needed any more, and that is stored. map_lock keeps its tablets from becoming
// more: a tablet is given to a server only under that lock, and only while the server lives.
runtime::Task<bool> RecoveryManager::storeRecovered(ServerId dead, Recovery& recovery) {
  auto guard = co_await parts_.map_lock.lock();
  if (workOf(dead).any) co_return false;
  const Status stored = co_await parts_.membership.storeRecovered(dead);
  if (stored != Status::Ok) co_return false;
  if (recovery.tablets_back == 0) co_return true;
  ++servers_finished_;
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
    tasks.push_back(attempts_.forget(tablet->recovery_master, tablet->id, tablet->last_epoch, false));
  }
  bool ended = true;
  for (runtime::Task<bool>& task : tasks) {
    const bool forgotten = co_await task;
    ended = ended && forgotten;
  }
  co_return ended && !parts_.journal.stopping();
}

}  // namespace ramcore::coordinator
