#pragma once

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/status.h"
#include "index/hash_index.h"
#include "log/log.h"
#include "store/tablet_table.h"

namespace ramcore::store {

/// What a lookup found; valid inside the read section of the lookup.
struct Found {
  log::EntryRef ref;
  log::EntryView entry;  ///< empty if damageOf(ref) is not Ok
};

/// Lookups return these in the place of a damaged entry. Neither is the address of an entry.
inline constexpr log::EntryRef kDamagedRef = log::EntryRef::fromBits(1);
inline constexpr log::EntryRef kRestoringRef = log::EntryRef::fromBits(2);
inline log::EntryRef refOfDamaged(log::EntryState state) {
  return state == log::EntryState::Damaged ? kDamagedRef : kRestoringRef;
}
/// Ok; Corrupt: the object's bytes are lost; RetryLater: they are being fetched from a replica.
inline Status damageOf(log::EntryRef found) {
  if (found.bits() > kRestoringRef.bits() || !found) return Status::Ok;
  return found == kDamagedRef ? Status::Corrupt : Status::RetryLater;
}

struct ObjectKey {
  TableId table;
  ByteSpan key;
};

/// The entries of the log to which the index refers: which key they have, and whether they are what was written. Holds
/// references only. Lookups compare keys here, so the functions that they call are inline.
///
/// Any registered reader thread, inside a read section.
class StoredEntries {
 public:
  /// Everything is borrowed and outlives this.
  StoredEntries(const log::LogMemory& memory, log::Log& log, const index::HashIndex& index, const TabletTable& tablets)
      : memory_(memory), log_(log), index_(index), tablets_(tablets) {}

  log::EntryView entry(log::EntryRef ref) const { return log::EntryView(memory_.base() + ref.offsetBytes()); }
  /// The hash of the key that an entry shows. If the entry is damaged, no byte beyond its extent is read.
  KeyHash hashOf(log::EntryRef ref) const;
  /// Fetches the header, the key and a short value of an entry into the cache: for walks, which meet entries in no
  /// order that the processor could foresee.
  void prefetch(log::EntryRef ref) const {
    const std::byte* const address = entry(ref).address();
    for (size_t line = 0; line < 3; ++line) __builtin_prefetch(address + line * 64);
  }
  /// Whether an entry that the index has under the bits of a hash decides the answer when this key is asked for: it is
  /// the key's, or damaged.
  /// @param state  set to the entry's state
  bool standsFor(log::EntryRef candidate, KeyHash hash, const ObjectKey& key, log::EntryState& state) const {
    const log::EntryView view = entry(candidate);
    // The state is read before anything else, so that an entry that is restored meanwhile is not believed in part.
    state = view.state();
    if (isDamaged(state)) return true;
    if (view.table() == key.table && std::ranges::equal(view.key(), key.key)) [[likely]]
      return true;
    state = stateOfOtherKey(candidate, hash);
    return isDamaged(state);
  }
  /// Whether an entry lies before the first segment of the tablet to which the hash belongs now: then it is of a former
  /// ownership.
  bool isOfFormer(log::EntryRef ref, TableId table, KeyHash hash) const;
  /// Verifies an entry, and has it marked if it is not what was written.
  /// @return Ok; RetryLater: it is being restored; Corrupt: it is lost
  Status verify(log::EntryRef ref) const;
  /// Whether the objects of a range can be listed: see log::Integrity.
  Status rangeStatus() const { return log_.integrity().rangeStatus(); }

 private:
  log::EntryState stateOfOtherKey(log::EntryRef candidate, KeyHash hash) const;

  const log::LogMemory& memory_;
  log::Log& log_;
  const index::HashIndex& index_;
  const TabletTable& tablets_;
};

}  // namespace ramcore::store
