#include "sim/cluster/move_steps.h"

#include <array>

#include "coordinator/state/stored_state.h"
#include "master/migration/migration_target.h"

namespace ramcore::sim {
namespace {

using coordinator::MigrationStep;
using Phase = master::MigrationTarget::Phase;

// Between the hand-over and the moment at which the list of logs is one again.
MoveStep stepOfArrival(const master::Master* destination, TabletId tablet) {
  if (destination == nullptr || destination->migrationTarget() == nullptr) return MoveStep::HandedOver;
  const auto progress = destination->migrationTarget()->progress(tablet);
  if (!progress.ok() || progress->phase < Phase::Arriving) return MoveStep::HandedOver;
  if (progress->phase == Phase::Arriving) return progress->fraction == 0 ? MoveStep::FirstPull : MoveStep::Half;
  return progress->phase == Phase::Arrived ? MoveStep::Closing : MoveStep::Joined;
}

bool read(const coordinator::MemoryDisk& disk, coordinator::MigrationId move, coordinator::Migration& migration) {
  const auto stored = disk.contents().find(coordinator::keyOf(move));
  return stored != disk.contents().end() && coordinator::decode(stored->second, migration);
}

}  // namespace

std::string_view name(MoveStep step) {
  constexpr std::array<std::string_view, kMoveStepCount> kNames = {
      "preparing", "freezing", "handed over", "first pull", "half",     "closing",
      "joined",    "dropping", "giving up",   "asked back", "returning"};
  return kNames[static_cast<size_t>(step)];
}

std::string_view name(MoveVictims victims) {
  constexpr std::array<std::string_view, kMoveVictimsCount> kNames = {
      "source",   "destination",      "both",   "coordinator", "source, coordinator", "destination, coordinator",
      "a backup", "source, in order", "objects"};
  return kNames[static_cast<size_t>(victims)];
}

bool wasTakenBack(const coordinator::MemoryDisk& disk, coordinator::MigrationId move) {
  coordinator::Migration migration;
  return read(disk, move, migration) && migration.step == MigrationStep::Cancelled && migration.return_epoch;
}

std::optional<MoveStep> stepOfMove(const coordinator::MemoryDisk& disk, coordinator::MigrationId move, TabletId tablet,
                                   const master::Master* destination) {
  coordinator::Migration migration;
  if (!read(disk, move, migration)) return std::nullopt;
  switch (migration.step) {
    case MigrationStep::Preparing:
      return MoveStep::Preparing;
    case MigrationStep::Freezing:
      return MoveStep::Freezing;
    case MigrationStep::Arriving:
      return migration.return_epoch ? MoveStep::AskedBack : stepOfArrival(destination, tablet);
    case MigrationStep::Returning:
      return MoveStep::Returning;
    case MigrationStep::Arrived:
      return MoveStep::Dropping;
    case MigrationStep::GivingUp:
      return MoveStep::GivingUp;
    default:
      return std::nullopt;
  }
}

}  // namespace ramcore::sim
