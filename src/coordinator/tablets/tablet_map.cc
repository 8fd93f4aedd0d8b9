#include "coordinator/tablets/tablet_map.h"

#include <algorithm>

#include "base/check.h"

namespace ramcore::coordinator {

void TabletMap::putTable(const Table& table) {
  const auto named = by_name_.find(table.name);
  RC_CHECK_MSG(named == by_name_.end() || named->second == table.id, "two tables of one name");
  by_name_[table.name] = table.id;
  tables_[table.id] = table;
}

void TabletMap::removeTable(TableId id) {
  const auto found = tables_.find(id);
  RC_CHECK(found != tables_.end());
  RC_CHECK(tabletsOf(id).empty());
  by_name_.erase(found->second.name);
  tables_.erase(found);
}

void TabletMap::addTablets(TableId table, std::vector<Tablet> tablets) {
  const Table* record = findTable(table);
  RC_CHECK(record != nullptr && record->state == TableState::Ready);
  std::vector<HashRange> ranges;
  for (const Tablet& tablet : tablets) ranges.push_back(tablet.range);
  RC_CHECK(tabletsOf(table).empty() && isPartition(ranges));
  for (const Tablet& tablet : tablets) {
    RC_CHECK(tablet.table == table);
    loadTablet(tablet);
  }
}

uint64_t TabletMap::plannedTabletCount() const {
  uint64_t count = tablets_.size();
  for (const auto& [id, table] : tables_) count += table.state == TableState::Creating ? table.owners.size() : 0;
  for (const auto& [id, tablet] : tablets_) count += tablet.state == TabletState::Splitting ? 1 : 0;
  return count;
}

void TabletMap::updateTablet(const Tablet& tablet) {
  const auto found = tablets_.find(tablet.id);
  RC_CHECK(found != tablets_.end());
  const Tablet& before = found->second;
  RC_CHECK(before.table == tablet.table && before.range == tablet.range);
  RC_CHECK(before.epoch <= tablet.epoch && before.last_epoch <= tablet.last_epoch && tablet.epoch <= tablet.last_epoch);
  RC_CHECK_MSG(before.owner == tablet.owner || before.epoch < tablet.epoch, "a new owner under an old epoch");
  found->second = tablet;
}

void TabletMap::splitTablet(TabletId id, const Tablet& lower, const Tablet& upper) {
  const auto found = tablets_.find(id);
  RC_CHECK(found != tablets_.end());
  const Tablet& whole = found->second;
  RC_CHECK(lower.table == whole.table && upper.table == whole.table);
  RC_CHECK(lower.range.first == whole.range.first && upper.range.last == whole.range.last);
  RC_CHECK(upper.range.first > lower.range.first && lower.range.last == upper.range.first - 1);
  RC_CHECK(lower.epoch > whole.epoch && upper.epoch > whole.epoch);
  by_position_.erase({whole.table, whole.range.first});
  tablets_.erase(found);
  loadTablet(lower);
  loadTablet(upper);
}

void TabletMap::removeTablet(TabletId id) {
  const auto found = tablets_.find(id);
  RC_CHECK(found != tablets_.end());
  const Table* table = findTable(found->second.table);
  RC_CHECK(table != nullptr && table->state == TableState::Dropping);
  by_position_.erase({found->second.table, found->second.range.first});
  tablets_.erase(found);
}

void TabletMap::loadTablet(const Tablet& tablet) {
  Tablet& known = tablets_[tablet.id] = tablet;
  if (const Table* table = findTable(tablet.table)) known.durability = table->durability;
  by_position_[{tablet.table, tablet.range.first}] = tablet.id;
}

const Table* TabletMap::findTable(TableId id) const {
  const auto found = tables_.find(id);
  return found == tables_.end() ? nullptr : &found->second;
}

const Table* TabletMap::findTable(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : findTable(found->second);
}

const Tablet* TabletMap::findTablet(TabletId id) const {
  const auto found = tablets_.find(id);
  return found == tablets_.end() ? nullptr : &found->second;
}

const Tablet* TabletMap::findTablet(TableId table, KeyHash hash) const {
  const Table* record = findTable(table);
  if (record == nullptr || record->state != TableState::Ready) return nullptr;
  auto next = by_position_.upper_bound({table, hash});
  if (next == by_position_.begin()) return nullptr;
  --next;
  const Tablet* tablet = findTablet(next->second);
  return tablet->table == table && tablet->range.contains(hash) ? tablet : nullptr;
}

std::vector<const Table*> TabletMap::tables() const {
  std::vector<const Table*> all;
  for (const auto& [id, table] : tables_) all.push_back(&table);
  return all;
}

std::vector<const Tablet*> TabletMap::tabletsOf(TableId table) const {
  std::vector<const Tablet*> all;
  for (auto at = by_position_.lower_bound({table, 0}); at != by_position_.end() && at->first.table == table; ++at) {
    all.push_back(findTablet(at->second));
  }
  return all;
}

std::vector<const Tablet*> TabletMap::tabletsOwnedBy(ServerId server) const {
  std::vector<const Tablet*> all;
  for (const auto& [id, tablet] : tablets_) {
    if (tablet.owner == server) all.push_back(&tablet);
  }
  return all;
}

std::vector<const Tablet*> TabletMap::tabletsInLogOf(ServerId server) const {
  std::vector<const Tablet*> all;
  for (const auto& [id, tablet] : tablets_) {
    if (tablet.owner == server || tablet.logOf(server) != nullptr) all.push_back(&tablet);
  }
  return all;
}

std::vector<const Tablet*> TabletMap::tabletsIn(TabletState state) const {
  std::vector<const Tablet*> all;
  for (const auto& [id, tablet] : tablets_) {
    if (tablet.state == state) all.push_back(&tablet);
  }
  return all;
}

bool TabletMap::isTaken(TabletId id) const {
  return tablets_.contains(id) || std::any_of(tables_.begin(), tables_.end(), [id](const auto& known) {
           return known.second.state == TableState::Creating && known.second.intends(id);
         });
}

std::optional<std::string> TabletMap::inconsistency() const {
  if (by_position_.size() != tablets_.size()) return "two tablets begin at one place";
  for (const auto& [id, tablet] : tablets_) {
    const Table* table = findTable(tablet.table);
    if (table == nullptr) return "tablet " + std::to_string(id.value) + " belongs to no table";
    if (table->state == TableState::Creating) return "a table that is being created has tablets";
  }
  for (const auto& [id, table] : tables_) {
    if (table.state != TableState::Creating) continue;
    for (const auto& [other_id, other] : tables_) {
      const bool clash = other_id != id && other.state == TableState::Creating && other.intends(table.first_tablet);
      if (clash) return "two tables that are being created share tablets";
    }
    const auto next = tablets_.lower_bound(table.first_tablet);
    if (next != tablets_.end() && table.intends(next->first)) return "a table that is being created has a known tablet";
  }
  for (const auto& [id, table] : tables_) {
    if (table.state != TableState::Ready) continue;
    std::vector<HashRange> ranges;
    for (const Tablet* tablet : tabletsOf(id)) ranges.push_back(tablet->range);
    if (!isPartition(ranges)) return "the tablets of table '" + table.name + "' do not cover its hash space once";
  }
  return std::nullopt;
}

bool TabletMap::isPartition(std::vector<HashRange> ranges) {
  if (ranges.empty()) return false;
  std::sort(ranges.begin(), ranges.end(), [](const HashRange& a, const HashRange& b) { return a.first < b.first; });
  if (ranges.front().first != 0 || ranges.back().last != ~KeyHash{0}) return false;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].first > ranges[i].last) return false;
    if (i > 0 && (ranges[i - 1].last == ~KeyHash{0} || ranges[i].first != ranges[i - 1].last + 1)) return false;
  }
  return true;
}

HashRange TabletMap::evenRange(uint32_t index, uint32_t count) {
  RC_CHECK(index < count);
  __extension__ using Wide = unsigned __int128;
  const auto start = [count](uint32_t i) { return static_cast<KeyHash>((static_cast<Wide>(i) << 64) / count); };
  return {start(index), index + 1 == count ? ~KeyHash{0} : start(index + 1) - 1};
}

}  // namespace ramcore::coordinator
