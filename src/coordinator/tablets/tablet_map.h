#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/state/records.h"

namespace ramcore::coordinator {

/// Tables, their tablets and the servers that own them: data and its invariants, nothing that waits. Changes are
/// applied here after they are stored.
///
/// Invariant: the tablets of a ready table divide the whole hash space without gap or overlap. A table that is being
/// created has no tablets here; one that is being dropped may have some.
/// Thread: one executor. References are valid until the next change.
class TabletMap {
 public:
  /// Bound for all tables together: a list of all tablets fits into one control message.
  static constexpr uint64_t kTabletsMax = 65'536;

  /// Adds a table without tablets, or replaces its record. The name must not belong to another table (checked).
  void putTable(const Table& table);
  /// Removes a table that has no tablets (checked).
  void removeTable(TableId id);
  /// Adds the tablets of a created table (checked: they are a partition, and the table is in state Ready).
  void addTablets(TableId table, std::vector<Tablet> tablets);
  /// Replaces a tablet's record; its table and range stay (checked), epochs never go back (checked).
  void updateTablet(const Tablet& tablet);
  /// Replaces one tablet by two, which cover it exactly (checked).
  void splitTablet(TabletId id, const Tablet& lower, const Tablet& upper);
  /// Removes a tablet of a table that is being dropped (checked).
  void removeTablet(TabletId id);
  /// For loading: takes a tablet as it is, with its table's durability. inconsistency() says afterwards whether all is
  /// well.
  void loadTablet(const Tablet& tablet);

  const Table* findTable(TableId id) const;
  const Table* findTable(std::string_view name) const;
  const Tablet* findTablet(TabletId id) const;
  /// The tablet of a ready table that `hash` belongs to.
  const Tablet* findTablet(TableId table, KeyHash hash) const;
  /// In the order of ids.
  std::vector<const Table*> tables() const;
  /// In the order of hashes.
  std::vector<const Tablet*> tabletsOf(TableId table) const;
  std::vector<const Tablet*> tabletsOwnedBy(ServerId server) const;
  /// Those that have contents in the log of `server`, whoever owns them.
  std::vector<const Tablet*> tabletsInLogOf(ServerId server) const;
  /// Whether `id` is that of a tablet, or will be that of a tablet of a table that is being created.
  bool isTaken(TabletId id) const;
  std::vector<const Tablet*> tabletsIn(TabletState state) const;
  uint64_t tabletCount() const { return tablets_.size(); }
  /// Number of tablets, with those that creations and splits under way will add.
  uint64_t plannedTabletCount() const;
  uint64_t tableCount() const { return tables_.size(); }

  /// What is wrong; nothing if all is well.
  std::optional<std::string> inconsistency() const;

  /// True if `ranges` (in any order) divide the hash space without gap or overlap.
  static bool isPartition(std::vector<HashRange> ranges);
  /// The `index`-th of `count` ranges of about equal size. count >= 1, index < count.
  static HashRange evenRange(uint32_t index, uint32_t count);

 private:
  struct Position {
    TableId table;
    KeyHash first;
    auto operator<=>(const Position&) const = default;
  };

  std::map<TableId, Table> tables_;
  std::map<std::string, TableId, std::less<>> by_name_;
  std::map<TabletId, Tablet> tablets_;
  std::map<Position, TabletId> by_position_;
};

}  // namespace ramcore::coordinator
