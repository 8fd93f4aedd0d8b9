#include "client/tablet_cache.h"

#include <algorithm>

namespace ramcore::client {

TabletCache::TableEntries* TabletCache::findTable(TableId table) {
  const auto at = std::lower_bound(tables_.begin(), tables_.end(), table,
                                   [](const TableEntries& known, TableId id) { return known.table < id; });
  return at != tables_.end() && at->table == table ? &*at : nullptr;
}

const TabletCache::Entry* TabletCache::findEntry(TableEntries& known, KeyHash hash) {
  const auto after = std::upper_bound(known.entries.begin(), known.entries.end(), hash,
                                      [](KeyHash value, const Entry& entry) { return value < entry.range.first; });
  if (after == known.entries.begin()) return nullptr;
  const auto at = after - 1;
  if (!at->range.contains(hash)) return nullptr;
  known.last = static_cast<size_t>(at - known.entries.begin());
  return &*at;
}

TabletCache::Owner* TabletCache::ownerFor(ServerId id, const TableMap& map) {
  std::unique_ptr<Owner>& owner = owners_[id.value];
  if (owner == nullptr) {
    owner = std::make_unique<Owner>();
    owner->number = static_cast<uint32_t>(owners_by_number_.size());
    owners_by_number_.push_back(owner.get());
    for (const rpc::PeerAddress& address : map.owners) {
      if (address.id == id.value) owner->address = address;
    }
  }
  return owner.get();
}

bool TabletCache::replace(const TableMap& map) {
  TableEntries* known = findTable(map.table);
  std::vector<Entry> fresh;
  fresh.reserve(map.tablets.size());
  for (const TabletInfo& tablet : map.tablets) {
    Entry entry{.range = tablet.range, .epoch = tablet.epoch, .owner = nullptr};
    if (tablet.is_available && tablet.owner) {
      entry.owner = ownerFor(tablet.owner, map);
      entry.owner->is_doubtful = false;
    }
    if (known != nullptr) {
      const Entry* old = findEntry(*known, tablet.range.first);
      const bool is_newer = old != nullptr && old->range == tablet.range && old->epoch > tablet.epoch && !old->is_hint;
      if (is_newer) entry = *old;
    }
    fresh.push_back(entry);
  }
  last_table_ = nullptr;  // the table's place may change below
  if (known == nullptr) {
    const auto at = std::lower_bound(tables_.begin(), tables_.end(), map.table,
                                     [](const TableEntries& one, TableId id) { return one.table < id; });
    known = &*tables_.insert(at, TableEntries{.table = map.table, .entries = {}, .last = 0});
  }
  const bool has_changed = known->entries != fresh;
  known->entries = std::move(fresh);
  known->last = 0;
  return has_changed;
}

bool TabletCache::noteMoved(TableId table, const wire::MovedTo& moved, TabletEpoch tried) {
  TableEntries* const known = findTable(table);
  const auto owner = owners_.find(moved.owner.value);
  if (known == nullptr || owner == owners_.end() || moved.epoch <= tried) return false;
  if (findEntry(*known, moved.range.first) == nullptr) return false;
  Entry& entry = known->entries[known->last];
  if (entry.range != moved.range) return false;
  // The first to come back of many calls has brought it.
  if (entry.epoch >= moved.epoch) return entry.owner != nullptr;
  entry.epoch = moved.epoch;
  entry.owner = owner->second.get();
  entry.is_hint = true;
  return true;
}

void TabletCache::forget(TableId table) {
  last_table_ = nullptr;
  std::erase_if(tables_, [table](const TableEntries& known) { return known.table == table; });
}

}  // namespace ramcore::client
