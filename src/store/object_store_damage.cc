/// What the store does with entries that are damaged in memory, or were: see docs/integrity.md.

#include <algorithm>

#include "base/check.h"
#include "store/object_store.h"

namespace ramcore::master {

using log::EntryInput;
using log::EntryRef;
using log::EntryState;
using log::EntryType;
using log::EntryView;

KeyHash ObjectStore::hashOf(EntryRef ref) const {
  const EntryView view = entry(ref);
  if (!isDamaged(view.state())) [[likely]]
    return hashKey(view.table(), view.key());
  const log::Segment* const in = parts_->log.pool().segmentOf(ref);
  if (in == nullptr) return 0;  // memory that was given back: see verify()
  const ByteSpan rest = in->restOfExtent(in->offsetOf(ref));
  const auto key_offset = static_cast<size_t>(view.key().data() - view.address());
  if (rest.size() < key_offset) return 0;
  return hashKey(view.table(), rest.subspan(key_offset, std::min<size_t>(view.keyBytes(), rest.size() - key_offset)));
}

/// Whether an entry lies before the first segment of the tablet to which the hash belongs now: then it is of a former
/// ownership.
bool ObjectStore::isOfFormer(EntryRef ref, TableId table, KeyHash hash) const {
  const Tablet* const tablet = parts_->tablets.find(table, hash);
  const log::Segment* const in = parts_->log.pool().segmentOf(ref);
  return tablet != nullptr && in != nullptr && in->id() < tablet->first_segment;
}

std::optional<ObjectStore::Identity> ObjectStore::identify(EntryRef ref, SegmentId segment) {
  log::Segment* const in = parts_->log.pool().segmentOf(ref);
  if (in == nullptr || in->id() != segment) return std::nullopt;
  const ByteSpan rest = in->restOfExtent(in->offsetOf(ref));
  const EntryView view = entry(ref);
  if (rest.size() < static_cast<size_t>(view.key().data() - view.address()) + view.keyBytes()) return std::nullopt;
  const KeyHash hash = hashKey(view.table(), view.key());
  const index::StripeGuard stripe(parts_->index, hash);
  const EntryRef found = parts_->index.find(stripe, [&](EntryRef candidate) { return candidate == ref; });
  if (!found) return std::nullopt;
  return Identity{view.table(), hash};
}

Status ObjectStore::verify(EntryRef ref) const {
  log::Segment* const in = parts_->log.pool().segmentOf(ref);
  if (in == nullptr) return Status::Ok;  // memory that was given back holds no entry that could be damaged
  const uint32_t offset = in->offsetOf(ref);
  uint32_t next = 0;
  if (offset < in->committedBytes()) {
    if (parts_->log.integrity().isSound(*in, offset, next)) return Status::Ok;
    // The state byte is asked, because a damage beyond Integrity::kDamagesMax is marked but not remembered.
    return entry(ref).state() == EntryState::Damaged ? Status::Corrupt : Status::RetryLater;
  }
  // The entry lies in a copy that the cleaner has not committed yet. It is looked at again when that is committed.
  const EntryView view = entry(ref);
  const uint64_t room = memory_.bytes() - ref.offsetBytes();
  return view.bytes() <= room && view.verify() ? Status::Ok : Status::RetryLater;
}

/// The state of an entry that has another key than the one that was asked for, though the index has it under the same
/// bits of the hash. That is so rare by chance that such keys must have been chosen on purpose; in either case both
/// hashes have these bits. If they do not, the key of the entry is not what was written.
EntryState ObjectStore::stateOfOtherKey(EntryRef candidate, KeyHash hash) const {
  if (parts_->index.agree(hashOf(candidate), hash)) return EntryState::Pending;
  switch (verify(candidate)) {
    case Status::Ok:
      return EntryState::Pending;
    case Status::Corrupt:
      return EntryState::Damaged;
    default:
      return EntryState::Restoring;
  }
}

Status ObjectStore::reconcile(const log::Damage& restored) {
  const log::Segment* const in = parts_->log.integrity().segmentOf(restored);
  if (in == nullptr) return Status::Ok;
  const EntryRef ref = restored.ref;
  const EntryView view = entry(ref);
  if (view.type() != EntryType::Object && view.type() != EntryType::Tombstone) return Status::Ok;
  const KeyHash hash = hashOf(ref);
  const index::StripeGuard stripe(parts_->index, hash);
  if (!parts_->index.find(stripe, [ref](EntryRef candidate) { return candidate == ref; })) return Status::Ok;

  const Tablet* const tablet = parts_->tablets.find(view.table(), hash);
  if (tablet == nullptr || in->id() < tablet->first_segment) {
    // The tablet was given up while the entry was damaged, so that purgeSlice() could not recognize it.
    const bool is_object = view.type() == EntryType::Object;
    if (is_object && forgetCarried(ref) != Status::Ok) return Status::RetryLater;
    raiseSafeVersion(view.version());
    RC_CHECK(parts_->index.erase(stripe, ref));
    if (is_object) parts_->log.markDead(ref);
    return Status::Ok;
  }
  if (view.type() == EntryType::Tombstone) {
    // reapTombstones() may not have recognized it while it was damaged.
    if (!ShowAfter::isAt(parts_->log, tablet->durability, ref)) return Status::RetryLater;
    RC_CHECK(parts_->index.erase(stripe, ref));
    return Status::Ok;
  }
  return Status::Ok;
}

bool ObjectStore::isBookkeeping(EntryRef ref) const {
  const EntryType type = entry(ref).type();
  return type == EntryType::Tombstone || type == EntryType::ResultRecord || type == EntryType::LogDigest;
}

}  // namespace ramcore::master
