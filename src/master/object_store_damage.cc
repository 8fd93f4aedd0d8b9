/// What the store makes of entries that are damaged in memory, or were: see docs/integrity.md.

#include <algorithm>

#include "base/check.h"
#include "master/object_store.h"

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
  const log::Segment& in = *parts_->log.pool().segmentOf(ref);
  const ByteSpan rest = in.restOfExtent(in.offsetOf(ref));
  const auto key_offset = static_cast<size_t>(view.key().data() - view.address());
  if (rest.size() < key_offset) return 0;
  return hashKey(view.table(), rest.subspan(key_offset, std::min<size_t>(view.keyBytes(), rest.size() - key_offset)));
}

/// Whether an entry is from before the range of a hash was taken.
bool ObjectStore::isOfFormer(EntryRef ref, TableId table, KeyHash hash) const {
  const Tablet* const tablet = parts_->tablets.find(table, hash);
  return tablet != nullptr && parts_->log.pool().segmentOf(ref)->id() < tablet->first_segment;
}

std::optional<ObjectStore::Identity> ObjectStore::identify(EntryRef ref, SegmentId segment) {
  log::Segment* const in = parts_->log.pool().segmentOf(ref);
  if (in == nullptr || in->id() != segment) return std::nullopt;
  const ByteSpan rest = in->restOfExtent(in->offsetOf(ref));
  const EntryView view = entry(ref);
  if (rest.size() < log::kEntryHeaderBytes + log::kNamedSegmentBytes + view.keyBytes()) return std::nullopt;
  const KeyHash hash = hashKey(view.table(), view.key());
  const index::StripeGuard stripe(parts_->index, hash);
  const EntryRef found = parts_->index.find(stripe, [&](EntryRef candidate) { return candidate == ref; });
  if (!found) return std::nullopt;
  return Identity{view.table(), hash};
}

bool ObjectStore::isReadable(EntryRef ref) const {
  const log::Segment& in = *parts_->log.pool().segmentOf(ref);
  EntryView view;
  return log::decodeEntry(in.restOfExtent(in.offsetOf(ref)), view) == log::DecodeError::None;
}

/// Another entry of the same key in the index, or none.
/// @param status  RetryLater: one may be of the same key, and cannot be read yet
EntryRef ObjectStore::besides(const index::StripeGuard& stripe, EntryRef restored, Status& status) const {
  const EntryView view = entry(restored);
  return parts_->index.find(stripe, [&](EntryRef candidate) {
    if (candidate == restored) return false;
    const EntryView other = entry(candidate);
    // Restored like this one, it is waiting for the same: one of them goes first.
    if (isDamaged(other.state()) && !isReadable(candidate)) {
      if (other.state() == EntryState::Restoring) status = Status::RetryLater;
      return false;
    }
    return other.table() == view.table() && std::ranges::equal(other.key(), view.key());
  });
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
    // What purgeSlice could not recognize.
    raiseSafeVersion(view.version());
    RC_CHECK(parts_->index.erase(stripe, ref));
    if (view.type() == EntryType::Object) parts_->log.markDead(ref);
    return Status::Ok;
  }
  if (view.type() == EntryType::Tombstone) {
    // Who wanted to reap it may not have recognized it.
    if (!ShowAfter::isAt(parts_->log, tablet->durability, ref)) return Status::RetryLater;
    RC_CHECK(parts_->index.erase(stripe, ref));
    return Status::Ok;
  }
  Status status = Status::Ok;
  const EntryRef other = besides(stripe, ref, status);
  if (status != Status::Ok || !other) return status;
  // Those of a side log die by entries of that log.
  if (tablet->state == TabletState::Pulling) return Status::RetryLater;
  return reconcileWith(stripe, other, ref, hash, tablet->durability);
}

/// What is restored is older than `other`, whatever their versions say.
Status ObjectStore::reconcileWith(const index::StripeGuard& stripe, EntryRef other, EntryRef restored, KeyHash hash,
                                  Durability level) {
  const EntryView old = entry(restored);
  const EntryView present = entry(other);
  const bool is_object = present.type() == EntryType::Object;
  if (is_object && present.version() <= old.version()) {
    // It may be damaged, too: not copied under a checksum of its own. It is found when its segment is closed.
    if (!isReadable(other)) return Status::RetryLater;
    const std::array<ByteSpan, 1> payload = {present.payload()};
    const EntryInput again{.type = EntryType::Object,
                           .table = present.table(),
                           .version = old.version() + 1,
                           .key = present.key(),
                           .payload = payload,
                           .expiry_s = present.hasExpiry() ? present.expiry() : 0,
                           .dead = other};
    const auto appended = parts_->log.append(std::span(&again, 1), log::AppendClass::Write);
    if (!appended.ok()) return appended.error();
    RC_CHECK(parts_->index.replace(stripe, other, appended->refs[0]));
  }
  // Nothing in the log names the segment of the restored one as that of something dead. This does, for as long as it
  // is there.
  const EntryInput tombstone{.type = EntryType::Tombstone,
                             .table = old.table(),
                             .version = old.version(),
                             .key = old.key(),
                             .payload = {},
                             .dead = restored};
  const auto appended = parts_->log.append(std::span(&tombstone, 1), log::AppendClass::Remove);
  if (!appended.ok()) return appended.error();
  RC_CHECK(parts_->index.erase(stripe, restored));
  if (is_object) return Status::Ok;
  // The absence is shown when both removals are durable.
  raiseSafeVersion(std::max(old.version(), present.version()));
  RC_CHECK(parts_->index.replace(stripe, other, appended->refs[0]));
  retireTombstone(stripe, appended->refs[0], hash, level);
  return Status::Ok;
}

bool ObjectStore::isBookkeeping(EntryRef ref) const {
  const EntryType type = entry(ref).type();
  return type == EntryType::Tombstone || type == EntryType::ResultRecord || type == EntryType::LogDigest;
}

}  // namespace ramcore::master
