#include "store/object_store.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"
#include "base/point.h"
#include "store/entry_group.h"

namespace ramcore::master {
namespace {

using log::EntryInput;
using log::EntryRef;
using log::EntryState;
using log::EntryType;
using log::EntryView;
using wire::Condition;
using wire::Opcode;

Answer notAppended(Status why) { return {.status = why, .lacks_room = why == Status::RetryLater}; }

bool isObject(const Found& found) { return found.ref && found.entry.type() == EntryType::Object; }

}  // namespace

Status ObjectStore::checkRead(TableId table, KeyHash hash, TabletEpoch epoch, int64_t now_ns, Durability& level) const {
  const Tablet* tablet = nullptr;
  const Status status = parts_->tablets.check(table, hash, epoch, Access::Read, tablet);
  if (status != Status::Ok) return status;
  if (!parts_->lease.isValid(now_ns)) return Status::LeaseUnknown;
  tablet->counters->reads.fetch_add(1, std::memory_order_relaxed);
  level = tablet->durability;
  return Status::Ok;
}

Found ObjectStore::lookup(TableId table, KeyHash hash, ByteSpan key) const {
  EntryState state{};
  const EntryRef ref =
      parts_->index.lookup(hash, [&](EntryRef candidate) { return standsFor(candidate, hash, {table, key}, state); });
  if (ref && isDamaged(state)) return {refOfDamaged(state), {}};
  return {ref, ref ? entry(ref) : EntryView()};
}

void ObjectStore::lookupBatch(std::span<const Key> keys, std::span<const KeyHash> hashes,
                              std::span<EntryRef> out) const {
  std::array<EntryState, kLookupsMax> states;
  RC_DCHECK(keys.size() <= kLookupsMax);
  parts_->index.lookupBatch(hashes, out, memory_.base(), [&](size_t i, EntryRef candidate) {
    return standsFor(candidate, hashes[i], keys[i], states[i]);
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

/// @return nullopt: another thread has held a lock that this needs for longer than `wait` allows
std::optional<Answer> ObjectStore::applyLocked(const Mutation& mutation, const index::StripeGuard& stripe,
                                               LockWait wait) {
  RC_POINT(Locked);
  const Tablet* tablet = nullptr;
  const Status status = parts_->tablets.check(mutation.table, mutation.hash, mutation.epoch, Access::Mutate, tablet);
  if (status != Status::Ok) return Answer{.status = status};
  if (!parts_->lease.isValid(parts_->clock.nowNs())) return Answer{.status = Status::LeaseUnknown};

  const ResultTable::Lookup known = parts_->results.find(mutation.identity, wait);
  // Only for a new call: a repeated call is answered from its result, also where nothing can be written now.
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

  Found present;
  size_t others = 0;
  EntryState state{};
  present.ref = parts_->index.find(stripe, [&](EntryRef candidate) {
    if (standsFor(candidate, mutation.hash, {mutation.table, mutation.key}, state)) return true;
    if (entry(candidate).table() == mutation.table) ++others;
    return false;
  });
  // The version of a damaged object is lost, too: no new version can follow on it.
  if (present.ref && isDamaged(state)) return Answer{.status = damageOf(refOfDamaged(state))};
  if (present.ref) present.entry = entry(present.ref);
  if (!present.ref && others >= kKeysPerHashMax && mutation.opcode != Opcode::Remove) {
    return Answer{.status = Status::TooLarge};
  }

  RC_POINT(Found);
  const std::optional<Answer> answer = mutate(mutation, stripe, present, tablet->durability, wait);
  if (answer && answer->status == Status::Ok) tablet->counters->writes.fetch_add(1, std::memory_order_relaxed);
  return answer;
}

Answer ObjectStore::answerDuplicate(const ResultTable::Lookup& known, Durability level) const {
  return {.status = known.result.status,
          .version = known.result.version,
          .value = known.result.value,
          .show_after = ShowAfter::of(parts_->log, level, known.record),
          .is_duplicate = true};
}

/// Whether an object can be stored, also with what it takes more when it replaces another one and carries a result.
bool ObjectStore::fits(uint64_t key_bytes, uint64_t value_bytes, bool has_expiry) const {
  if (key_bytes > log::kKeyBytesMax || value_bytes > log::kPayloadBytesMax) return false;
  const uint32_t bytes = log::alignedEntryBytes(static_cast<uint32_t>(key_bytes), static_cast<uint32_t>(value_bytes),
                                                has_expiry, true, true);
  return bytes <= parts_->log.config().entry_bytes_max;
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
  // Wraps around: computed without sign, where that is defined.
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

std::optional<Answer> ObjectStore::mutate(const Mutation& mutation, const index::StripeGuard& stripe,
                                          const Found& present, Durability level, LockWait wait) {
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
  if (!fits(mutation.key.size(), value_bytes, false)) return Answer{.status = Status::TooLarge};

  const bool removes = mutation.opcode == Opcode::Remove;
  // Nothing is removed, but the answer is a result all the same.
  if (removes && !exists) return logRefusal(mutation, answer, level, wait);
  EntryGroup group;
  if (!removes) {
    if (!present.ref) {
      // Before the append: once the group is in the log, the index must not refuse the entry.
      const Status room = parts_->index.prepareInsert(stripe);
      if (room != Status::Ok) return Answer{.status = room};
    }
    // The version is above that of what is there, and above that of every object that ever was and is gone.
    answer.version = exists ? present_version + 1 : next_version_.fetch_add(1, std::memory_order_relaxed);
    if (!exists && present.ref) answer.version = std::max(answer.version, present.entry.version() + 1);
    const bool forgets = RC_MUTATION("forget-what-an-overwrite-replaces");
    group.addObject(mutation, answer, value, exists && !forgets ? present.ref : EntryRef());
  } else {
    group.addTombstone(present.entry, present.ref);
  }
  if (!group.isCarried()) group.addResult(mutation, answer);
  const size_t own = group.size() - 1;
  // The object that dies may carry the result of an earlier call, whose client may not have seen the answer yet. That
  // result gets a record in this group.
  const bool is_left_behind = RC_MUTATION("leave-result-behind");
  std::optional<ResultTable::Record> others;
  const Status carried = exists && !is_left_behind ? findCarried(present.ref, others) : Status::Ok;
  if (carried != Status::Ok) return Answer{.status = carried};
  if (others) group.addResult(*others);

  const std::optional<Result<log::Appended>> placed =
      parts_->log.append(group.entries(), removes ? log::AppendClass::Remove : log::AppendClass::Write, wait);
  if (!placed) return std::nullopt;
  const Result<log::Appended>& appended = *placed;
  if (!appended.ok()) return notAppended(appended.error());
  // The group is in the log: from here on there is no way back, and locks are waited for.
  answer.show_after = ShowAfter::at(level, appended->end);
  const EntryRef first = appended->refs[0];
  if (others) parts_->results.moveOut(present.ref, others->client, others->sequence, appended->refs[own + 1]);

  RC_POINT(Appended);
  if (RC_MUTATION("forget-what-an-overwrite-replaces") && exists && !removes) parts_->log.markDead(present.ref);
  if (removes && !RC_MUTATION("forget-versions-of-the-removed")) raiseSafeVersion(present_version);
  putIntoIndex(stripe, present.ref, first);
  if (removes) retireTombstone(stripe, first, mutation.hash, level);
  parts_->results.insert(mutation.identity, EntryGroup::resultOf(mutation, answer), appended->refs[own],
                         group.isCarried());
  return answer;
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

/// Finds the result that an object carries, if it is still needed.
/// @return RetryLater, Corrupt: what the object carries is damaged. It was not verified so far: that the key agrees
///         says nothing of it
Status ObjectStore::findCarried(EntryRef ref, std::optional<ResultTable::Record>& result) const {
  const EntryView object = entry(ref);
  if (!object.carriesResult() || object.isAcknowledged()) return Status::Ok;
  result = parts_->results.carriedBy(ref, object.carriedResult());
  // No call waits for a result of this identity. Either it was acknowledged just now, or the identity is not what was
  // written and another one is awaited; the checksum tells which.
  return result ? Status::Ok : verify(ref);
}

/// Forgets the result that an object carries whose tablet this server does not hold any more, or did not hold when the
/// object was written: the results went with the tablet. What is left here would refer to an entry that the cleaner is
/// about to drop.
/// @return as findCarried(); unless Ok, the entry is still referred to
Status ObjectStore::forgetCarried(EntryRef ref) {
  const EntryView object = entry(ref);
  if (!object.carriesResult() || object.isAcknowledged()) return Status::Ok;
  return parts_->results.drop(ref, object.carriedResult()) ? Status::Ok : verify(ref);
}

// A removed key keeps its tombstone in the index until that is durable, or flushed for a sync table, so that no client
// is told of an absence that a crash could undo.
void ObjectStore::retireTombstone(const index::StripeGuard& stripe, EntryRef tombstone, KeyHash hash,
                                  Durability level) {
  if (ShowAfter::isAt(parts_->log, level, tombstone) || RC_MUTATION("forget-removals-at-once")) {
    RC_CHECK(parts_->index.erase(stripe, tombstone));
    return;
  }
  SpinGuard guard(removed_lock_);
  removed_[static_cast<size_t>(level)].push_back({hash, tombstone});
  removed_count_[static_cast<size_t>(level)].fetch_add(1, std::memory_order_relaxed);
}

ObjectStore::Reaped ObjectStore::reapTombstones(size_t count_max, Locking locking) {
  Reaped reaped;
  if (reaping_.exchange(true, std::memory_order_acquire)) return reaped;
  reaped.waits_for.durable = reapTombstones(Durability::Buffered, count_max, locking, reaped.count);
  reaped.waits_for.flushed = reapTombstones(Durability::Sync, count_max, locking, reaped.count);
  reaping_.store(false, std::memory_order_release);
  return reaped;
}

/// @return the position that the oldest of the remaining keys waits for; no position: none is left, there were too
///         many, or its stripe is taken
LogPosition ObjectStore::reapTombstones(Durability level, size_t count_max, Locking locking, size_t& reaped) {
  for (size_t left = count_max; left != 0; --left) {
    Removed oldest;
    {
      SpinGuard guard(removed_lock_);
      auto& removed = removed_[static_cast<size_t>(level)];
      if (removed.empty()) break;
      oldest = removed.front();
    }
    const auto stripe = locking == Locking::Try
                            ? index::StripeGuard::tryLock(parts_->index, oldest.hash)
                            : std::optional<index::StripeGuard>(std::in_place, parts_->index, oldest.hash);
    if (!stripe) break;
    // Found by key hash and type, because the cleaner may have moved it meanwhile.
    const EntryRef ref = parts_->index.find(*stripe, [&](EntryRef candidate) {
      // A damaged tombstone leaves when it is restored (reconcile).
      const EntryView view = entry(candidate);
      return !isDamaged(view.state()) && view.type() == EntryType::Tombstone && hashOf(candidate) == oldest.hash;
    });
    // The queue is in log order: the rest is younger.
    if (ref && !ShowAfter::isAt(parts_->log, level, ref)) return parts_->log.endOf(ref);
    if (ref) RC_CHECK(parts_->index.erase(*stripe, ref));
    SpinGuard guard(removed_lock_);
    removed_[static_cast<size_t>(level)].pop_front();  // the thread that reaps is the only consumer
    removed_count_[static_cast<size_t>(level)].fetch_sub(1, std::memory_order_relaxed);
    ++reaped;
  }
  return {};
}

void ObjectStore::raiseSafeVersion(Version version) {
  Version known = next_version_.load(std::memory_order_relaxed);
  while (known <= version && !next_version_.compare_exchange_weak(known, version + 1, std::memory_order_relaxed)) {
  }
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
  // Before the tombstone leaves the index: a key without a trace gets its next version from the safe version.
  raiseSafeVersion(view.version());
  const index::StripeGuard stripe(parts_->index, hashKey(view.table(), view.key()));
  parts_->index.erase(stripe, ref);
}

log::SafeVersionPayload ObjectStore::safeVersion() {
  return {.version = next_version_.load(std::memory_order_relaxed), .expiry_clock_ms = 0};
}

}  // namespace ramcore::master
