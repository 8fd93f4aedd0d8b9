#include "coordinator/tablets/move_records.h"

#include <algorithm>
#include <utility>

#include "coordinator/state/stored_state.h"
#include "coordinator/tablets/stored_moves.h"

namespace ramcore::coordinator {

runtime::Task<Status> MoveRecords::load(uint64_t ids_end) {
  std::vector<Migration> moves;
  const Status read = co_await readMoves(parts_, ids_end, moves);
  for (Migration& move : moves) moves_[move.id].migration = std::move(move);
  co_return read;
}

bool MoveRecords::isMoving(TabletId tablet) const {
  return std::ranges::any_of(moves_, [tablet](const auto& one) {
    return one.second.migration.tablet == tablet && !one.second.migration.isOver();
  });
}

size_t MoveRecords::runningCount() const {
  return static_cast<size_t>(
      std::ranges::count_if(moves_, [](const auto& one) { return !one.second.migration.isOver(); }));
}

// Each step, once it is stored. tests/durability/moving_rounds.py waits for these lines, and for those of the progress.
void MoveRecords::traceStep(MigrationId id) const { traceProgress(id, "is " + std::string(textOf(record(id).step))); }

void MoveRecords::traceProgress(MigrationId id, const std::string& what) const {
  if (!parts_.trace.enabled(TraceLevel::Debug)) return;
  parts_.trace.debug("move " + std::to_string(id.value) + " of tablet " + std::to_string(record(id).tablet.value) +
                     ": " + what);
}

runtime::Task<Status> MoveRecords::storeBegun(Migration move, Tablet tablet) {
  Batch batch;
  batch.put(keyOf(tablet.id), encode(tablet));
  batch.put(keyOf(move.id), encode(move));
  const Status stored = co_await parts_.journal.commit(std::move(batch));
  if (stored != Status::Ok) co_return stored;
  parts_.map.updateTablet(tablet);
  const MigrationId id = move.id;
  moves_[id].migration = std::move(move);
  moves_[id].begun_ns = parts_.journal.nowNs();
  traceStep(id);
  co_return Status::Ok;
}

// A step and the tablet in one batch, under map_lock. False if the coordinator stops.
runtime::Task<bool> MoveRecords::store(const Migration& move, const Tablet& tablet) {
  Batch batch;
  batch.put(keyOf(tablet.id), encode(tablet));
  batch.put(keyOf(move.id), encode(move));
  const bool stored = co_await parts_.journal.commitUntilStored(std::move(batch));
  if (!stored) co_return false;
  parts_.map.updateTablet(tablet);
  moves_.at(move.id).migration = move;
  traceStep(move.id);
  co_return true;
}

runtime::Task<bool> MoveRecords::storeFreezing(MigrationId id, SegmentId destination_segment) {
  auto guard = co_await parts_.map_lock.lock();
  Migration move = record(id);
  move.step = MigrationStep::Freezing;
  move.destination_segment = destination_segment;
  co_return co_await store(move, *parts_.map.findTablet(move.tablet));
}

runtime::Task<bool> MoveRecords::storeHandOver(MigrationId id) {
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

runtime::Task<bool> MoveRecords::storeGivingUp(MigrationId id, std::string reason, bool lacks_room) {
  auto guard = co_await parts_.map_lock.lock();
  Migration move = record(id);
  move.step = MigrationStep::GivingUp;
  move.cancelled = moves_.at(id).cancel_wanted;
  move.lacks_room = lacks_room;
  move.reason = std::move(reason);
  Tablet tablet = *parts_.map.findTablet(move.tablet);
  tablet.last_epoch.value += 1;
  tablet.epoch = tablet.last_epoch;
  co_return co_await store(move, tablet);
}

runtime::Task<bool> MoveRecords::storeArrived(MigrationId id) {
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

runtime::Task<bool> MoveRecords::storeReturnEpoch(MigrationId id, bool is_wanted) {
  auto guard = co_await parts_.map_lock.lock();
  Migration move = record(id);
  Tablet tablet = *parts_.map.findTablet(move.tablet);
  if (is_wanted && tablet.state != TabletState::Moving) co_return false;
  if (is_wanted) tablet.last_epoch.value += 1;
  move.return_epoch = is_wanted ? tablet.last_epoch : TabletEpoch();
  co_return co_await store(move, tablet);
}

runtime::Task<bool> MoveRecords::storeReturning(MigrationId id) {
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

runtime::Task<bool> MoveRecords::storeRate(MigrationId id, uint64_t rate_max) {
  auto guard = co_await parts_.map_lock.lock();
  // It may have ended meanwhile, and be forgotten.
  if (!moves_.contains(id) || record(id).isOver()) co_return !parts_.journal.stopping();
  Migration move = record(id);
  move.rate_max = rate_max;
  co_return co_await store(move, *parts_.map.findTablet(move.tablet));
}

runtime::Task<bool> MoveRecords::storeEnd(MigrationId id, MigrationStep step, std::string reason) {
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
  moves_.at(id).migration = move;
  if (step == MigrationStep::Done) moves_.at(id).fraction = 1;
  moves_.at(id).waits_for.clear();
  moves_.at(id).over_ns = parts_.journal.nowNs();
  for (const MigrationId old : forgotten) moves_.erase(old);
  parts_.trace.info("move " + std::to_string(id.value) + " of tablet " + std::to_string(tablet.id.value) +
                    " to server " + std::to_string(move.destination.value) +
                    (step == MigrationStep::Done
                         ? " is done"
                         : (before == MigrationStep::Arriving ? " has ended: " : " was given up: ") + move.reason));
  co_return true;
}

void MoveRecords::forgetOldest(Batch& batch, std::vector<MigrationId>& forgotten) const {
  // A long move may have begun before many that have ended before it.
  std::vector<std::pair<int64_t, MigrationId>> over;
  for (const auto& [id, move] : moves_) {
    if (move.migration.isOver()) over.emplace_back(move.over_ns, id);
  }
  std::ranges::sort(over, std::greater());
  for (size_t i = kFinishedKept - 1; i < over.size(); ++i) {
    if (batch.changes.size() >= Batch::kChangesMax) return;
    batch.remove(keyOf(over[i].second));
    forgotten.push_back(over[i].second);
  }
}

}  // namespace ramcore::coordinator
