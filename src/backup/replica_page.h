#pragma once

#include <span>
#include <vector>

#include "log/format/entry_view.h"
#include "wire/replica_messages.h"

namespace ramcore::backup {

/// Which entries of one segment belong to some ranges of key hashes.
class RangeFilter {
 public:
  /// @param segment  ranges that begin in later segments want nothing of it
  RangeFilter(std::vector<wire::ReadReplica::Range> ranges, SegmentId segment);

  /// Objects and tombstones are chosen by the hash of their keys, result records by the hash that they name; nothing
  /// else is.
  bool wants(const log::EntryView& entry) const;

 private:
  bool contains(TableId table, KeyHash hash) const;

  std::vector<wire::ReadReplica::Range> ranges_;  // ordered by table and first hash
  bool overlapping_ = false;
};

/// A part of a replica's entries, filtered.
struct ReplicaPage {
  std::vector<log::EntryView> entries;  ///< borrow the replica's bytes
  uint64_t entry_bytes = 0;
  uint32_t next_offset_bytes = 0;
  bool done = false;
  Version safe_version = 0;  ///< the highest in the part that was looked through

  struct Bounds {
    uint64_t bytes_wanted = 0;  ///< the page ends behind the entry that reaches this
    uint64_t bytes_max = 0;     ///< the page is never longer
  };
  /// Fills an empty page from `offset_bytes` on. BadRequest: no entry begins there; TooLarge: the first one is longer
  /// than a page may be.
  /// @param bytes  of a verified replica
  Status fill(ByteSpan bytes, uint32_t offset_bytes, const RangeFilter& filter, const Bounds& bounds);
};

}  // namespace ramcore::backup
