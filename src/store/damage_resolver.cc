#include "store/damage_resolver.h"

#include "base/check.h"
#include "base/hash.h"
#include "store/durability.h"

namespace ramcore::store {

using log::EntryRef;
using log::EntryType;
using log::EntryView;

std::optional<DamageResolver::Identity> DamageResolver::identify(EntryRef ref, SegmentId segment) {
  log::Segment* const in = parts_.log.pool().segmentOf(ref);
  if (in == nullptr || in->id() != segment) return std::nullopt;
  const ByteSpan rest = in->restOfExtent(in->offsetOf(ref));
  const EntryView view = parts_.entries.entry(ref);
  if (rest.size() < static_cast<size_t>(view.key().data() - view.address()) + view.keyBytes()) return std::nullopt;
  const KeyHash hash = hashKey(view.table(), view.key());
  const index::StripeGuard stripe(parts_.index, hash);
  const EntryRef found = parts_.index.find(stripe, [&](EntryRef candidate) { return candidate == ref; });
  if (!found) return std::nullopt;
  return Identity{view.table(), hash};
}

Status DamageResolver::reconcile(const log::Damage& restored) {
  const log::Segment* const in = parts_.log.integrity().segmentOf(restored);
  if (in == nullptr) return Status::Ok;
  const EntryRef ref = restored.ref;
  const EntryView view = parts_.entries.entry(ref);
  if (view.type() != EntryType::Object && view.type() != EntryType::Tombstone) return Status::Ok;
  const KeyHash hash = parts_.entries.hashOf(ref);
  const index::StripeGuard stripe(parts_.index, hash);
  if (!parts_.index.find(stripe, [ref](EntryRef candidate) { return candidate == ref; })) return Status::Ok;

  const Tablet* const tablet = parts_.tablets.find(view.table(), hash);
  if (tablet == nullptr || in->id() < tablet->first_segment) {
    // The tablet was given up while the entry was damaged, so that RangePurge could not recognize it.
    return parts_.purge.remove(stripe, ref) == Status::Ok ? Status::Ok : Status::RetryLater;
  }
  if (view.type() == EntryType::Tombstone && tablet->keepsTombstones()) return Status::Ok;
  if (view.type() == EntryType::Tombstone) {
    // TombstoneQueue::reap() may not have recognized it while it was damaged.
    if (!ShowAfter::isAt(parts_.log, tablet->durability, ref)) return Status::RetryLater;
    RC_CHECK(parts_.index.erase(stripe, ref));
    return Status::Ok;
  }
  return Status::Ok;
}

bool DamageResolver::isBookkeeping(EntryRef ref) const {
  const EntryType type = parts_.entries.entry(ref).type();
  return type == EntryType::Tombstone || type == EntryType::ResultRecord || type == EntryType::LogDigest;
}

}  // namespace ramcore::store
