#include "coordinator/recovery/recovery_attempts.h"

#include <algorithm>

#include "base/mutation.h"
#include "coordinator/state/stored_state.h"
#include "coordinator/tablets/server_steps.h"
#include "runtime/growing_pause.h"

namespace ramcore::coordinator {
namespace {

constexpr int64_t kProgressPauseNs = 10 * runtime::kNanosPerMilli;
constexpr int64_t kProgressPauseNsMax = 100 * runtime::kNanosPerMilli;
// For how long a server may answer nothing, or that it is not ready, before its tablets are given to another one.
constexpr int64_t kPatienceNs = 10 * runtime::kNanosPerSecond;
// Calls to one server under way together.
constexpr size_t kAtOnce = 16;

}  // namespace

RecoveryAttempts::Attempt RecoveryAttempts::attemptOf(ServerId dead, ServerId master, bool is_survivor,
                                                      const std::vector<Tablet>& tablets) {
  Attempt attempt{.dead = dead, .master = master, .is_survivor = is_survivor, .pending = {}};
  for (const Tablet& tablet : tablets) {
    attempt.pending.push_back({.id = tablet.id, .epoch = tablet.last_epoch, .first_segment = {}});
  }
  return attempt;
}

void RecoveryAttempts::note(const Attempt& attempt) {
  for (const Pending& pending : attempt.pending) at_work_[pending.id] = pending.epoch;
}

void RecoveryAttempts::begin(ServerId master, RecoveryOrder order) {
  Attempt attempt = attemptOf(order.dead, master, order.is_survivor, order.tablets);
  note(attempt);
  send(std::move(attempt), std::move(order)).detach();
}

void RecoveryAttempts::carryOn(ServerId dead, ServerId master, bool is_survivor, std::vector<Tablet> tablets) {
  Attempt attempt = attemptOf(dead, master, is_survivor, tablets);
  note(attempt);
  watch(std::move(attempt)).detach();
}

// The tablet, if it is still this attempt's.
const Tablet* RecoveryAttempts::ours(const Attempt& attempt, const Pending& pending) const {
  const Tablet* tablet = parts_.map.findTablet(pending.id);
  if (tablet == nullptr || tablet->state != TabletState::Recovering) return nullptr;
  if (tablet->recovery_master != attempt.master || tablet->last_epoch != pending.epoch) return nullptr;
  const Table* table = parts_.map.findTable(tablet->table);
  return table != nullptr && table->state == TableState::Ready ? tablet : nullptr;
}

bool RecoveryAttempts::goesOn(const Attempt& attempt) const {
  return !parts_.journal.stopping() && parts_.membership.isAlive(attempt.master) &&
         parts_.journal.nowNs() < attempt.heard_ns + kPatienceNs;
}

// ---- fetching

runtime::Task<void> RecoveryAttempts::send(Attempt attempt, RecoveryOrder order) {
  Journal::Running running(parts_.journal);
  attempt.heard_ns = parts_.journal.nowNs();
  bool is_sent = false;
  bool lacks_places = false;
  bool may_pass = co_await clear(attempt);
  Backoff backoff(parts_.journal);
  while (may_pass && goesOn(attempt)) {
    const Status status = co_await parts_.masters.recoverTablets(attempt.master, order);
    is_sent = status == Status::Ok;
    // A survivor takes what has arrived into its log first, and finds no places for that.
    lacks_places = status == Status::TooFewReplicas;
    if (lacks_places) listener_.on_lacking(attempt.dead);
    may_pass = lacks_places || mayPass(status);
    if (is_sent || !may_pass) break;
    (void)co_await backoff.pause();
  }
  if (is_sent) {
    watch(std::move(attempt)).detach();
  } else if (!parts_.journal.stopping()) {
    leaveOut(attempt);
    fail(attempt, attempt.pending, lacks_places);
  }
}

// Has the server drop what it holds or was told of these tablets before, which must not be taken for this attempt's. A
// survivor drops nothing: what it holds is a part of the contents. False if it refuses, or does not answer for long.
runtime::Task<bool> RecoveryAttempts::clear(const Attempt& attempt) {
  if (attempt.is_survivor && !RC_MUTATION("purge-at-the-survivor")) co_return true;
  std::vector<Pending> left = attempt.pending;
  Backoff backoff(parts_.journal);
  while (goesOn(attempt)) {
    const size_t count = std::min(left.size(), kAtOnce);
    std::vector<runtime::Task<Status>> calls;
    for (size_t i = 0; i < count; ++i) {
      calls.push_back(parts_.masters.dropTablet(attempt.master, left[i].id, TabletEpoch(left[i].epoch.value - 1)));
    }
    std::vector<Pending> again;
    bool refused = false;
    for (size_t i = 0; i < count; ++i) {
      const Status dropped = co_await calls[i];
      if (!isDropped(dropped)) again.push_back(left[i]);
      refused = refused || (!isDropped(dropped) && !mayPass(dropped));
    }
    if (refused) co_return false;
    const bool all = again.empty();
    left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(count));
    left.insert(left.end(), again.begin(), again.end());
    if (left.empty()) co_return true;
    if (!all) (void)co_await backoff.pause();
  }
  co_return false;
}

size_t RecoveryAttempts::openCount(const Attempt& attempt) {
  return static_cast<size_t>(std::count_if(attempt.pending.begin(), attempt.pending.end(),
                                           [](const Pending& pending) { return !pending.is_done; }));
}

runtime::Task<void> RecoveryAttempts::watch(Attempt attempt) {
  Journal::Running running(parts_.journal);
  attempt.heard_ns = parts_.journal.nowNs();
  runtime::GrowingPause pause(kProgressPauseNs, kProgressPauseNsMax);
  while (true) {
    leaveOut(attempt);
    if (attempt.pending.empty() || !goesOn(attempt)) break;
    const size_t open_before = openCount(attempt);
    co_await poll(attempt);
    if (openCount(attempt) != open_before) pause = {kProgressPauseNs, kProgressPauseNsMax};
    if (mayGrant(attempt)) {
      const bool stored = co_await grant(attempt);
      if (!stored) co_return;
    }
    if (attempt.pending.empty()) break;
    (void)co_await parts_.journal.sleepFor(pause.nextNs());
  }
  if (!parts_.journal.stopping()) fail(attempt, attempt.pending);
}

// Until its lease is over a dead server may still answer reads. Only the grant waits for that, not the fetching.
bool RecoveryAttempts::mayGrant(const Attempt& attempt) const {
  const auto isOver = [&](ServerId server) {
    return server == attempt.master || parts_.membership.leaseIsOver(server) ||
           RC_MUTATION("grant-before-the-lease-is-over");
  };
  return isOver(attempt.dead) && std::ranges::all_of(attempt.pending, [&](const Pending& pending) {
           const Tablet* tablet = ours(attempt, pending);
           return tablet == nullptr ||
                  std::ranges::all_of(tablet->logs, [&](const LogRef& log) { return isOver(log.server); });
         });
}

// Takes tablets out of the attempt that belong to another one by now, or to a table that is being dropped.
void RecoveryAttempts::leaveOut(Attempt& attempt) {
  std::erase_if(attempt.pending, [&](const Pending& pending) {
    if (ours(attempt, pending) != nullptr) return false;
    const auto known = at_work_.find(pending.id);
    if (known != at_work_.end() && known->second == pending.epoch) at_work_.erase(known);
    return true;
  });
}

// Asks how far some of the tablets are, at most kAtOnce; the next time others.
runtime::Task<void> RecoveryAttempts::poll(Attempt& attempt) {
  std::vector<Pending> asked;
  std::vector<Pending> after;  // in the order of the next time
  for (const Pending& pending : attempt.pending) {
    (pending.is_done || asked.size() >= kAtOnce ? after : asked).push_back(pending);
  }
  std::vector<runtime::Task<PullResult>> calls;
  for (const Pending& pending : asked) {
    calls.push_back(parts_.masters.pullProgress(attempt.master, pending.id, pending.epoch));
  }
  std::vector<Pending> failed;
  bool lacks_places = false;
  for (size_t i = 0; i < asked.size(); ++i) {
    const PullResult pull = co_await calls[i];
    if (pull.status == Status::Ok) attempt.heard_ns = parts_.journal.nowNs();
    lacks_places = lacks_places || (pull.status == Status::Ok && pull.lacks_places);
    const bool has_failed = pull.status == Status::Ok ? pull.pull_status != Status::Ok : !mayPass(pull.status);
    if (has_failed) {
      const Status why = pull.status == Status::Ok ? pull.pull_status : pull.status;
      parts_.trace.warning("server " + std::to_string(attempt.master.value) + " does not recover tablet " +
                           std::to_string(asked[i].id.value) + ": " + std::string(name(why)));
      failed.push_back(asked[i]);
      continue;
    }
    asked[i].is_done = pull.status == Status::Ok && pull.done;
    if (asked[i].is_done) asked[i].first_segment = pull.log.first_segment;
    after.push_back(asked[i]);
  }
  attempt.pending = std::move(after);
  if (lacks_places) listener_.on_lacking(attempt.dead);
  if (!failed.empty()) fail(attempt, failed, lacks_places);
}

// Notes that no server is at work on these tablets any more, and has the master of the attempt forget them: until then
// they take its memory.
void RecoveryAttempts::fail(const Attempt& attempt, const std::vector<Pending>& failed, bool for_places) {
  bool any = false;
  for (const Pending& pending : failed) {
    const auto known = at_work_.find(pending.id);
    if (known == at_work_.end() || known->second != pending.epoch) continue;
    at_work_.erase(known);
    any = true;
    forgetDetached(attempt.master, pending.id, pending.epoch, attempt.is_survivor).detach();
  }
  if (any) listener_.on_failed(attempt.dead, for_places);
}

runtime::Task<void> RecoveryAttempts::forgetDetached(ServerId master, TabletId tablet, TabletEpoch epoch,
                                                     bool keeps_tablet) {
  Journal::Running running(parts_.journal);
  (void)co_await forget(master, tablet, epoch, keeps_tablet);
}

runtime::Task<bool> RecoveryAttempts::forget(ServerId master, TabletId tablet, TabletEpoch epoch, bool keeps_tablet) {
  Backoff backoff(parts_.journal);
  while (parts_.membership.isAlive(master)) {
    Status dropped;
    if (keeps_tablet) {
      dropped = co_await parts_.masters.giveUpIntake(master, tablet, epoch);
    } else {
      dropped = co_await parts_.masters.dropTablet(master, tablet, epoch);
    }
    if (isDropped(dropped)) break;
    if (!mayPass(dropped)) {
      parts_.trace.error("server " + std::to_string(master.value) + " does not forget tablet " +
                         std::to_string(tablet.value) + ": " + std::string(name(dropped)));
      break;
    }
    const bool awake = co_await backoff.pause();
    if (!awake) co_return false;
  }
  co_return !parts_.journal.stopping();
}

// Nobody wants what is forgotten here. No server is told of a tablet before the tablet is stored, and a tablet leaves
// the map only when its owner has split or dropped it. Only the attempt with the latest epoch is granted. A server
// whose log is in the tablet's list holds a part of the contents, under an older epoch if it is to recover the rest.
// Epochs only rise, so this stays true however late the renewal is, or the command that follows on it.
void RecoveryAttempts::reviewIntakes(ServerId server, const std::vector<Intake>& intakes) {
  for (const Intake& intake : intakes) {
    const Tablet* tablet = parts_.map.findTablet(intake.tablet);
    const bool is_old = tablet == nullptr || (intake.epoch < tablet->last_epoch && !holdsPart(*tablet, server));
    if (!is_old || RC_MUTATION("keep-old-intakes")) continue;
    std::set<TabletId>& forgetting = forgetting_[server];
    // Whatever a server says, the calls to it stay few. What is left out is said again with the next renewal.
    if (forgetting.size() >= kAtOnce || !forgetting.insert(intake.tablet).second) continue;
    forgetOld(server, intake).detach();
  }
}

bool RecoveryAttempts::holdsPart(const Tablet& tablet, ServerId server) {
  if (RC_MUTATION("forget-a-part-of-the-contents")) return false;
  return tablet.owner == server || tablet.logOf(server) != nullptr;
}

runtime::Task<void> RecoveryAttempts::forgetOld(ServerId server, Intake intake) {
  Journal::Running running(parts_.journal);
  Backoff backoff(parts_.journal);
  while (parts_.membership.isAlive(server)) {
    const Status dropped = co_await parts_.masters.dropTablet(server, intake.tablet, intake.epoch);
    // A server that refuses says with each renewal that it has the tablet.
    if (isDropped(dropped) || !mayPass(dropped)) break;
    const bool awake = co_await backoff.pause();
    if (!awake) break;
  }
  const auto at = forgetting_.find(server);
  at->second.erase(intake.tablet);
  if (at->second.empty()) forgetting_.erase(at);
}

// ---- granting

// Gives the tablets that are fetched to the server: from here on they are its own, whatever becomes of it. False if the
// coordinator stops.
runtime::Task<bool> RecoveryAttempts::grant(Attempt& attempt) {
  while (std::any_of(attempt.pending.begin(), attempt.pending.end(), [](const Pending& one) { return one.is_done; })) {
    auto guard = co_await parts_.map_lock.lock();
    // No tablet is given to a dead server. The check is under map_lock, and RecoveryManager::storeRecovered() takes
    // map_lock, too: so a server that lives here cannot be stored as recovered, and its log given up, before this
    // change is applied.
    if (!parts_.membership.isAlive(attempt.master)) co_return true;
    leaveOut(attempt);
    Batch batch;
    std::vector<Tablet> tablets;
    for (const Pending& pending : attempt.pending) {
      if (!pending.is_done || batch.changes.size() >= Batch::kChangesMax) continue;
      Tablet tablet = *ours(attempt, pending);
      tablet.owner = attempt.master;
      tablet.epoch = tablet.last_epoch;
      // A survivor's own contents begin where they began before.
      const LogRef* own = tablet.logOf(attempt.master);
      tablet.logs = {own != nullptr ? *own : LogRef{attempt.master, pending.first_segment}};
      tablet.state = TabletState::Taking;
      tablet.recovery_master = {};
      batch.put(keyOf(tablet.id), encode(tablet));
      tablets.push_back(std::move(tablet));
    }
    if (tablets.empty()) co_return true;
    const bool stored = co_await parts_.journal.commitUntilStored(std::move(batch));
    if (!stored) co_return false;
    std::vector<TabletId> ids;
    for (const Tablet& tablet : tablets) {
      parts_.map.updateTablet(tablet);
      ids.push_back(tablet.id);
    }
    leaveOut(attempt);
    guard.release();
    take(attempt.dead, attempt.master, std::move(ids));
  }
  co_return true;
}

// ---- taking

void RecoveryAttempts::take(ServerId dead, ServerId owner, std::vector<TabletId> tablets) {
  taking_[dead] += tablets.size();
  runTake(dead, owner, std::move(tablets)).detach();
}

// The tablet, if it is still this owner's to take.
const Tablet* RecoveryAttempts::granted(ServerId owner, TabletId id) const {
  const Tablet* tablet = parts_.map.findTablet(id);
  if (tablet == nullptr || tablet->state != TabletState::Taking || tablet->owner != owner) return nullptr;
  const Table* table = parts_.map.findTable(tablet->table);
  return table != nullptr && table->state == TableState::Ready ? tablet : nullptr;
}

runtime::Task<void> RecoveryAttempts::runTake(ServerId dead, ServerId owner, std::vector<TabletId> tablets) {
  Journal::Running running(parts_.journal);
  const size_t count = tablets.size();
  bool has_warned = false;
  Backoff backoff(parts_.journal);
  while (!parts_.journal.stopping() && parts_.membership.isAlive(owner)) {
    std::erase_if(tablets, [&](TabletId id) { return granted(owner, id) == nullptr; });
    if (tablets.empty()) break;
    bool refused = false;
    const std::vector<TabletId> taken = co_await takeSome(owner, tablets, refused);
    if (refused && !has_warned) {
      has_warned = true;
      parts_.trace.error("server " + std::to_string(owner.value) + " refuses tablets that it has recovered");
    }
    if (taken.empty()) {
      std::rotate(tablets.begin(), tablets.begin() + static_cast<std::ptrdiff_t>(std::min(tablets.size(), kAtOnce)),
                  tablets.end());
      (void)co_await backoff.pause();
      continue;
    }
    const bool stored = co_await storeTaken(owner, taken);
    if (!stored) break;
    if (dead != ServerId()) listener_.on_back(dead, taken.size());
  }
  const auto left = taking_.find(dead);
  left->second -= count;
  if (left->second == 0) taking_.erase(left);
  if (dead != ServerId()) listener_.on_back(dead, 0);
}

runtime::Task<std::vector<TabletId>> RecoveryAttempts::takeSome(ServerId owner, const std::vector<TabletId>& tablets,
                                                                bool& refused) {
  const size_t count = std::min(tablets.size(), kAtOnce);
  std::vector<runtime::Task<TakeResult>> calls;
  for (size_t i = 0; i < count; ++i) {
    calls.push_back(parts_.masters.takeTablet(owner, *granted(owner, tablets[i]), false));
  }
  std::vector<TabletId> taken;
  for (size_t i = 0; i < count; ++i) {
    const TakeResult result = co_await calls[i];
    if (result.status == Status::Ok) taken.push_back(tablets[i]);
    refused = refused || (result.status != Status::Ok && !mayPass(result.status));
  }
  co_return taken;
}

runtime::Task<bool> RecoveryAttempts::storeTaken(ServerId owner, const std::vector<TabletId>& taken) {
  auto guard = co_await parts_.map_lock.lock();
  Batch batch;
  std::vector<Tablet> tablets;
  for (const TabletId id : taken) {
    const Tablet* known = granted(owner, id);
    if (known == nullptr) continue;
    Tablet tablet = *known;
    tablet.state = TabletState::Normal;
    batch.put(keyOf(id), encode(tablet));
    tablets.push_back(std::move(tablet));
  }
  if (tablets.empty()) co_return true;
  const bool stored = co_await parts_.journal.commitUntilStored(std::move(batch));
  if (!stored) co_return false;
  for (const Tablet& tablet : tablets) parts_.map.updateTablet(tablet);
  co_return true;
}

}  // namespace ramcore::coordinator
