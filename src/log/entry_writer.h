#pragma once

#include <span>

#include "log/entry_ref.h"
#include "log/entry_view.h"

namespace ramcore::log {

/// What to append. Borrows key and payload until the append has returned.
struct EntryInput {
  EntryType type = EntryType::Object;
  TableId table;
  Version version = 0;                ///< of the object; of the dead entry in a tombstone; <= kVersionMax
  ByteSpan key;                       ///< 1..kKeyBytesMax bytes for objects and tombstones, else empty
  std::span<const ByteSpan> payload;  ///< gathered in this order; together at most kPayloadBytesMax
  uint32_t expiry_s = 0;              ///< seconds since 1970; 0 = none (and no bytes spent)

  /// Tombstones of an entry of this log: the entry that dies. The log writes the payload (`payload` stays empty).
  /// A tombstone that names another log leaves this empty and brings its TombstonePayload.
  EntryRef dead = {};

  uint32_t payloadBytes() const;
  /// Bytes in the log, padding included.
  uint32_t alignedBytes() const;
};

/// Writes one entry with its padding to `to`, which has input.alignedBytes() writable bytes. The checksum is computed
/// over the written bytes, so a source that changes meanwhile (shared memory) gives odd values, never a corrupt entry.
///
/// @param tombstone  the payload where `input.dead` is set, else unused.
void writeEntry(std::byte* to, const EntryInput& input, bool group_continues, const TombstonePayload& tombstone);

/// Copies `entry` to `to` as a group of its own, state Pending: what relocation does.
void copyEntry(std::byte* to, const EntryView& entry);

}  // namespace ramcore::log
