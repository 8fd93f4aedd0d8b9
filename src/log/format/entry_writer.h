#pragma once

#include <span>

#include "log/format/entry_ref.h"
#include "log/format/entry_view.h"

namespace ramcore::log {

/// What to append. Borrows key and payload until the append has returned.
struct EntryInput {
  EntryType type = EntryType::Object;
  TableId table;
  Version version = 0;                ///< of the object; in a tombstone what is dead up to here; <= kVersionMax
  ByteSpan key;                       ///< 1..kKeyBytesMax bytes for objects and tombstones, else empty
  std::span<const ByteSpan> payload;  ///< gathered in this order; together at most kPayloadBytesMax
  uint32_t expiry_s = 0;              ///< seconds since 1970; 0 = none (and no bytes spent)

  /// The entry of this log that dies: of every tombstone (whose `payload` is empty), and of an object that takes the
  /// place of another. The entry will name the segment in which that lies.
  EntryRef dead = {};
  /// Of an object: what the call is told that writes it. nullptr: nothing. It satisfies CarriedResult::canCarry.
  const CarriedResult* result = nullptr;

  uint32_t payloadBytes() const;
  /// Bytes in the log, padding included.
  uint32_t alignedBytes() const;
  /// How many of them there are because of the result.
  uint32_t resultBytes() const;
};

/// Writes one entry with its padding to `to`, which has input.alignedBytes() writable bytes. The checksum is computed
/// over the written bytes, so a source that changes meanwhile (shared memory) gives odd values, never a corrupt entry.
///
/// @param named  where `input.dead` lies, if it is set; else unused.
void writeEntry(std::byte* to, const EntryInput& input, bool group_continues, SegmentId named);

/// Copies `entry` to `to` as a group of its own, state Pending: what relocation does. entry.copyBytes(keep) are
/// written.
/// @param keep  whether the copy names the segment that the entry names, and carries the result that it carries
void copyEntry(std::byte* to, const EntryView& entry, Keep keep = {});

/// Writes what is left to be said when `successor`, an object that names a segment, goes: a tombstone that names the
/// same, of everything before its version. alignedTombstoneBytes(key).
void writeTombstoneBefore(std::byte* to, const EntryView& successor);

}  // namespace ramcore::log
