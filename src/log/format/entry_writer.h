#pragma once

#include <span>

#include "log/format/entry_ref.h"
#include "log/format/entry_view.h"

namespace ramcore::log {

/// What to append. Borrows key and payload until the append has returned.
struct EntryInput {
  EntryType type = EntryType::Object;
  TableId table;
  Version version = 0;                ///< of the object; in a tombstone: this version and all before it are dead; <=
                                      ///< kVersionMax
  ByteSpan key;                       ///< 1..kKeyBytesMax bytes for objects and tombstones, else empty
  std::span<const ByteSpan> payload;  ///< gathered in this order; together at most kPayloadBytesMax
  uint32_t expiry_s = 0;              ///< seconds since 1970; 0 = none (and no bytes spent)

  /// The entry of this log that dies by this one. Set for every tombstone (whose `payload` is empty) that has no
  /// `anchor`, and for an object that replaces another. The new entry will name the segment in which the dead one lies.
  EntryRef dead = {};
  /// For a tombstone without a `dead`: the anchor that it names (PrivateSegments::openAnchor). It keeps older entries
  /// of its key dead as long as the anchor is there, wherever they lie.
  SegmentId anchor = {};
  /// For an object: the result of the call that writes it, which the object is to carry. nullptr: none. It satisfies
  /// CarriedResult::canCarry.
  const CarriedResult* result = nullptr;

  /// Whether the new entry names a segment.
  bool names() const { return bool{dead} || bool{anchor}; }
  uint32_t payloadBytes() const;
  /// Bytes in the log, padding included.
  uint32_t alignedBytes() const;
  /// The part of alignedBytes() that the result takes.
  uint32_t resultBytes() const;
};

/// Writes one entry with its padding to `to`, which has input.alignedBytes() writable bytes. The checksum is computed
/// over the written bytes, so a source that changes meanwhile (shared memory) gives odd values, never a corrupt entry.
///
/// @param named  the segment that the entry names, if input.names(); else unused.
void writeEntry(std::byte* to, const EntryInput& input, bool group_continues, SegmentId named);

/// Copies `entry` to `to` as a group of its own, state Pending: what relocation does. entry.copyBytes(keep) are
/// written.
/// @param keep  whether the copy names the segment that the entry names, and carries the result that it carries
void copyEntry(std::byte* to, const EntryView& entry, Keep keep = {});

/// Writes the tombstone that has to take the place of `successor`, an object that names a segment, when the object
/// goes: it names the same segment, and says that every version before that of the object is dead. It takes
/// alignedTombstoneBytes() of the key's length.
void writeTombstoneBefore(std::byte* to, const EntryView& successor);

}  // namespace ramcore::log
