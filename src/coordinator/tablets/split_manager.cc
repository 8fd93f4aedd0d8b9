#include "coordinator/tablets/split_manager.h"

#include "base/mutation.h"

#include <set>

#include "base/check.h"
#include "coordinator/state/stored_state.h"
#include "coordinator/tablets/server_steps.h"

namespace ramcore::coordinator {

runtime::Task<Status> SplitManager::load() {
  Result<std::vector<KeyValue>> stored = co_await parts_.journal.readPrefix(std::string(kSplitPrefix));
  if (!stored.ok()) co_return stored.error();
  std::set<TabletId> halves;
  for (const KeyValue& entry : *stored) {
    Split split;
    if (!decode(entry.value, split) || entry.key != keyOfSplit(split.tablet)) {
      co_return parts_.journal.corrupt(entry.key, kNonsense);
    }
    const Tablet* tablet = parts_.map.findTablet(split.tablet);
    if (tablet == nullptr || tablet->state != TabletState::Splitting || split.at_hash <= tablet->range.first ||
        split.at_hash > tablet->range.last || split.epoch <= tablet->epoch || split.epoch > tablet->last_epoch) {
      co_return parts_.journal.corrupt(entry.key, "contradicts its tablet's");
    }
    for (const TabletId half : {split.lower, split.upper}) {
      const bool is_new = half.value < parts_.tablet_ids.end() && !parts_.map.isTaken(half);
      if (!is_new || !halves.insert(half).second) {
        co_return parts_.journal.corrupt(entry.key, "cuts into tablets that cannot be");
      }
    }
    active_[split.tablet] = {split, tablet->table};
  }
  for (const Tablet* tablet : parts_.map.tabletsIn(TabletState::Splitting)) {
    // Without a split it would never be moved or split again.
    if (!active_.contains(tablet->id)) co_return parts_.journal.corrupt(keyOf(tablet->id), "is split without a split");
  }
  co_return Status::Ok;
}

void SplitManager::resume() {
  for (const auto& [id, active] : active_) run(id).detach();
}

void SplitManager::stop() { changed_.failAll(Status::Shutdown); }

SplitManager::Halves SplitManager::existing(TableId table, KeyHash at_hash) const {
  const Tablet* upper = parts_.map.findTablet(table, at_hash);
  if (upper == nullptr) return {Status::NoSuchTable, {}, {}};
  if (upper->range.first != at_hash) return {Status::NotFound, {}, {}};
  return {Status::Ok, parts_.map.findTablet(table, at_hash - 1)->id, upper->id};
}

runtime::Task<SplitManager::Halves> SplitManager::split(TableId table, KeyHash at_hash, int64_t deadline_ns) {
  if (at_hash == 0) co_return Halves{Status::BadRequest, {}, {}};
  Halves halves = existing(table, at_hash);
  if (halves.status != Status::NotFound) co_return halves;
  const TabletId whole = parts_.map.findTablet(table, at_hash)->id;
  const auto under_way = active_.find(whole);
  if (under_way == active_.end() || under_way->second.split.at_hash != at_hash) {
    const Status begun = co_await store(table, at_hash);
    if (begun != Status::Ok) co_return Halves{begun, {}, {}};
  }
  while (true) {
    halves = existing(table, at_hash);
    if (halves.status != Status::NotFound) co_return halves;
    const TabletId now_whole = parts_.map.findTablet(table, at_hash)->id;
    if (!active_.contains(now_whole)) co_return Halves{Status::RetryLater, {}, {}};  // it was given up
    if (parts_.journal.stopping()) co_return Halves{Status::OutcomeUnknown, {}, {}};
    if (parts_.journal.isFull()) co_return Halves{Status::CoordinatorFull, {}, {}};
    const Status changed = co_await changed_.wait(deadline_ns);
    if (changed == Status::DeadlineExceeded) co_return Halves{Status::OutcomeUnknown, {}, {}};
  }
}

runtime::Task<Status> SplitManager::store(TableId table, KeyHash at_hash) {
  auto guard = co_await parts_.map_lock.lock();
  const Tablet* found = parts_.map.findTablet(table, at_hash);
  if (found == nullptr) co_return Status::NoSuchTable;
  if (found->range.first == at_hash) co_return Status::Ok;
  if (found->state != TabletState::Normal || !parts_.membership.isAlive(found->owner)) co_return Status::RetryLater;
  // A recovery may have taken a tablet over whose move is not stored as over: the move still looks for it.
  const bool is_moving = migrations_.isMoving(found->id) && !RC_MUTATION("split-before-the-move-is-over");
  if (is_moving) co_return Status::RetryLater;
  if (parts_.map.plannedTabletCount() >= TabletMap::kTabletsMax) co_return Status::LimitReached;
  const TabletId whole = found->id;
  const Result<uint64_t> ids = co_await parts_.tablet_ids.take(2);
  if (!ids.ok()) co_return ids.error();
  Tablet tablet = *parts_.map.findTablet(whole);
  tablet.state = TabletState::Splitting;
  tablet.last_epoch.value += 1;
  const Split split{.tablet = whole,
                    .lower = TabletId(*ids),
                    .upper = TabletId(*ids + 1),
                    .at_hash = at_hash,
                    .epoch = tablet.last_epoch};
  Batch batch;
  batch.put(keyOf(whole), encode(tablet));
  batch.put(keyOfSplit(whole), encode(split));
  const Status stored = co_await parts_.journal.commit(std::move(batch));
  if (stored != Status::Ok) co_return stored;
  parts_.map.updateTablet(tablet);
  active_[whole] = {split, table};
  run(whole).detach();
  co_return Status::Ok;
}

Tablet SplitManager::half(const Tablet& whole, const Split& split, bool upper) const {
  Tablet half = whole;
  half.id = upper ? split.upper : split.lower;
  half.range = upper ? HashRange{split.at_hash, whole.range.last} : HashRange{whole.range.first, split.at_hash - 1};
  half.epoch = split.epoch;
  half.last_epoch = split.epoch;
  half.state = TabletState::Normal;
  return half;
}

runtime::Task<void> SplitManager::run(TabletId id) {
  Journal::Running running(parts_.journal);
  const Split split = active_.at(id).split;
  const Tablet whole = *parts_.map.findTablet(id);
  Backoff backoff(parts_.journal);
  Status outcome = Status::Unreachable;  // if the owner is dead: the tablet stays whole, and unavailable
  while (parts_.membership.isAlive(whole.owner)) {
    outcome = co_await parts_.masters.splitTablet(whole.owner, id, half(whole, split, false), half(whole, split, true));
    if (!mayPass(outcome)) break;
    const bool awake = co_await backoff.pause();
    if (!awake) co_return;
  }
  if (parts_.journal.stopping()) co_return;
  const bool stored = co_await storeEnd(id, outcome);
  if (stored) changed_.notifyAll();
}

runtime::Task<bool> SplitManager::storeEnd(TabletId id, Status outcome) {
  auto guard = co_await parts_.map_lock.lock();
  const Split split = active_.at(id).split;
  Tablet whole = *parts_.map.findTablet(id);
  const Tablet lower = half(whole, split, false);
  const Tablet upper = half(whole, split, true);
  Batch batch;
  batch.remove(keyOfSplit(id));
  if (outcome == Status::Ok) {
    batch.remove(keyOf(id));
    batch.put(keyOf(lower.id), encode(lower));
    batch.put(keyOf(upper.id), encode(upper));
  } else {
    parts_.trace.warning("tablet " + std::to_string(id.value) + " is not split: " + std::string(name(outcome)));
    whole.state = TabletState::Normal;
    batch.put(keyOf(id), encode(whole));
  }
  const bool stored = co_await parts_.journal.commitUntilStored(std::move(batch));
  if (!stored) co_return false;
  active_.erase(id);
  if (outcome == Status::Ok) {
    parts_.map.splitTablet(id, lower, upper);
  } else {
    parts_.map.updateTablet(whole);
  }
  co_return true;
}

runtime::Task<bool> SplitManager::endAll(TableId table) {
  while (!parts_.journal.stopping()) {
    bool any = false;
    for (const auto& [id, active] : active_) any = any || active.table == table;
    if (!any) co_return true;
    [[maybe_unused]] const Status changed = co_await changed_.wait();
  }
  co_return false;
}

}  // namespace ramcore::coordinator
