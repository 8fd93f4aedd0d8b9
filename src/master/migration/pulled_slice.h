#pragma once

#include <algorithm>
#include <vector>

#include "log/format/entry_view.h"
#include "store/foreign_entry.h"
#include "store/lost_keys.h"
#include "store/tablet_table.h"
#include "transport/message.h"

namespace ramcore::master {

/// An answer of the source of a move: entries, which are not trusted, and where to go on.
struct PulledSlice {
  KeyHash next_cursor = 0;
  bool is_last = false;
  HashRange range{};                       // it holds what there is of these hashes
  bool is_of_results = false;              // of calls; otherwise of objects
  std::vector<std::byte> entries;          // copied: the bytes are checked and used over several turns
  std::vector<KeyHash> hashes;             // of the range, those that were asked for, ascending; empty: all
  std::vector<store::LostKeys::Key> lost;  // found among the entries: the source has lost them, and they are not here

  // A key that the source has lost comes as a tombstone with version 0.
  static bool isLost(const log::EntryView& entry) {
    return entry.type() == log::EntryType::Tombstone && entry.version() == 0;
  }
  // A key that the source has removed comes as a tombstone, of a tablet that is handed back.
  static bool isRemoval(const log::EntryView& entry) {
    return entry.type() == log::EntryType::Tombstone && entry.version() != 0;
  }
  // Whether a source may send this entry. It sends nothing that is as new as what its successor has written.
  // `range` is a part of the tablet's.
  bool mayHold(const store::Tablet& tablet, const log::EntryView& entry, Version ceiling, bool returns) const {
    if ((entry.type() == log::EntryType::ResultRecord) != is_of_results) return false;
    if (isRemoval(entry) && !returns) return false;
    if (entry.table() != tablet.table || entry.version() > ceiling) return false;
    const auto hash = store::hashOfForeign(entry);
    if (!hash || !range.contains(*hash)) return false;
    return hashes.empty() || std::ranges::binary_search(hashes, *hash);
  }
  void take(const transport::RxMessage& message, size_t header_bytes) {
    const ByteSpan rest = message.head().subspan(header_bytes);
    entries.assign(rest.begin(), rest.end());
    for (const ByteSpan& span : message.tail()) entries.insert(entries.end(), span.begin(), span.end());
  }
};

}  // namespace ramcore::master
