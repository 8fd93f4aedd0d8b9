#include "coordinator/tablets/migration_manager.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/mutation.h"
#include "runtime/growing_pause.h"

namespace ramcore::coordinator {
namespace {

// Pauses between looks at what arrives. The first is short, because clients wait for the hand-over.
constexpr int64_t kArrivalPauseNs = 1 * runtime::kNanosPerMilli;
constexpr int64_t kArrivalPauseNsMax = 100 * runtime::kNanosPerMilli;
// While a move waits for its turn nothing tells it that one of its servers has died.
constexpr int64_t kTurnPauseNs = runtime::kNanosPerSecond;

}  // namespace

MigrationManager::MigrationManager(const Parts& parts)
    : parts_(parts),
      calls_(parts_),
      moves_(parts_),
      ids_(parts.journal, "migration"),
      changed_(parts.journal.executor()) {}

runtime::Task<Status> MigrationManager::load() {
  const Status ids = co_await ids_.load();
  if (ids != Status::Ok) co_return ids;
  co_return co_await moves_.load(ids_.end());
}

void MigrationManager::resume() {
  for (const auto& [id, move] : moves_.all()) {
    const Migration& stored = move.migration;
    if (stored.isOver()) continue;
    turns_.enter(id, stored.source, stored.destination, stored.step != MigrationStep::Preparing);
  }
  // Each looks at all the others.
  for (const auto& [id, move] : moves_.all()) {
    if (!move.migration.isOver()) run(id).detach();
  }
}

void MigrationManager::stop() { changed_.failAll(Status::Shutdown); }

const MigrationManager::Progress* MigrationManager::find(MigrationId id) const {
  const auto found = moves_.all().find(id);
  return found == moves_.all().end() ? nullptr : &found->second;
}

// ---- begin, cancel

Status MigrationManager::mayBegin(const Tablet* tablet, ServerId destination) const {
  // A server that was declared dead never comes back as the same: there is nothing to wait for.
  if (tablet == nullptr || !parts_.membership.isAlive(destination)) return Status::NotFound;
  const Table* table = parts_.map.findTable(tablet->table);
  if (table == nullptr || table->state != TableState::Ready) return Status::NotFound;
  if (tablet->state != TabletState::Normal || moves_.isMoving(tablet->id)) return Status::RetryLater;
  if (tablet->owner == destination) return Status::BadRequest;
  if (!parts_.membership.isAlive(tablet->owner) || !parts_.membership.hasReported(destination))
    return Status::RetryLater;
  if (moves_.runningCount() >= kRunningMax) return Status::RetryLater;
  return Status::Ok;
}

runtime::Task<MigrationManager::Begun> MigrationManager::begin(TabletId tablet_id, ServerId destination,
                                                               uint64_t rate_max) {
  auto guard = co_await parts_.map_lock.lock();
  const Tablet* found = parts_.map.findTablet(tablet_id);
  const Status allowed = mayBegin(found, destination);
  if (allowed != Status::Ok) {
    // A repeated request: the latest move of this tablet is the one that was asked for.
    for (auto at = moves_.all().rbegin(); at != moves_.all().rend(); ++at) {
      const Migration& known = at->second.migration;
      if (known.tablet != tablet_id) continue;
      const bool same = known.destination == destination && (!known.isOver() || known.step == MigrationStep::Done);
      if (same) co_return Begun{Status::Ok, known.id};
      break;
    }
    co_return Begun{allowed, {}};
  }
  const Result<uint64_t> id = co_await ids_.take();
  if (!id.ok()) co_return Begun{id.error(), {}};

  Tablet tablet = *parts_.map.findTablet(tablet_id);
  tablet.state = TabletState::Moving;
  tablet.last_epoch.value += 1;
  const MigrationId begun(*id);
  Migration move = {.id = begun,
                    .tablet = tablet_id,
                    .table = tablet.table,
                    .source = tablet.owner,
                    .destination = destination,
                    .source_epoch = tablet.epoch,
                    .destination_epoch = tablet.last_epoch,
                    .reason = {},
                    .rate_max = rate_max};
  const Status stored = co_await moves_.storeBegun(std::move(move), tablet);
  if (stored != Status::Ok) co_return Begun{stored, {}};
  turns_.enter(begun, tablet.owner, destination, false);
  run(begun).detach();
  co_return Begun{Status::Ok, begun};
}

runtime::Task<Status> MigrationManager::cancel(MigrationId id, int64_t deadline_ns) {
  std::optional<uint64_t> returns_before;
  while (true) {
    const auto found = moves_.all().find(id);
    if (found == moves_.all().end()) co_return Status::NotFound;
    switch (found->second.migration.step) {
      case MigrationStep::GivingUp:
      case MigrationStep::Cancelled:
        co_return Status::Ok;
      case MigrationStep::HandedOver:
      case MigrationStep::Arrived:
      case MigrationStep::Done:
      case MigrationStep::Failed:
        co_return Status::BadRequest;
      case MigrationStep::Returning:
        co_return Status::Ok;
      case MigrationStep::Arriving:
        if (!returns_before) returns_before = found->second.returns_given_up;
        if (*returns_before != found->second.returns_given_up) co_return found->second.return_status;
        break;
      case MigrationStep::Copying:
      case MigrationStep::Preparing:
      case MigrationStep::Freezing:
        break;
    }
    // One that waits for its turn hears of it at once.
    if (!std::exchange(found->second.cancel_wanted, true)) changed_.notifyAll();
    if (parts_.journal.stopping()) co_return Status::Shutdown;
    const Status changed = co_await changed_.wait(deadline_ns);
    if (changed == Status::DeadlineExceeded) co_return Status::RetryLater;
  }
}

runtime::Task<Status> MigrationManager::setRate(MigrationId id, uint64_t rate_max) {
  const Progress* const move = find(id);
  if (move == nullptr) co_return Status::NotFound;
  if (move->migration.isOver()) co_return Status::BadRequest;
  const bool stored = co_await moves_.storeRate(id, rate_max);
  if (!stored) co_return Status::Shutdown;
  const Progress* const now = find(id);
  co_return now == nullptr || now->migration.isOver() ? Status::BadRequest : Status::Ok;
}

runtime::Task<bool> MigrationManager::endAll(TableId table) {
  while (!parts_.journal.stopping()) {
    bool any = false;
    bool is_new = false;
    for (auto& [id, move] : moves_.all()) {
      if (move.migration.table != table || move.migration.isOver()) continue;
      is_new |= !std::exchange(move.cancel_wanted, true);
      any = true;
    }
    if (!any) co_return true;
    if (is_new) changed_.notifyAll();
    [[maybe_unused]] const Status changed = co_await changed_.wait();
  }
  co_return false;
}

// ---- the state machine

runtime::Task<void> MigrationManager::run(MigrationId id) {
  Journal::Running running(parts_.journal);
  while (!moves_.record(id).isOver()) {
    const bool goes_on = co_await runStep(id);
    if (!goes_on) co_return;
    if (moves_.record(id).isOver()) turns_.leave(id);
    changed_.notifyAll();
  }
}

// False if the coordinator stops.
runtime::Task<bool> MigrationManager::runStep(MigrationId id) {
  StepOutcome outcome;
  switch (moves_.record(id).step) {
    case MigrationStep::Copying:
      co_return co_await moves_.storeGivingUp(id, "it was begun by an earlier version", false);
    case MigrationStep::Preparing:
      outcome = co_await prepare(id);
      break;
    case MigrationStep::Freezing:
      outcome = co_await freeze(id);
      break;
    case MigrationStep::Arriving:
    case MigrationStep::Returning:
      co_return co_await arrive(id);
    case MigrationStep::HandedOver:
    case MigrationStep::Arrived:
      co_return co_await finish(id);
    default:
      co_return co_await giveUp(id);
  }
  if (outcome.stopped) co_return false;
  if (!outcome.succeeded) co_return co_await moves_.storeGivingUp(id, std::move(outcome.reason), outcome.lacks_room);
  if (moves_.record(id).step == MigrationStep::Preparing) co_return co_await moves_.storeFreezing(id, outcome.segment);
  co_return co_await moves_.storeHandOver(id);
}

// Asked before each attempt of a call. Gives the reason in `outcome`: the coordinator stops, the move was cancelled, or
// one of the two servers is dead. While the tablet arrives, a request to cancel it is what is carried out.
bool MigrationManager::mustEnd(MigrationId id, StepOutcome& outcome) const {
  outcome.stopped = parts_.journal.stopping();
  if (outcome.stopped) return true;
  const MoveRecords::Move& active = moves_.at(id);
  const Migration& move = active.migration;
  if (move.step == MigrationStep::Arriving) {
    if (parts_.map.findTable(move.table)->state == TableState::Dropping) outcome.reason = "the table is dropped";
  } else if (active.cancel_wanted) {
    outcome.reason = "cancelled";
  }
  if (!outcome.reason.empty()) return true;
  if (!parts_.membership.isAlive(move.source)) outcome.reason = "the source is dead";
  if (!parts_.membership.isAlive(move.destination)) outcome.reason = "the destination is dead";
  return !outcome.reason.empty();
}

runtime::Task<StepOutcome> MigrationManager::prepare(MigrationId id) {
  const Migration move = moves_.record(id);
  const MigrationCalls::MustEnd must_end = [this, id](StepOutcome& outcome) { return mustEnd(id, outcome); };
  StepOutcome outcome;
  while (!turns_.take(id)) {
    moves_.at(id).waits_for = turns_.whatFor(id);
    if (mustEnd(id, outcome)) co_return outcome;
    (void)co_await changed_.wait(parts_.journal.nowNs() + kTurnPauseNs);
  }
  moves_.at(id).waits_for.clear();
  outcome = co_await calls_.startPull(move, must_end);
  if (!outcome.succeeded) co_return outcome;
  co_return co_await calls_.awaitPrepared(move, must_end);
}

runtime::Task<StepOutcome> MigrationManager::freeze(MigrationId id) {
  const Migration move = moves_.record(id);
  const MigrationCalls::MustEnd must_end = [this, id](StepOutcome& outcome) { return mustEnd(id, outcome); };
  StepOutcome outcome = co_await calls_.freezeSource(move, must_end);
  if (!outcome.succeeded) co_return outcome;
  co_return co_await calls_.adopt(move, outcome.version_ceiling, must_end);
}

// ---- from the hand-over on

// The way that the contents take: to the destination, or back to the source.
Migration MigrationManager::wayOf(MigrationId id) const {
  const Migration& move = moves_.record(id);
  return move.step == MigrationStep::Returning ? move.reversed() : move;
}

// Each attempt looks at the tablet first: when one of its servers dies, the recovery has it in hand, and nothing is
// told to the other one that could contradict the recovery.
runtime::Task<bool> MigrationManager::arrive(MigrationId id) {
  const Migration way = wayOf(id);
  runtime::GrowingPause pause(kArrivalPauseNs, kArrivalPauseNsMax);
  bool is_lent = false;
  bool is_taken = false;
  while (!parts_.journal.stopping()) {
    RC_CHECK_MSG(parts_.map.findTablet(way.tablet) != nullptr, "a tablet has gone whose move is not over");
    const Tablet& tablet = *parts_.map.findTablet(way.tablet);
    if (parts_.map.findTable(way.table)->state == TableState::Dropping) {
      co_return co_await moves_.storeEnd(id, MigrationStep::Cancelled, "the table is dropped");
    }
    if (tablet.state != TabletState::Moving) moves_.at(id).waits_for = "a recovery brings the rest";
    if (!tablet.isLent()) co_return co_await storeEndByRecovery(id, tablet.owner);
    if (tablet.state == TabletState::Moving) {
      if (!is_lent) is_lent = co_await calls_.lend(way);
      if (is_lent && !is_taken) is_taken = co_await calls_.take(way);
      bool has_joined = false;
      if (is_taken) has_joined = co_await hasJoined(id);
      if (has_joined) co_return co_await moves_.storeArrived(id);
      if (is_taken && isTakenBack(id)) {
        const bool goes_on = co_await tryReturn(id);
        if (!goes_on || moves_.record(id).step == MigrationStep::Returning) co_return goes_on;
      }
    }
    (void)co_await parts_.journal.sleepFor(pause.nextNs());
  }
  co_return false;
}

// A recovery has brought the contents into one log.
runtime::Task<bool> MigrationManager::storeEndByRecovery(MigrationId id, ServerId owner) {
  const Migration move = moves_.record(id);
  if (owner == move.destination) co_return co_await moves_.storeEnd(id, MigrationStep::Done, "");
  const bool is_back = move.step == MigrationStep::Returning && owner == move.source;
  co_return co_await moves_.storeEnd(id, is_back ? MigrationStep::Cancelled : MigrationStep::Failed,
                                     "the destination is dead");
}

runtime::Task<bool> MigrationManager::hasJoined(MigrationId id) {
  const Migration way = wayOf(id);
  const PullResult pull =
      co_await parts_.masters.pullProgress(way.destination, way.tablet, way.destination_epoch, way.rate_max);
  if (pull.status != Status::Ok) co_return false;
  MoveRecords::Move& active = moves_.at(id);
  active.migration.objects = pull.objects;
  active.migration.bytes = pull.bytes;
  active.fraction = pull.fraction;
  active.waits_for = whatIsMissing(pull, way.source);
  if (active.waits_for.empty()) active.waits_for = active.return_problem;
  if (pull.phase == PullPhase::Arriving)
    moves_.traceProgress(id, std::to_string(static_cast<int>(pull.fraction * 100)) + " % has arrived");
  if (pull.phase == PullPhase::Arrived) moves_.traceProgress(id, "all has arrived, and joins the destination's log");
  const bool is_early = RC_MUTATION("shrink-before-the-flush") && pull.phase >= PullPhase::Arrived;
  co_return pull.phase >= PullPhase::Joined || is_early;
}

// ---- of a move that is taken back

bool MigrationManager::isTakenBack(MigrationId id) const {
  const MoveRecords::Move& active = moves_.at(id);
  const bool is_wanted = active.cancel_wanted || active.migration.return_epoch;
  return active.migration.step == MigrationStep::Arriving && is_wanted;
}

// Hands the tablet back to the source, or gives that up. False if the coordinator stops.
runtime::Task<bool> MigrationManager::tryReturn(MigrationId id) {
  const bool is_wanted = moves_.record(id).return_epoch ? true : co_await moves_.storeReturnEpoch(id, true);
  if (!is_wanted) co_return !parts_.journal.stopping();
  const Migration back = moves_.record(id).reversed();
  const StepOutcome outcome =
      co_await calls_.prepareReturn(back, [this, id](StepOutcome& now) { return mustEnd(id, now); });
  if (outcome.stopped) co_return false;
  if (outcome.succeeded) {
    const bool stored = co_await moves_.storeReturning(id);
    if (!stored || moves_.record(id).step == MigrationStep::Returning) co_return stored;
  }
  const bool goes_on = co_await calls_.giveUpReturn(back);
  if (!goes_on) co_return false;
  MoveRecords::Move& active = moves_.at(id);
  active.cancel_wanted = false;
  active.return_problem = "it was not handed back to server " + std::to_string(back.destination.value) + ": " +
                          (outcome.succeeded ? "one of the two servers is dead" : outcome.reason);
  active.return_status = outcome.lacks_room ? Status::NoSpace : Status::Cancelled;
  ++active.returns_given_up;
  parts_.trace.info("move " + std::to_string(id.value) + " goes on; " + active.return_problem);
  const bool stored = co_await moves_.storeReturnEpoch(id, false);
  changed_.notifyAll();
  co_return stored;
}

runtime::Task<bool> MigrationManager::finish(MigrationId id) {
  const Migration move = moves_.record(id);
  // The source of a move that an earlier version has handed over may answer reads until it has dropped the tablet.
  const bool drops_first = move.step == MigrationStep::HandedOver;
  bool goes_on = true;
  if (drops_first) goes_on = co_await calls_.dropAtSource(move, true);
  if (goes_on) goes_on = co_await calls_.settleAtDestination(move);
  if (goes_on && !drops_first) goes_on = co_await calls_.dropAtSource(move, false);
  if (!goes_on || parts_.journal.stopping()) co_return false;
  co_return co_await moves_.storeEnd(id, MigrationStep::Done, {});
}

runtime::Task<bool> MigrationManager::giveUp(MigrationId id) {
  const Migration move = moves_.record(id);
  const TabletEpoch epoch = parts_.map.findTablet(move.tablet)->epoch;
  const bool is_back = move.return_epoch && epoch == move.return_epoch;
  bool goes_on =
      is_back ? co_await calls_.settleAtDestination(move.reversed()) : co_await calls_.resumeSource(move, epoch);
  if (goes_on) goes_on = co_await calls_.forgetAtDestination(move);
  if (!goes_on || parts_.journal.stopping()) co_return false;
  co_return co_await moves_.storeEnd(id, move.cancelled ? MigrationStep::Cancelled : MigrationStep::Failed,
                                     move.reason);
}

}  // namespace ramcore::coordinator
