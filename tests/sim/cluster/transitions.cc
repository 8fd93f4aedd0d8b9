#include "sim/cluster/transitions.h"

#include <set>
#include <string>
#include <string_view>

#include "coordinator/state/stored_state.h"

namespace ramcore::sim {
namespace {

template <typename Record, typename Take>
void each(const coordinator::MemoryDisk& disk, std::string_view prefix, Take take) {
  const auto& records = disk.contents();
  for (auto at = records.lower_bound(std::string(prefix)); at != records.end() && at->first.starts_with(prefix); ++at) {
    Record record;
    if (coordinator::decode(at->second, record)) take(record);
  }
}

}  // namespace

void countInterrupted(const coordinator::MemoryDisk& disk, RunCounts& counts) {
  std::set<coordinator::MigrationStep> steps;
  each<coordinator::Migration>(disk, coordinator::kMigrationPrefix,
                               [&](const auto& migration) { steps.insert(migration.step); });
  std::set<coordinator::TabletState> states;
  std::set<ServerId> owners;
  std::set<ServerId> unassigned;  // owners of tablets that no transition has in hand
  each<coordinator::Tablet>(disk, coordinator::kTabletPrefix, [&](const auto& tablet) {
    states.insert(tablet.state);
    owners.insert(tablet.owner);
    if (tablet.state == coordinator::TabletState::Normal) unassigned.insert(tablet.owner);
  });
  bool is_fencing = false;
  bool is_releasing = false;
  each<coordinator::Server>(disk, coordinator::kServerPrefix, [&](const auto& server) {
    is_fencing = is_fencing || (!server.alive && unassigned.contains(server.id));
    is_releasing = is_releasing || (!server.alive && !server.recovered && !owners.contains(server.id));
  });
  counts.restarts_preparing += steps.count(coordinator::MigrationStep::Preparing);
  counts.restarts_freezing += steps.count(coordinator::MigrationStep::Freezing);
  counts.restarts_arriving += steps.count(coordinator::MigrationStep::Arriving);
  counts.restarts_returning += steps.count(coordinator::MigrationStep::Returning);
  counts.restarts_arrived += steps.count(coordinator::MigrationStep::Arrived);
  counts.restarts_giving_up += steps.count(coordinator::MigrationStep::GivingUp);
  counts.restarts_splitting += states.count(coordinator::TabletState::Splitting);
  counts.restarts_fencing += is_fencing ? 1 : 0;
  counts.restarts_recovering += states.count(coordinator::TabletState::Recovering);
  counts.restarts_taking += states.count(coordinator::TabletState::Taking);
  counts.restarts_releasing += is_releasing ? 1 : 0;
}

}  // namespace ramcore::sim
