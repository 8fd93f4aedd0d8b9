#include "store/object_store.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"
#include "base/point.h"
#include "store/entry_group.h"

namespace ramcore::store {
namespace {

using log::EntryInput;
using log::EntryRef;
using log::EntryState;
using log::EntryType;
using log::EntryView;
using wire::Condition;
using wire::Opcode;

Answer notAppended(Status why) { return {.status = why, .lacks_room = why == Status::RetryLater}; }

bool hasArrived(const Tablet& tablet, KeyHash hash) {
  return tablet.hasArrived(hash) || RC_MUTATION("absent-before-arrival");
}

// The same for a call that may know it.
bool hasArrived(const Tablet& tablet, const Mutation& mutation) {
  if (hasArrived(tablet, mutation.hash)) return true;
  return mutation.has_waited && !tablet.arriving->isClosed() && !tablet.arriving->lost().has(mutation.hash);
}

bool isObject(const Found& found) { return found.ref && found.entry.type() == EntryType::Object; }

}  // namespace

void ObjectStore::connect(const Parts& parts) {
  parts_.emplace(parts);
  entries_.emplace(memory_, parts.log, parts.index, parts.tablets);
  carried_.emplace(*entries_, parts.results);
  tombstones_.emplace(parts.log, parts.index, *entries_, parts.tablets);
  purge_.emplace(RangePurge::Parts{parts.log, parts.index, parts.tablets, *entries_, *carried_, versions_});
  replay_.emplace(StoreReplay::Parts{parts.log, parts.index, parts.results, *entries_, *carried_, versions_, crowded_});
  damages_.emplace(DamageResolver::Parts{parts.log, parts.index, parts.tablets, *entries_, *purge_});
}

Status ObjectStore::checkRead(TableId table, KeyHash hash, TabletEpoch epoch, int64_t now_ns,
                              ReadPermit& permit) const {
  const Tablet* tablet = nullptr;
  const Status status = parts_->tablets.check(table, hash, epoch, Access::Read, tablet);
  if (status != Status::Ok) return status;
  if (!parts_->lease.isValid(now_ns)) return Status::LeaseUnknown;
  tablet->counters->countRead(hash);
  permit = {.level = tablet->durability, .has_arrived = hasArrived(*tablet, hash), .is_lost = false};
  if (!permit.has_arrived) [[unlikely]] {
    permit.is_lost = tablet->arriving->lost().has(hash);
    permit.arriving = tablet->arriving.get();
  }
  return Status::Ok;
}

Found ObjectStore::lookup(TableId table, KeyHash hash, ByteSpan key) const {
  EntryState state{};
  const EntryRef ref = parts_->index.lookup(
      hash, [&](EntryRef candidate) { return entries_->standsFor(candidate, hash, {table, key}, state); });
  if (ref && isDamaged(state)) return {refOfDamaged(state), {}};
  return {ref, ref ? entry(ref) : EntryView()};
}

void ObjectStore::lookupBatch(std::span<const Key> keys, std::span<const KeyHash> hashes,
                              std::span<EntryRef> out) const {
  std::array<EntryState, kLookupsMax> states;
  RC_DCHECK(keys.size() <= kLookupsMax);
  parts_->index.lookupBatch(hashes, out, memory_.base(), [&](size_t i, EntryRef candidate) {
    return entries_->standsFor(candidate, hashes[i], keys[i], states[i]);
  });
  for (size_t i = 0; i < keys.size(); ++i) {
    if (out[i] && isDamaged(states[i])) out[i] = refOfDamaged(states[i]);
  }
}

std::optional<Answer> ObjectStore::apply(const Mutation& mutation, Locking locking) {
  if (locking == Locking::Try) {
    auto stripe = index::StripeGuard::tryLock(parts_->index, mutation.hash);
    if (!stripe) {
      RC_POINT(StripeTaken);
      return std::nullopt;
    }
    return applyLocked(mutation, *stripe, LockWait::Brief);
  }
  const index::StripeGuard stripe(parts_->index, mutation.hash);
  return applyLocked(mutation, stripe, LockWait::Any);
}

/// The answer to a mutation for which the tablet table has said this.
Answer ObjectStore::notHere(const Mutation& mutation, Status status) const {
  Answer answer{.status = status};
  if (status != Status::RetryLater) return answer;
  const Tablet* const tablet = parts_->tablets.find(mutation.table, mutation.hash);
  answer.awaits_hand_over = tablet != nullptr && tablet->state == TabletState::Frozen;
  return answer;
}

/// The answer to a mutation that has to know what has not arrived.
Answer ObjectStore::notArrived(const Tablet& tablet, KeyHash hash) {
  const bool is_lost = tablet.arriving->lost().has(hash);
  return {.status = is_lost ? Status::Corrupt : Status::RetryLater, .awaits_arrival = true};
}

/// @return nullopt: another thread has held a lock that this needs for longer than `wait` allows
std::optional<Answer> ObjectStore::applyLocked(const Mutation& mutation, const index::StripeGuard& stripe,
                                               LockWait wait) {
  RC_POINT(Locked);
  const Tablet* tablet = nullptr;
  const Status status = parts_->tablets.check(mutation.table, mutation.hash, mutation.epoch, Access::Mutate, tablet);
  if (status != Status::Ok) return notHere(mutation, status);
  if (!parts_->lease.isValid(parts_->clock.nowNs())) return Answer{.status = Status::LeaseUnknown};

  const ResultTable::Lookup known = parts_->results.find(mutation.identity, wait);
  // Checked for a new call only: a repeated call is answered from its result even while nothing can be written.
  if (known.verdict == ResultTable::Verdict::New) {
    const log::Replicator& replicator = parts_->log.replicator();
    const bool removes = mutation.opcode == Opcode::Remove;
    const Status writable = removes ? replicator.removeStatus() : replicator.writeStatus();
    if (writable != Status::Ok) return Answer{.status = writable};
  }
  switch (known.verdict) {
    case ResultTable::Verdict::Duplicate:
      return answerDuplicate(known, tablet->durability);
    case ResultTable::Verdict::Stale:
      return Answer{.status = Status::StaleSequence};
    case ResultTable::Verdict::UnknownClient:
      return Answer{.status = Status::LeaseExpired};
    case ResultTable::Verdict::TooMany:
      return Answer{.status = Status::RetryLater};
    case ResultTable::Verdict::Busy:
      return std::nullopt;
    case ResultTable::Verdict::New:
      break;
  }

  const bool has_arrived = hasArrived(*tablet, mutation);
  Found present;
  size_t others = 0;
  EntryState state{};
  present.ref = parts_->index.find(stripe, [&](EntryRef candidate) {
    if (entries_->standsFor(candidate, mutation.hash, {mutation.table, mutation.key}, state)) return true;
    if (entry(candidate).table() == mutation.table) ++others;
    return false;
  });
  // The version of a damaged object is lost, too: no new version can follow on it.
  if (present.ref && isDamaged(state)) return Answer{.status = damageOf(refOfDamaged(state))};
  const bool is_unknown = !has_arrived && (!present.ref || tablet->arriving->isOld(entry(present.ref).version()));
  if (is_unknown && !mayComeEarly(mutation, *tablet, others)) return notArrived(*tablet, mutation.hash);
  if (present.ref) present.entry = entry(present.ref);
  if (!present.ref && others >= kKeysPerHashMax && mutation.opcode != Opcode::Remove) {
    return Answer{.status = Status::TooLarge};
  }

  RC_POINT(Found);
  const std::optional<Answer> answer = mutate(mutation, stripe, present, *tablet, wait);
  if (answer && answer->status == Status::Ok) {
    tablet->counters->countWrite(mutation.hash);
    if (!present.ref && others != 0) crowded_.add(mutation.table, mutation.hash);
    if (is_unknown) tablet->arriving->noteEarlyWrite(mutation.hash, asText(mutation.key));
  }
  return answer;
}

/// Whether a mutation may go on though it is not known whether its key exists: the version that a new object gets is
/// above that of any object that arrives. With the one key of the hash that may arrive, there are not too many.
/// @param others  keys of the same hash that are here
bool ObjectStore::mayComeEarly(const Mutation& mutation, const Tablet& tablet, size_t others) {
  if (!mutation.isBlind()) return false;
  if (RC_MUTATION("write-early-to-crowded-hashes")) return true;
  // All other keys of its hash have arrived with the news that it is lost, and it was one of them.
  if (tablet.arriving->lost().has(mutation.hash, asText(mutation.key))) return others < kKeysPerHashMax;
  return others + 1 < kKeysPerHashMax && tablet.arriving->hasOneKeyAtMost(mutation.hash);
}

Answer ObjectStore::answerDuplicate(const ResultTable::Lookup& known, Durability level) const {
  return {.status = known.result.status,
          .version = known.result.version,
          .value = known.result.value,
          .show_after = ShowAfter::of(parts_->log, level, known.record),
          .is_duplicate = true};
}

Status ObjectStore::checkCondition(const Mutation& mutation, Version present) {
  switch (mutation.condition) {
    case Condition::None:
      return Status::Ok;
    case Condition::MustExist:
      return present != 0 ? Status::Ok : Status::NotFound;
    case Condition::MustNotExist:
      return present == 0 ? Status::Ok : Status::ObjectExists;
    case Condition::VersionEquals:
      if (present == mutation.condition_version) return Status::Ok;
      return present == 0 ? Status::NotFound : Status::WrongVersion;
    case Condition::VersionNotGreater:
      return present <= mutation.condition_version ? Status::Ok : Status::WrongVersion;
  }
  return Status::BadRequest;
}

/// @param sum  set to what the counter becomes, with Ok
Status ObjectStore::increment(const Mutation& mutation, const Found& present, int64_t& sum) {
  const bool exists = isObject(present);
  if (exists && present.entry.payloadBytes() != sizeof(int64_t)) return Status::TypeMismatch;
  // The sum wraps around. It is computed without sign, for which that is defined.
  const uint64_t before = exists ? present.entry.payloadAs<uint64_t>() : 0;
  sum = static_cast<int64_t>(before + static_cast<uint64_t>(mutation.delta));
  return Status::Ok;
}

/// Enters `ref` into the index: in the place of `present`, or as a new entry, for which room was made (prepareInsert).
void ObjectStore::putIntoIndex(const index::StripeGuard& stripe, EntryRef present, EntryRef ref) {
  if (present) {
    RC_CHECK(parts_->index.replace(stripe, present, ref));
  } else {
    RC_CHECK(parts_->index.insert(stripe, ref) == Status::Ok);
  }
}

/// Adds to the group what the mutation logs: the object, whose version is chosen here, or the tombstone.
/// @param answer  its version is set to that of the object
/// @return NoSpace: the index has no room for a new key
Status ObjectStore::addToGroup(const Mutation& mutation, const index::StripeGuard& stripe, const Found& present,
                               std::span<const ByteSpan> value, const Tablet& tablet, Answer& answer,
                               EntryGroup& group) {
  if (mutation.opcode == Opcode::Remove) {
    group.addTombstone(present.entry, present.ref);
    // The other server's log may hold older objects of the key: they stay dead by this one, as long as that log counts.
    const bool is_anchored = tablet.arriving != nullptr && !RC_MUTATION("remove-without-an-anchor");
    if (is_anchored) group.addAnchored(present.entry, tablet.arriving->anchor());
    return Status::Ok;
  }
  if (!present.ref) {
    // The room is made before the append: once the group is in the log, the index must not refuse the entry.
    const Status room = parts_->index.prepareInsert(stripe);
    if (room != Status::Ok) return room;
  }
  const bool exists = isObject(present);
  // The version is above that of the present object or tombstone, and above those of all former objects of the key.
  answer.version = exists ? present.entry.version() + 1 : versions_.take();
  if (!exists && present.ref) answer.version = std::max(answer.version, present.entry.version() + 1);
  // By its version it is told from what the other server has handed out.
  if (tablet.arriving != nullptr && !RC_MUTATION("overwrite-below-the-ceiling")) {
    answer.version = std::max(answer.version, tablet.arriving->ceiling() + 1);
  }
  if (present.ref) versions_.noteOverwrite(answer.version);
  const bool forgets = RC_MUTATION("forget-what-an-overwrite-replaces");
  group.addObject(mutation, answer, value, exists && !forgets ? present.ref : EntryRef());
  return Status::Ok;
}

std::optional<Answer> ObjectStore::mutate(const Mutation& mutation, const index::StripeGuard& stripe,
                                          const Found& present, const Tablet& tablet, LockWait wait) {
  const Durability level = tablet.durability;
  const bool exists = isObject(present);
  const Version present_version = exists ? present.entry.version() : 0;
  Answer answer{.status = checkCondition(mutation, present_version), .version = present_version};
  if (answer.status != Status::Ok) return logRefusal(mutation, answer, level, wait);

  std::array<ByteSpan, 1> counter_piece;
  std::span<const ByteSpan> value = mutation.value;
  if (mutation.opcode == Opcode::Increment) {
    answer.status = increment(mutation, present, answer.value);
    if (answer.status != Status::Ok) return logRefusal(mutation, answer, level, wait);
    counter_piece = {bytesOf(answer.value)};
    value = counter_piece;
  }

  uint64_t value_bytes = 0;
  for (const ByteSpan& piece : value) value_bytes += piece.size();
  if (!objectFits(parts_->log.config(), mutation.key.size(), value_bytes, false)) {
    return Answer{.status = Status::TooLarge};
  }

  const bool removes = mutation.opcode == Opcode::Remove;
  // Nothing is removed, but the answer is a result all the same.
  if (removes && !exists) return logRefusal(mutation, answer, level, wait);
  EntryGroup group;
  const Status room = addToGroup(mutation, stripe, present, value, tablet, answer, group);
  if (room != Status::Ok) return Answer{.status = room};
  // What the index refers to: the object, or the tombstone that stays longer.
  const size_t main = group.size() - 1;
  if (!group.isCarried()) group.addResult(mutation, answer);
  const size_t own = group.size() - 1;
  // The object that dies may carry the result of an earlier call, whose client may not have seen the answer yet. That
  // result gets a record in this group.
  const bool is_left_behind = RC_MUTATION("leave-result-behind");
  std::optional<ResultTable::Record> others;
  const Status carried = exists && !is_left_behind ? carried_->find(present.ref, others) : Status::Ok;
  if (carried != Status::Ok) return Answer{.status = carried};
  if (others) group.addResult(*others);

  const std::optional<Result<log::Appended>> placed =
      parts_->log.append(group.entries(), removes ? log::AppendClass::Remove : log::AppendClass::Write, wait);
  if (!placed) return std::nullopt;
  const Result<log::Appended>& appended = *placed;
  if (!appended.ok()) return notAppended(appended.error());
  // The group is in the log: from here on the mutation is completed, and waits for the locks that it needs.
  answer.show_after = ShowAfter::at(level, appended->end);
  const EntryRef logged = appended->refs[main];
  if (others) parts_->results.moveOut(present.ref, others->client, others->sequence, appended->refs[own + 1]);

  RC_POINT(Appended);
  if (RC_MUTATION("forget-what-an-overwrite-replaces") && exists && !removes) parts_->log.markDead(present.ref);
  if (removes && !RC_MUTATION("forget-versions-of-the-removed")) versions_.raise(present_version);
  putIntoIndex(stripe, present.ref, logged);
  if (removes) retire(mutation, stripe, logged, tablet);
  parts_->results.insert(mutation.identity, EntryGroup::resultOf(mutation, answer), appended->refs[own],
                         group.isCarried());
  return answer;
}

/// Has a removed key leave the index. While its tablet is Arriving the tombstone stays, or the next pull would bring an
/// older object back.
void ObjectStore::retire(const Mutation& mutation, const index::StripeGuard& stripe, EntryRef tombstone,
                         const Tablet& tablet) {
  if (tablet.arriving != nullptr && !RC_MUTATION("reap-while-arriving")) return tablet.arriving->noteTombstone();
  tombstones_->retire(stripe, tombstone, mutation.hash, tablet.durability);
}

std::optional<Answer> ObjectStore::logRefusal(const Mutation& mutation, Answer answer, Durability level,
                                              LockWait wait) {
  EntryGroup group;
  group.addResult(mutation, answer);
  // A refusal frees nothing, so it must not use the memory that is kept for removes.
  const std::optional<Result<log::Appended>> placed =
      parts_->log.append(group.entries(), log::AppendClass::Write, wait);
  if (!placed) return std::nullopt;
  const Result<log::Appended>& appended = *placed;
  if (!appended.ok()) return notAppended(appended.error());
  answer.show_after = ShowAfter::at(level, appended->end);
  parts_->results.insert(mutation.identity, EntryGroup::resultOf(mutation, answer), appended->refs[0], false);
  return answer;
}

Version ObjectStore::versionCeiling() const {
  return RC_MUTATION("ceiling-of-new-keys") ? versions_.now() : versions_.ceiling();
}

// ---- log::EntryOwner

log::EntryOwner::Hint ObjectStore::willBeRelocated(const EntryView& view) {
  if (view.type() == EntryType::ResultRecord) return 0;
  const KeyHash hash = hashKey(view.table(), view.key());
  parts_->index.prefetch(hash);
  return hash;
}

log::EntryOwner::Moved ObjectStore::relocated(EntryRef from, EntryRef to, const EntryView& view, Hint hint) {
  const auto moved = [](bool is_moved) { return is_moved ? Moved::Yes : Moved::No; };
  if (view.type() == EntryType::ResultRecord) {
    const auto record = view.payloadAs<log::ResultRecordPayload>();
    return moved(parts_->results.relocated(record.client, record.sequence, from, to));
  }
  const index::StripeGuard stripe(parts_->index, hint);
  if (view.type() == EntryType::Tombstone) return moved(parts_->index.replace(stripe, from, to));
  if (!parts_->index.relocate(stripe, from, to)) return Moved::No;
  if (!view.carriesResult()) return Moved::Yes;
  const log::CarriedResult carried = view.carriedResult();
  return parts_->results.relocated(carried.client, carried.sequence, from, to) ? Moved::Yes : Moved::WithoutResult;
}

void ObjectStore::dropped(EntryRef ref, const EntryView& view) {
  if (view.type() != EntryType::Tombstone) return;
  // The safe version is raised before the tombstone leaves the index: a key without a trace gets its next version from
  // it.
  versions_.raise(view.version());
  const index::StripeGuard stripe(parts_->index, hashKey(view.table(), view.key()));
  parts_->index.erase(stripe, ref);
}

log::SafeVersionPayload ObjectStore::safeVersion() { return {.version = versions_.now(), .expiry_clock_ms = 0}; }

}  // namespace ramcore::store
