#include "sim/cluster/moves_left.h"

#include <string_view>

#include "coordinator/state/stored_state.h"
#include "master/migration/migration_target.h"
#include "sim/cluster/memory_damage.h"

namespace ramcore::sim {
namespace {

template <typename Record>
std::string firstStored(const coordinator::MemoryDisk& disk, std::string_view prefix, bool (*is_left)(const Record&)) {
  const auto& records = disk.contents();
  for (auto at = records.lower_bound(std::string(prefix)); at != records.end() && at->first.starts_with(prefix); ++at) {
    Record record;
    if (coordinator::decode(at->second, record) && is_left(record)) return "stored: " + at->first;
  }
  return {};
}

std::string leftAt(const master::Master& master) {
  if (master.log() == nullptr || master.migrationTarget() == nullptr) return {};
  const std::string at = "server " + std::to_string(master.id().value) + ": ";
  for (const store::Tablet& tablet : master.tablets().list()) {
    const bool is_over = tablet.state == store::TabletState::Normal && tablet.arriving == nullptr;
    if (!is_over) return at + "tablet " + std::to_string(tablet.id.value) + " is in transition";
  }
  if (!master.migrationTarget()->idle()) return at + "a pull has not ended";
  if (master.log()->limit().heldBytes() != 0) return at + "room is held";
  if (MemoryDamage::isIn(master)) return at + "objects are not restored";
  // Anchors, and side logs that have not joined.
  for (uint32_t slot = 0; slot < master.log()->pool().slotCount(); ++slot) {
    const log::Segment& segment = master.log()->pool().slot(slot);
    const bool is_there = segment.state() != log::SegmentState::Free && segment.state() != log::SegmentState::Unlinked;
    if (is_there && segment.kind() == log::SegmentKind::Side && !segment.isListed()) {
      return at + "segment " + std::to_string(segment.id().value) + " is in no log";
    }
  }
  return {};
}

}  // namespace

std::string leftOfMoves(const SimCluster& cluster, std::optional<size_t> cut_off) {
  std::string left = firstStored<coordinator::Migration>(cluster.disk, coordinator::kMigrationPrefix,
                                                         [](const auto& migration) { return !migration.isOver(); });
  if (left.empty()) {
    left = firstStored<coordinator::Table>(cluster.disk, coordinator::kTablePrefix, [](const auto& table) {
      return table.state != coordinator::TableState::Ready;
    });
  }
  if (left.empty()) {
    left = firstStored<coordinator::Tablet>(cluster.disk, coordinator::kTabletPrefix, [](const auto& tablet) {
      return tablet.logs.size() != 1 || tablet.state != coordinator::TabletState::Normal;
    });
  }
  for (size_t index = 0; index < cluster.servers.size() && left.empty(); ++index) {
    const bool is_there = index != cut_off && !cluster.isDown(index) && cluster.servers[index]->rejected().empty();
    if (is_there) left = leftAt(cluster.servers[index]->master());
  }
  return left;
}

}  // namespace ramcore::sim
