#include "coordinator/tablets/stored_moves.h"

#include <set>
#include <utility>

#include "coordinator/state/stored_state.h"

namespace ramcore::coordinator {
namespace {

// Whether the tablet is as the move has stored it together with its step.
bool isUnderWay(const Migration& move, const Tablet& tablet) {
  if (tablet.table != move.table || move.source == move.destination) return false;
  if (move.source_epoch >= move.destination_epoch || move.destination_epoch > tablet.last_epoch) return false;
  if (move.return_epoch && (move.return_epoch <= move.destination_epoch || move.return_epoch > tablet.last_epoch)) {
    return false;
  }
  switch (move.step) {
    case MigrationStep::Freezing:
      // From there on everything of the tablet's is in the destination's log.
      if (!move.destination_segment) return false;
      [[fallthrough]];
    case MigrationStep::Copying:
    case MigrationStep::Preparing:
      return tablet.state == TabletState::Moving && !tablet.isLent() && tablet.owner == move.source &&
             tablet.epoch == move.source_epoch;
    case MigrationStep::HandedOver:
    case MigrationStep::Arrived:
      return tablet.state == TabletState::Moving && !tablet.isLent() && tablet.owner == move.destination &&
             tablet.epoch == move.destination_epoch;
    case MigrationStep::Arriving:
      // A recovery may have it in hand, or may have ended the hand-over.
      if (tablet.state != TabletState::Moving) return tablet.state != TabletState::Normal || !tablet.isLent();
      return tablet.isLent() && tablet.logOf(move.source) != nullptr && tablet.owner == move.destination &&
             tablet.epoch == move.destination_epoch;
    case MigrationStep::Returning:
      if (tablet.state != TabletState::Moving) return tablet.state != TabletState::Normal || !tablet.isLent();
      return tablet.isLent() && tablet.logOf(move.destination) != nullptr && tablet.owner == move.source &&
             tablet.epoch == move.return_epoch;
    default:
      return tablet.state == TabletState::Moving && !tablet.isLent() && tablet.owner == move.source &&
             tablet.epoch > move.destination_epoch;
  }
}

}  // namespace

runtime::Task<Status> readMoves(const Parts& parts, uint64_t ids_end, std::vector<Migration>& moves) {
  Result<std::vector<KeyValue>> stored = co_await parts.journal.readPrefix(std::string(kMigrationPrefix));
  if (!stored.ok()) co_return stored.error();
  std::set<TabletId> moving;
  std::set<TabletId> arriving;
  for (const KeyValue& entry : *stored) {
    Migration migration;
    if (!decode(entry.value, migration) || entry.key != keyOf(migration.id)) {
      co_return parts.journal.corrupt(entry.key, kNonsense);
    }
    if (migration.id.value >= ids_end) {
      co_return parts.journal.corrupt(entry.key, "has an id that is still to come");
    }
    if (!migration.isOver()) {
      const Tablet* tablet = parts.map.findTablet(migration.tablet);
      const bool fits = tablet != nullptr && isUnderWay(migration, *tablet);
      if (!fits || !moving.insert(migration.tablet).second) {
        co_return parts.journal.corrupt(entry.key, "contradicts its tablet's");
      }
      const bool is_in_two_logs =
          migration.step == MigrationStep::Arriving || migration.step == MigrationStep::Returning;
      if (is_in_two_logs) arriving.insert(migration.tablet);
    }
    moves.push_back(std::move(migration));
  }
  for (const Tablet* tablet : parts.map.tabletsIn(TabletState::Moving)) {
    // Without a move it would refuse mutations for ever.
    if (!moving.contains(tablet->id)) co_return parts.journal.corrupt(keyOf(tablet->id), "moves without a migration");
  }
  for (const Table* table : parts.map.tables()) {
    // The drop of a table ends the moves of its tablets, whose lists stay as they are.
    if (table->state != TableState::Ready) continue;
    for (const Tablet* tablet : parts.map.tabletsOf(table->id)) {
      if (!tablet->isLent() || arriving.contains(tablet->id)) continue;
      co_return parts.journal.corrupt(keyOf(tablet->id), "is in two logs without a move in which it arrives");
    }
  }
  co_return Status::Ok;
}

}  // namespace ramcore::coordinator
