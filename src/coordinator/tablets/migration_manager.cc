#include "coordinator/tablets/migration_manager.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/mutation.h"
#include "coordinator/state/stored_state.h"
#include "coordinator/tablets/stored_moves.h"
#include "runtime/growing_pause.h"

namespace ramcore::coordinator {
namespace {

// Pauses between looks at what arrives. The first is short, because clients wait for the hand-over.
constexpr int64_t kArrivalPauseNs = 1 * runtime::kNanosPerMilli;
constexpr int64_t kArrivalPauseNsMax = 100 * runtime::kNanosPerMilli;

}  // namespace

MigrationManager::MigrationManager(const Parts& parts)
    : parts_(parts), calls_(parts_), ids_(parts.journal, "migration"), changed_(parts.journal.executor()) {}

runtime::Task<Status> MigrationManager::load() {
  const Status ids = co_await ids_.load();
  if (ids != Status::Ok) co_return ids;
  std::vector<Migration> moves;
  const Status read = co_await readMoves(parts_, ids_.end(), moves);
  for (Migration& move : moves) active_[move.id].migration = std::move(move);
  co_return read;
}

void MigrationManager::resume() {
  for (const auto& [id, active] : active_) {
    if (!active.migration.isOver()) run(id).detach();
  }
}

void MigrationManager::stop() { changed_.failAll(Status::Shutdown); }

const MigrationManager::Progress* MigrationManager::find(MigrationId id) const {
  const auto found = active_.find(id);
  return found == active_.end() ? nullptr : &found->second;
}

bool MigrationManager::isMoving(TabletId tablet) const {
  return std::ranges::any_of(active_, [tablet](const auto& one) {
    return one.second.migration.tablet == tablet && !one.second.migration.isOver();
  });
}

size_t MigrationManager::runningCount() const {
  size_t count = 0;
  for (const auto& [id, active] : active_) count += active.migration.isOver() ? 0 : 1;
  return count;
}

// ---- begin, cancel

Status MigrationManager::mayBegin(const Tablet* tablet, ServerId destination) const {
  // A server that was declared dead never comes back as the same: there is nothing to wait for.
  if (tablet == nullptr || !parts_.membership.isAlive(destination)) return Status::NotFound;
  const Table* table = parts_.map.findTable(tablet->table);
  if (table == nullptr || table->state != TableState::Ready) return Status::NotFound;
  if (tablet->state != TabletState::Normal || isMoving(tablet->id)) return Status::RetryLater;
  if (tablet->owner == destination) return Status::BadRequest;
  if (!parts_.membership.isAlive(tablet->owner) || !parts_.membership.hasReported(destination))
    return Status::RetryLater;
  if (runningCount() >= kRunningMax) return Status::RetryLater;
  return Status::Ok;
}

runtime::Task<MigrationManager::Begun> MigrationManager::begin(TabletId tablet_id, ServerId destination) {
  auto guard = co_await parts_.map_lock.lock();
  const Tablet* found = parts_.map.findTablet(tablet_id);
  const Status allowed = mayBegin(found, destination);
  if (allowed != Status::Ok) {
    // A repeated request: the latest move of this tablet is the one that was asked for.
    for (auto at = active_.rbegin(); at != active_.rend(); ++at) {
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
  Active active;
  active.migration = {.id = MigrationId(*id),
                      .tablet = tablet_id,
                      .table = tablet.table,
                      .source = tablet.owner,
                      .destination = destination,
                      .source_epoch = tablet.epoch,
                      .destination_epoch = tablet.last_epoch,
                      .reason = {}};
  const MigrationId begun = active.migration.id;
  Batch batch;
  batch.put(keyOf(tablet_id), encode(tablet));
  batch.put(keyOf(begun), encode(active.migration));
  const Status stored = co_await parts_.journal.commit(std::move(batch));
  if (stored != Status::Ok) co_return Begun{stored, {}};
  parts_.map.updateTablet(tablet);
  active_.emplace(begun, std::move(active));
  traceStep(begun);
  run(begun).detach();
  co_return Begun{Status::Ok, begun};
}

runtime::Task<Status> MigrationManager::cancel(MigrationId id, int64_t deadline_ns) {
  std::optional<uint64_t> returns_before;
  while (true) {
    const auto found = active_.find(id);
    if (found == active_.end()) co_return Status::NotFound;
    switch (found->second.migration.step) {
      case MigrationStep::GivingUp:
      case MigrationStep::Cancelled:
      case MigrationStep::Failed:
        co_return Status::Ok;
      case MigrationStep::HandedOver:
      case MigrationStep::Arrived:
      case MigrationStep::Done:
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
    found->second.cancel_wanted = true;
    if (parts_.journal.stopping()) co_return Status::Shutdown;
    const Status changed = co_await changed_.wait(deadline_ns);
    if (changed == Status::DeadlineExceeded) co_return Status::RetryLater;
  }
}

runtime::Task<bool> MigrationManager::endAll(TableId table) {
  while (!parts_.journal.stopping()) {
    bool any = false;
    for (auto& [id, active] : active_) {
      if (active.migration.table != table || active.migration.isOver()) continue;
      active.cancel_wanted = true;
      any = true;
    }
    if (!any) co_return true;
    [[maybe_unused]] const Status changed = co_await changed_.wait();
  }
  co_return false;
}

// ---- what a move has come to, for whoever follows it

// Each step, once it is stored. tests/durability/moving_rounds.py waits for these lines, and for those of the progress.
void MigrationManager::traceStep(MigrationId id) const {
  traceProgress(id, "is " + std::string(textOf(record(id).step)));
}

void MigrationManager::traceProgress(MigrationId id, const std::string& what) const {
  if (!parts_.trace.enabled(TraceLevel::Debug)) return;
  parts_.trace.debug("move " + std::to_string(id.value) + " of tablet " + std::to_string(record(id).tablet.value) +
                     ": " + what);
}

// ---- the state machine

runtime::Task<void> MigrationManager::run(MigrationId id) {
  Journal::Running running(parts_.journal);
  while (!record(id).isOver()) {
    const bool goes_on = co_await runStep(id);
    if (!goes_on) co_return;
    changed_.notifyAll();
  }
}

// False if the coordinator stops.
runtime::Task<bool> MigrationManager::runStep(MigrationId id) {
  StepOutcome outcome;
  switch (record(id).step) {
    case MigrationStep::Copying:
      co_return co_await storeGivingUp(id, "it was begun by an earlier version");
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
  if (!outcome.succeeded) co_return co_await storeGivingUp(id, std::move(outcome.reason));
  if (record(id).step == MigrationStep::Preparing) co_return co_await storeFreezing(id, outcome.segment);
  co_return co_await storeHandOver(id);
}

// Asked before each attempt of a call. Gives the reason in `outcome`: the coordinator stops, the move was cancelled, or
// one of the two servers is dead. While the tablet arrives, a request to cancel it is what is carried out.
bool MigrationManager::mustEnd(MigrationId id, StepOutcome& outcome) const {
  outcome.stopped = parts_.journal.stopping();
  if (outcome.stopped) return true;
  const Active& active = active_.at(id);
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
  const Migration move = record(id);
  const MigrationCalls::MustEnd must_end = [this, id](StepOutcome& outcome) { return mustEnd(id, outcome); };
  StepOutcome outcome = co_await calls_.startPull(move, must_end);
  if (!outcome.succeeded) co_return outcome;
  co_return co_await calls_.awaitPrepared(move, must_end);
}

runtime::Task<bool> MigrationManager::storeFreezing(MigrationId id, SegmentId destination_segment) {
  auto guard = co_await parts_.map_lock.lock();
  Migration move = record(id);
  move.step = MigrationStep::Freezing;
  move.destination_segment = destination_segment;
  co_return co_await store(move, *parts_.map.findTablet(move.tablet));
}

runtime::Task<StepOutcome> MigrationManager::freeze(MigrationId id) {
  const Migration move = record(id);
  const MigrationCalls::MustEnd must_end = [this, id](StepOutcome& outcome) { return mustEnd(id, outcome); };
  StepOutcome outcome = co_await calls_.freezeSource(move, must_end);
  if (!outcome.succeeded) co_return outcome;
  co_return co_await calls_.adopt(move, outcome.version_ceiling, must_end);
}

// A step and the tablet in one batch, under map_lock. False if the coordinator stops.
runtime::Task<bool> MigrationManager::store(const Migration& move, const Tablet& tablet) {
  Batch batch;
  batch.put(keyOf(tablet.id), encode(tablet));
  batch.put(keyOf(move.id), encode(move));
  const bool stored = co_await parts_.journal.commitUntilStored(std::move(batch));
  if (!stored) co_return false;
  parts_.map.updateTablet(tablet);
  active_.at(move.id).migration = move;
  traceStep(move.id);
  co_return true;
}

runtime::Task<bool> MigrationManager::storeHandOver(MigrationId id) {
  auto guard = co_await parts_.map_lock.lock();
  Migration move = record(id);
  // No tablet is given to a dead server. The check is under map_lock, and RecoveryManager::storeRecovered() takes
  // map_lock, too: so a server that lives here cannot be stored as recovered, and its log given up, before this change
  // is applied.
  // The next look at the move gives it up.
  const bool both_live = parts_.membership.isAlive(move.destination) && parts_.membership.isAlive(move.source);
  if (!both_live) co_return !parts_.journal.stopping();
  move.step = MigrationStep::Arriving;
  Tablet tablet = *parts_.map.findTablet(move.tablet);
  tablet.owner = move.destination;
  tablet.epoch = move.destination_epoch;
  tablet.logs.push_back({move.destination, move.destination_segment});
  co_return co_await store(move, tablet);
}

runtime::Task<bool> MigrationManager::storeGivingUp(MigrationId id, std::string reason) {
  auto guard = co_await parts_.map_lock.lock();
  Migration move = record(id);
  move.step = MigrationStep::GivingUp;
  move.cancelled = active_.at(id).cancel_wanted;
  move.reason = std::move(reason);
  Tablet tablet = *parts_.map.findTablet(move.tablet);
  tablet.last_epoch.value += 1;
  tablet.epoch = tablet.last_epoch;
  co_return co_await store(move, tablet);
}

// ---- from the hand-over on

// The way that the contents take: to the destination, or back to the source.
Migration MigrationManager::wayOf(MigrationId id) const {
  const Migration& move = record(id);
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
      co_return co_await storeEnd(id, MigrationStep::Cancelled, "the table is dropped");
    }
    if (tablet.state != TabletState::Moving) active_.at(id).waits_for = "a recovery brings the rest";
    if (!tablet.isLent()) co_return co_await storeEndByRecovery(id, tablet.owner);
    if (tablet.state == TabletState::Moving) {
      if (!is_lent) is_lent = co_await calls_.lend(way);
      if (is_lent && !is_taken) is_taken = co_await calls_.take(way);
      bool has_joined = false;
      if (is_taken) has_joined = co_await hasJoined(id);
      if (has_joined) co_return co_await storeArrived(id);
      if (is_taken && isTakenBack(id)) {
        const bool goes_on = co_await tryReturn(id);
        if (!goes_on || record(id).step == MigrationStep::Returning) co_return goes_on;
      }
    }
    (void)co_await parts_.journal.sleepFor(pause.nextNs());
  }
  co_return false;
}

// A recovery has brought the contents into one log.
runtime::Task<bool> MigrationManager::storeEndByRecovery(MigrationId id, ServerId owner) {
  const Migration move = record(id);
  if (owner == move.destination) co_return co_await storeEnd(id, MigrationStep::Done, "");
  const bool is_back = move.step == MigrationStep::Returning && owner == move.source;
  co_return co_await storeEnd(id, is_back ? MigrationStep::Cancelled : MigrationStep::Failed,
                              "the destination is dead");
}

runtime::Task<bool> MigrationManager::hasJoined(MigrationId id) {
  const Migration way = wayOf(id);
  const PullResult pull = co_await parts_.masters.pullProgress(way.destination, way.tablet, way.destination_epoch);
  if (pull.status != Status::Ok) co_return false;
  Active& active = active_.at(id);
  active.migration.objects = pull.objects;
  active.migration.bytes = pull.bytes;
  active.fraction = pull.fraction;
  active.waits_for = whatIsMissing(pull, way.source);
  if (active.waits_for.empty()) active.waits_for = active.return_problem;
  if (pull.phase == PullPhase::Arriving)
    traceProgress(id, std::to_string(static_cast<int>(pull.fraction * 100)) + " % has arrived");
  if (pull.phase == PullPhase::Arrived) traceProgress(id, "all has arrived, and joins the destination's log");
  const bool is_early = RC_MUTATION("shrink-before-the-flush") && pull.phase >= PullPhase::Arrived;
  co_return pull.phase >= PullPhase::Joined || is_early;
}

// The contents are in the log of the owner, flushed: the other one is not needed for them any more.
runtime::Task<bool> MigrationManager::storeArrived(MigrationId id) {
  auto guard = co_await parts_.map_lock.lock();
  Migration move = record(id);
  Tablet tablet = *parts_.map.findTablet(move.tablet);
  if (tablet.state != TabletState::Moving) co_return !parts_.journal.stopping();  // a recovery has begun meanwhile
  const bool is_back = move.step == MigrationStep::Returning;
  move.step = is_back ? MigrationStep::GivingUp : MigrationStep::Arrived;
  move.cancelled = is_back;
  if (is_back) move.reason = "cancelled";
  tablet.logs = {*tablet.logOf(tablet.owner)};
  co_return co_await store(move, tablet);
}

// ---- of a move that is taken back

bool MigrationManager::isTakenBack(MigrationId id) const {
  const Active& active = active_.at(id);
  const bool is_wanted = active.cancel_wanted || active.migration.return_epoch;
  return active.migration.step == MigrationStep::Arriving && is_wanted;
}

// Hands the tablet back to the source, or gives that up. False if the coordinator stops.
runtime::Task<bool> MigrationManager::tryReturn(MigrationId id) {
  const bool is_wanted = record(id).return_epoch ? true : co_await storeReturnEpoch(id, true);
  if (!is_wanted) co_return !parts_.journal.stopping();
  const Migration back = record(id).reversed();
  const StepOutcome outcome =
      co_await calls_.prepareReturn(back, [this, id](StepOutcome& now) { return mustEnd(id, now); });
  if (outcome.stopped) co_return false;
  if (outcome.succeeded) {
    const bool stored = co_await storeReturning(id);
    if (!stored || record(id).step == MigrationStep::Returning) co_return stored;
  }
  const bool goes_on = co_await calls_.giveUpReturn(back);
  if (!goes_on) co_return false;
  Active& active = active_.at(id);
  active.cancel_wanted = false;
  active.return_problem = "it was not handed back to server " + std::to_string(back.destination.value) + ": " +
                          (outcome.succeeded ? "one of the two servers is dead" : outcome.reason);
  active.return_status = outcome.lacks_room ? Status::NoSpace : Status::RetryLater;
  ++active.returns_given_up;
  parts_.trace.info("move " + std::to_string(id.value) + " goes on; " + active.return_problem);
  const bool stored = co_await storeReturnEpoch(id, false);
  changed_.notifyAll();
  co_return stored;
}

// Draws the epoch under which the source gets the tablet back, or forgets it. False if that is not stored: the
// coordinator stops, or a recovery has the tablet in hand.
runtime::Task<bool> MigrationManager::storeReturnEpoch(MigrationId id, bool is_wanted) {
  auto guard = co_await parts_.map_lock.lock();
  Migration move = record(id);
  Tablet tablet = *parts_.map.findTablet(move.tablet);
  if (is_wanted && tablet.state != TabletState::Moving) co_return false;
  if (is_wanted) tablet.last_epoch.value += 1;
  move.return_epoch = is_wanted ? tablet.last_epoch : TabletEpoch();
  co_return co_await store(move, tablet);
}

runtime::Task<bool> MigrationManager::storeReturning(MigrationId id) {
  auto guard = co_await parts_.map_lock.lock();
  Migration move = record(id);
  Tablet tablet = *parts_.map.findTablet(move.tablet);
  // As storeHandOver().
  const bool both_live = parts_.membership.isAlive(move.destination) && parts_.membership.isAlive(move.source);
  if (!both_live || tablet.state != TabletState::Moving) co_return !parts_.journal.stopping();
  move.step = MigrationStep::Returning;
  tablet.owner = move.source;
  tablet.epoch = move.return_epoch;
  std::swap(tablet.logs.front(), tablet.logs.back());  // the owner's is the last
  co_return co_await store(move, tablet);
}

runtime::Task<bool> MigrationManager::finish(MigrationId id) {
  const Migration move = record(id);
  // The source of a move that an earlier version has handed over may answer reads until it has dropped the tablet.
  const bool drops_first = move.step == MigrationStep::HandedOver;
  bool goes_on = true;
  if (drops_first) goes_on = co_await calls_.dropAtSource(move, true);
  if (goes_on) goes_on = co_await calls_.settleAtDestination(move);
  if (goes_on && !drops_first) goes_on = co_await calls_.dropAtSource(move, false);
  if (!goes_on || parts_.journal.stopping()) co_return false;
  co_return co_await storeEnd(id, MigrationStep::Done, {});
}

runtime::Task<bool> MigrationManager::giveUp(MigrationId id) {
  const Migration move = record(id);
  const TabletEpoch epoch = parts_.map.findTablet(move.tablet)->epoch;
  const bool is_back = move.return_epoch && epoch == move.return_epoch;
  bool goes_on =
      is_back ? co_await calls_.settleAtDestination(move.reversed()) : co_await calls_.resumeSource(move, epoch);
  if (goes_on) goes_on = co_await calls_.forgetAtDestination(move);
  if (!goes_on || parts_.journal.stopping()) co_return false;
  co_return co_await storeEnd(id, move.cancelled ? MigrationStep::Cancelled : MigrationStep::Failed, move.reason);
}

runtime::Task<bool> MigrationManager::storeEnd(MigrationId id, MigrationStep step, std::string reason) {
  auto guard = co_await parts_.map_lock.lock();
  Migration move = record(id);
  const MigrationStep before = move.step;
  move.step = step;
  move.reason = std::move(reason);
  // A recovery may have the tablet in hand: then its state is the recovery's.
  Tablet tablet = *parts_.map.findTablet(move.tablet);
  const bool is_ours = tablet.state == TabletState::Moving;
  if (is_ours) tablet.state = TabletState::Normal;
  Batch batch;
  if (is_ours) batch.put(keyOf(tablet.id), encode(tablet));
  batch.put(keyOf(id), encode(move));
  std::vector<MigrationId> forgotten;
  forgetOldest(batch, forgotten);
  const bool stored = co_await parts_.journal.commitUntilStored(std::move(batch));
  if (!stored) co_return false;
  if (is_ours) parts_.map.updateTablet(tablet);
  active_.at(id).migration = move;
  if (step == MigrationStep::Done) active_.at(id).fraction = 1;
  active_.at(id).waits_for.clear();
  for (const MigrationId old : forgotten) active_.erase(old);
  parts_.trace.info("move " + std::to_string(id.value) + " of tablet " + std::to_string(tablet.id.value) +
                    " to server " + std::to_string(move.destination.value) +
                    (step == MigrationStep::Done
                         ? " is done"
                         : (before == MigrationStep::Arriving ? " has ended: " : " was given up: ") + move.reason));
  co_return true;
}

void MigrationManager::forgetOldest(Batch& batch, std::vector<MigrationId>& forgotten) const {
  size_t over_count = 0;
  for (auto at = active_.rbegin(); at != active_.rend(); ++at) {
    if (!at->second.migration.isOver() || ++over_count < kFinishedKept) continue;
    if (batch.changes.size() >= Batch::kChangesMax) return;
    batch.remove(keyOf(at->first));
    forgotten.push_back(at->first);
  }
}

}  // namespace ramcore::coordinator
