#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/hash.h"
#include "client/tablet_map.h"
#include "wire/master_messages.h"

namespace ramcore::client {

/// Where this client believes the tablets are. Wrong entries do no harm: the server compares the epoch in the request
/// and refuses, and the client asks the coordinator. One thread.
class TabletCache {
 public:
  /// A server that owns tablets. Its address never changes (another incarnation has another id). Kept as long as the
  /// cache: some hundred bytes for each incarnation ever seen.
  struct Owner {
    rpc::PeerAddress address;
    uint32_t number = 0;                    ///< in order of discovery, from 0
    rpc::Connection* connection = nullptr;  ///< filled at the first use
    /// A call to it ended by its deadline, and the coordinator has not said since that it still owns a tablet.
    bool is_doubtful = false;
  };
  struct Entry {
    HashRange range;
    TabletEpoch epoch;
    Owner* owner = nullptr;  ///< nullptr: the tablet is not available at present
    bool is_hint = false;    ///< from the former owner, and not from the coordinator

    bool operator==(const Entry&) const = default;
  };

  TabletCache() = default;
  TabletCache(const TabletCache&) = delete;
  TabletCache& operator=(const TabletCache&) = delete;

  /// The entry for a key hash of `table`; nullptr if nothing is known about it. Valid until the next change. Some
  /// nanoseconds, most when the table or tablet is not the one of the last call.
  const Entry* find(TableId table, KeyHash hash) {
    if (last_table_ == nullptr || last_table_->table != table) {
      last_table_ = findTable(table);
      if (last_table_ == nullptr) return nullptr;
    }
    const TableEntries& known = *last_table_;
    if (known.last < known.entries.size() && known.entries[known.last].range.contains(hash)) {
      return &known.entries[known.last];
    }
    return findEntry(*last_table_, hash);
  }

  /// Replaces what is known about `map.table`. If an entry for the same range has a newer epoch than the map's, it
  /// stays: the map is the answer to an older question and came late. A hint does not stay: whatever epoch a server
  /// names, the coordinator is right. Owners that the map names are not doubtful any more.
  /// @return true if anything has changed
  bool replace(const TableMap& map);
  /// Takes a hint of the former owner of a tablet: calls go to the new one from now on.
  /// @param tried  the epoch under which the former owner was called
  /// @return true: what is known now is newer than what was tried, by this hint or otherwise. False: the hint is of no
  ///         use. The range is no tablet that is known here, nor is the owner, or the epoch is not newer
  bool noteMoved(TableId table, const wire::MovedTo& moved, TabletEpoch tried);
  /// Forgets a table that was dropped.
  void forget(TableId table);

  /// The owner with this number, which an entry named.
  Owner& ownerOf(uint32_t number) { return *owners_by_number_[number]; }
  size_t tableCount() const { return tables_.size(); }

 private:
  struct TableEntries {
    TableId table;
    std::vector<Entry> entries;  // sorted by range
    size_t last = 0;             // of the last hit
  };

  TableEntries* findTable(TableId table);
  static const Entry* findEntry(TableEntries& known, KeyHash hash);
  Owner* ownerFor(ServerId id, const TableMap& map);

  std::vector<TableEntries> tables_;  // sorted by table
  std::map<uint64_t, std::unique_ptr<Owner>> owners_;
  std::vector<Owner*> owners_by_number_;
  TableEntries* last_table_ = nullptr;
};

}  // namespace ramcore::client
