/// Whether entries in memory are what was written: see docs/integrity.md.

#include "store/stored_entries.h"

namespace ramcore::store {

using log::EntryRef;
using log::EntryState;
using log::EntryView;

KeyHash StoredEntries::hashOf(EntryRef ref) const {
  const EntryView view = entry(ref);
  if (!isDamaged(view.state())) [[likely]]
    return hashKey(view.table(), view.key());
  const log::Segment* const in = log_.pool().segmentOf(ref);
  if (in == nullptr) return 0;  // memory that was given back: see verify()
  const ByteSpan rest = in->restOfExtent(in->offsetOf(ref));
  const auto key_offset = static_cast<size_t>(view.key().data() - view.address());
  if (rest.size() < key_offset) return 0;
  return hashKey(view.table(), rest.subspan(key_offset, std::min<size_t>(view.keyBytes(), rest.size() - key_offset)));
}

bool StoredEntries::isOfFormer(EntryRef ref, TableId table, KeyHash hash) const {
  const Tablet* const tablet = tablets_.find(table, hash);
  const log::Segment* const in = log_.pool().segmentOf(ref);
  return tablet != nullptr && in != nullptr && in->id() < tablet->first_segment;
}

Status StoredEntries::verify(EntryRef ref) const {
  log::Segment* const in = log_.pool().segmentOf(ref);
  if (in == nullptr) return Status::Ok;  // memory that was given back holds no entry that could be damaged
  const uint32_t offset = in->offsetOf(ref);
  uint32_t next = 0;
  if (offset < in->committedBytes()) {
    if (log_.integrity().isSound(*in, offset, next)) return Status::Ok;
    // The state byte is asked, because a damage beyond Integrity::kDamagesMax is marked but not remembered.
    return entry(ref).state() == EntryState::Damaged ? Status::Corrupt : Status::RetryLater;
  }
  // The entry lies in a copy that the cleaner has not committed yet. Nothing is marked there: RetryLater has the caller
  // look again.
  const EntryView view = entry(ref);
  const uint64_t room = memory_.bytes() - ref.offsetBytes();
  return view.bytes() <= room && view.verify() ? Status::Ok : Status::RetryLater;
}

/// The state of an entry that has another key than the one that was asked for, though the index has it under the same
/// bits of the hash. That is so rare by chance that such keys must have been chosen on purpose; in either case both
/// hashes have these bits. If they do not, the key of the entry is not what was written.
EntryState StoredEntries::stateOfOtherKey(EntryRef candidate, KeyHash hash) const {
  if (index_.agree(hashOf(candidate), hash)) return EntryState::Pending;
  switch (verify(candidate)) {
    case Status::Ok:
      return EntryState::Pending;
    case Status::Corrupt:
      return EntryState::Damaged;
    default:
      return EntryState::Restoring;
  }
}

}  // namespace ramcore::store
