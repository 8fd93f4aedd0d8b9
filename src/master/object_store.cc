#include "master/object_store.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"

namespace ramcore::master {
namespace {

using log::EntryInput;
using log::EntryRef;
using log::EntryState;
using log::EntryType;
using log::EntryView;
using wire::Condition;
using wire::Opcode;

// Builds one atomic group: the object, which carries its answer, or the tombstone and the record of the answer; and the
// record of an answer that what dies by it carries.
class Group {
 public:
  /// @param dead  the object that it takes the place of; none if there is none
  void addObject(const Mutation& mutation, const Answer& answer, std::span<const ByteSpan> value, EntryRef dead) {
    const wire::CallIdentity& identity = mutation.identity;
    is_carried_ = log::CarriedResult::canCarry(identity.client, identity.sequence, identity.acknowledged);
    carried_ = {identity.client, identity.sequence, identity.acknowledged, static_cast<uint8_t>(mutation.opcode)};
    add({.type = EntryType::Object,
         .table = mutation.table,
         .version = answer.version,
         .key = mutation.key,
         .payload = value,
         .dead = dead,
         .result = is_carried_ ? &carried_ : nullptr});
  }
  void addTombstone(const EntryView& dead, EntryRef ref) {
    add({.type = EntryType::Tombstone,
         .table = dead.table(),
         .version = dead.version(),
         .key = dead.key(),
         .payload = {},
         .dead = ref});
  }
  void addResult(const Mutation& mutation, const Answer& answer) {
    const wire::CallIdentity& identity = mutation.identity;
    addResult({identity.client, identity.sequence, identity.acknowledged, resultOf(mutation, answer)});
  }
  void addResult(const ResultTable::Record& record) {
    Result& result = results_[result_count_++];
    result.record = {.client = record.client,
                     .sequence = record.sequence,
                     .acknowledged = record.acknowledged,
                     .key_hash = record.result.key_hash,
                     .opcode = static_cast<uint16_t>(record.result.opcode),
                     .status = static_cast<uint16_t>(record.result.status),
                     .reserved = 0};
    result.value = record.result.value;
    result.pieces = {bytesOf(result.record), bytesOf(result.value)};
    add({.type = EntryType::ResultRecord,
         .table = record.result.table,
         .version = record.result.version,
         .key = {},
         .payload = result.pieces});
  }
  static MutationResult resultOf(const Mutation& mutation, const Answer& answer) {
    return {.opcode = mutation.opcode,
            .status = answer.status,
            .version = answer.version,
            .value = answer.value,
            .table = mutation.table,
            .key_hash = mutation.hash};
  }
  std::span<const EntryInput> entries() const { return std::span(entries_).first(count_); }
  size_t size() const { return count_; }
  /// Whether the object carries the answer: the first entry stands for it then, and otherwise the second.
  bool isCarried() const { return is_carried_; }

 private:
  void add(const EntryInput& entry) { entries_[count_++] = entry; }

  struct Result {
    log::ResultRecordPayload record;
    int64_t value;
    std::array<ByteSpan, 2> pieces;
  };
  std::array<EntryInput, 3> entries_;
  size_t count_ = 0;
  log::CarriedResult carried_;
  bool is_carried_ = false;
  std::array<Result, 2> results_;
  size_t result_count_ = 0;
};

EntryRef refOfDamaged(EntryState state) { return state == EntryState::Damaged ? kDamagedRef : kRestoringRef; }

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
    if (!stripe) return std::nullopt;
    return applyLocked(mutation, *stripe);
  }
  const index::StripeGuard stripe(parts_->index, mutation.hash);
  return applyLocked(mutation, stripe);
}

Answer ObjectStore::applyLocked(const Mutation& mutation, const index::StripeGuard& stripe) {
  const Tablet* tablet = nullptr;
  const Status status = parts_->tablets.check(mutation.table, mutation.hash, mutation.epoch, Access::Mutate, tablet);
  if (status != Status::Ok) return {.status = status};
  if (!parts_->lease.isValid(parts_->clock.nowNs())) return {.status = Status::LeaseUnknown};

  const ResultTable::Lookup known = parts_->results.find(mutation.identity);
  if (known.verdict == ResultTable::Verdict::New) {
    const log::Replicator& replicator = parts_->log.replicator();
    const bool removes = mutation.opcode == Opcode::Remove;
    const Status writable = removes ? replicator.removeStatus() : replicator.writeStatus();
    if (writable != Status::Ok) return {.status = writable};
  }
  switch (known.verdict) {
    case ResultTable::Verdict::Duplicate:
      return answerDuplicate(known, tablet->durability);
    case ResultTable::Verdict::Stale:
      return {.status = Status::StaleSequence};
    case ResultTable::Verdict::UnknownClient:
      return {.status = Status::LeaseExpired};
    case ResultTable::Verdict::TooMany:
      return {.status = Status::RetryLater};
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
  // Its version is lost, too: nothing can follow on it.
  if (present.ref && isDamaged(state)) return {.status = damageOf(refOfDamaged(state))};
  if (present.ref) present.entry = entry(present.ref);
  if (!present.ref && others >= kKeysPerHashMax && mutation.opcode != Opcode::Remove) {
    return {.status = Status::TooLarge};
  }

  const Answer answer = mutate(mutation, stripe, present, tablet->durability);
  if (answer.status == Status::Ok) tablet->counters->writes.fetch_add(1, std::memory_order_relaxed);
  return answer;
}

Answer ObjectStore::answerDuplicate(const ResultTable::Lookup& known, Durability level) const {
  return {.status = known.result.status,
          .version = known.result.version,
          .value = known.result.value,
          .show_after = ShowAfter::of(parts_->log, level, known.record),
          .is_duplicate = true};
}

/// Whether an object can be stored, and stored again in the place of another.
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

Answer ObjectStore::mutate(const Mutation& mutation, const index::StripeGuard& stripe, const Found& present,
                           Durability level) {
  const bool exists = isObject(present);
  const Version present_version = exists ? present.entry.version() : 0;
  Answer answer{.status = checkCondition(mutation, present_version), .version = present_version};
  if (answer.status != Status::Ok) return logRefusal(mutation, answer, level);

  Group group;
  std::array<ByteSpan, 1> counter_piece;
  std::span<const ByteSpan> value = mutation.value;
  if (mutation.opcode == Opcode::Increment) {
    if (exists && present.entry.payloadBytes() != sizeof(int64_t)) {
      answer.status = Status::TypeMismatch;
      return logRefusal(mutation, answer, level);
    }
    // Wraps around: computed without sign, where that is defined.
    const uint64_t before = exists ? present.entry.payloadAs<uint64_t>() : 0;
    answer.value = static_cast<int64_t>(before + static_cast<uint64_t>(mutation.delta));
    counter_piece = {bytesOf(answer.value)};
    value = counter_piece;
  }

  uint64_t value_bytes = 0;
  for (const ByteSpan& piece : value) value_bytes += piece.size();
  if (!fits(mutation.key.size(), value_bytes, false)) return {.status = Status::TooLarge};

  const bool removes = mutation.opcode == Opcode::Remove;
  if (removes && !exists)
    return logRefusal(mutation, answer, level);  // nothing to do, but the answer is a result all the same
  if (!removes) {
    if (!present.ref) {
      const Status room = parts_->index.prepareInsert(stripe);
      if (room != Status::Ok) return {.status = room};
    }
    // Above the version of what is there, and of every object that ever was and is gone.
    answer.version = exists ? present_version + 1 : next_version_.fetch_add(1, std::memory_order_relaxed);
    if (!exists && present.ref) answer.version = std::max(answer.version, present.entry.version() + 1);
    const bool forgets = RC_MUTATION("forget-what-an-overwrite-replaces");
    group.addObject(mutation, answer, value, exists && !forgets ? present.ref : EntryRef());
  } else {
    group.addTombstone(present.entry, present.ref);
  }
  if (!group.isCarried()) group.addResult(mutation, answer);
  const size_t own = group.size() - 1;
  // The client of an earlier call may not have seen the answer yet that goes with the object.
  const bool is_left_behind = RC_MUTATION("leave-result-behind");
  std::optional<ResultTable::Record> others;
  const Status carried = exists && !is_left_behind ? findCarried(present.ref, others) : Status::Ok;
  if (carried != Status::Ok) return {.status = carried};
  if (others) group.addResult(*others);

  const auto appended =
      parts_->log.append(group.entries(), removes ? log::AppendClass::Remove : log::AppendClass::Write);
  if (!appended.ok()) return notAppended(appended.error());
  answer.show_after = ShowAfter::at(level, appended->end);
  const EntryRef first = appended->refs[0];
  if (others) parts_->results.moveOut(present.ref, others->client, others->sequence, appended->refs[own + 1]);

  if (RC_MUTATION("forget-what-an-overwrite-replaces") && exists && !removes) parts_->log.markDead(present.ref);
  if (removes) {
    raiseSafeVersion(present_version);
    RC_CHECK(parts_->index.replace(stripe, present.ref, first));
    retireTombstone(stripe, first, mutation.hash, level);
  } else if (present.ref) {
    RC_CHECK(parts_->index.replace(stripe, present.ref, first));
  } else {
    RC_CHECK(parts_->index.insert(stripe, first) == Status::Ok);
  }
  parts_->results.insert(mutation.identity, Group::resultOf(mutation, answer), appended->refs[own], group.isCarried());
  return answer;
}

Answer ObjectStore::logRefusal(const Mutation& mutation, Answer answer, Durability level) {
  Group group;
  group.addResult(mutation, answer);
  // It frees nothing, so it may not use what is kept for those that do.
  const auto appended = parts_->log.append(group.entries(), log::AppendClass::Write);
  if (!appended.ok()) return notAppended(appended.error());
  answer.show_after = ShowAfter::at(level, appended->end);
  parts_->results.insert(mutation.identity, Group::resultOf(mutation, answer), appended->refs[0], false);
  return answer;
}

/// The result that an object carries, if that is still needed.
/// @return RetryLater, Corrupt: what it carries is damaged. Nobody has looked at it so far: a key that agrees says
/// nothing
///         of it
Status ObjectStore::findCarried(EntryRef ref, std::optional<ResultTable::Record>& result) const {
  const EntryView object = entry(ref);
  if (!object.carriesResult() || object.isAcknowledged()) return Status::Ok;
  result = parts_->results.carriedBy(ref, object.carriedResult());
  // Acknowledged just now; or not what was written, and somebody waits for another one.
  return result ? Status::Ok : verify(ref);
}

/// Of an object whose tablet is not ours any more, or was not when it was written: the results went with the tablet.
/// What is left would be of an entry that the cleaner is about to drop.
/// @return as findCarried(): then it is still referred to
Status ObjectStore::forgetCarried(EntryRef ref) {
  const EntryView object = entry(ref);
  if (!object.carriesResult() || object.isAcknowledged()) return Status::Ok;
  return parts_->results.drop(ref, object.carriedResult()) ? Status::Ok : verify(ref);
}

// A removed key keeps its tombstone in the index until that is durable, or flushed, so that nobody is told of an
// absence that a crash could undo.
void ObjectStore::retireTombstone(const index::StripeGuard& stripe, EntryRef tombstone, KeyHash hash,
                                  Durability level) {
  if (ShowAfter::isAt(parts_->log, level, tombstone)) {
    RC_CHECK(parts_->index.erase(stripe, tombstone));
    return;
  }
  SpinGuard guard(removed_lock_);
  removed_[static_cast<size_t>(level)].push_back({hash, tombstone});
}

size_t ObjectStore::reapTombstones(size_t count_max) {
  const size_t buffered = reapTombstones(Durability::Buffered, count_max);
  return buffered + reapTombstones(Durability::Sync, count_max - buffered);
}

size_t ObjectStore::reapTombstones(Durability level, size_t count_max) {
  size_t reaped = 0;
  while (reaped < count_max) {
    Removed oldest;
    {
      SpinGuard guard(removed_lock_);
      auto& removed = removed_[static_cast<size_t>(level)];
      if (removed.empty()) break;
      oldest = removed.front();
    }
    const index::StripeGuard stripe(parts_->index, oldest.hash);
    // By key hash and type: the cleaner may have moved it meanwhile.
    const EntryRef ref = parts_->index.find(stripe, [&](EntryRef candidate) {
      // What is damaged leaves when it is restored.
      const EntryView view = entry(candidate);
      return !isDamaged(view.state()) && view.type() == EntryType::Tombstone && hashOf(candidate) == oldest.hash;
    });
    if (ref && !ShowAfter::isAt(parts_->log, level, ref)) break;  // in log order: the rest is younger
    if (ref) RC_CHECK(parts_->index.erase(stripe, ref));
    SpinGuard guard(removed_lock_);
    removed_[static_cast<size_t>(level)].pop_front();  // the only consumer is the background executor
    ++reaped;
  }
  return reaped;
}

bool ObjectStore::hasTombstonesToReap() {
  SpinGuard guard(removed_lock_);
  return std::ranges::any_of(removed_, [](const auto& removed) { return !removed.empty(); });
}

void ObjectStore::raiseSafeVersion(Version version) {
  Version known = next_version_.load(std::memory_order_relaxed);
  while (known <= version && !next_version_.compare_exchange_weak(known, version + 1, std::memory_order_relaxed)) {
  }
}

// ---- moves and recoveries

Status ObjectStore::replayBatch(std::span<const EntryView> entries, log::SideLog& side, size_t& taken,
                                DeadVersions* dead) {
  constexpr size_t kGroup = 32;
  taken = 0;
  Status status = Status::Ok;
  while (status == Status::Ok && taken < entries.size()) {
    const auto group = entries.subspan(taken, std::min(kGroup, entries.size() - taken));
    std::array<KeyHash, kGroup> hashes;
    for (size_t i = 0; i < group.size(); ++i) {
      if (group[i].type() == EntryType::ResultRecord) continue;
      hashes[i] = hashKey(group[i].table(), group[i].key());
      parts_->index.prefetch(hashes[i]);
    }
    for (size_t i = 0; status == Status::Ok && i < group.size(); ++i) {
      status = replayOne(group[i], hashes[i], side, dead);
      if (status == Status::Ok) ++taken;
    }
    side.settle();
  }
  return status;
}

/// The entry of a key in a range that is being taken. What is marked may be of any key; what is from before the range
/// was taken is not of this ownership, whatever it says.
/// @return RetryLater or Corrupt, of something damaged that may be this key's
Status ObjectStore::findForReplay(const index::StripeGuard& stripe, KeyHash hash, TableId table, ByteSpan key,
                                  EntryRef& present) const {
  EntryState state = EntryState::Pending;
  const EntryRef found = parts_->index.find(stripe, [&](EntryRef candidate) {
    return standsFor(candidate, hash, {table, key}, state) && !(isDamaged(state) && isOfFormer(candidate, table, hash));
  });
  if (found && isDamaged(state)) return damageOf(refOfDamaged(state));
  present = found;
  return Status::Ok;
}

Status ObjectStore::replayOne(const EntryView& foreign, KeyHash hash, log::SideLog& side, DeadVersions* dead) {
  if (!fits(foreign.keyBytes(), foreign.payloadBytes(), foreign.hasExpiry())) return Status::TooLarge;
  if (foreign.type() == EntryType::ResultRecord) return replayResult(foreign, side);
  if (foreign.type() == EntryType::Tombstone && dead != nullptr) return replayTombstone(foreign, hash, side, *dead);
  if (foreign.type() != EntryType::Object) return Status::BadRequest;
  const Status status = replayObject(foreign, hash, side, dead);
  return status == Status::Ok && foreign.carriesResult() ? replayCarried(foreign, hash, side) : status;
}

Status ObjectStore::replayObject(const EntryView& foreign, KeyHash hash, log::SideLog& side, DeadVersions* dead) {
  const index::StripeGuard stripe(parts_->index, hash);
  EntryRef present;
  const Status sound = findForReplay(stripe, hash, foreign.table(), foreign.key(), present);
  if (sound != Status::Ok) return sound;
  if (present && entry(present).version() >= foreign.version()) return Status::Ok;
  if (dead != nullptr && dead->of(hash, foreign.table(), foreign.key()) >= foreign.version()) return Status::Ok;
  if (present) {
    const Status replaced = replayOver(foreign, foreign.version(), present, stripe, side);
    if (replaced != Status::Ok) return replaced;
  } else {
    const Status room = parts_->index.prepareInsert(stripe);
    if (room != Status::Ok) return room;
    const auto copied = side.copy(foreign, log::AppendClass::Write);
    if (!copied.ok()) return copied.error();
    RC_CHECK(parts_->index.insert(stripe, *copied) == Status::Ok);
  }
  raiseSafeVersion(foreign.version());
  if (dead != nullptr) dead->forget(hash, foreign.table(), foreign.key());
  return Status::Ok;
}

Status ObjectStore::replayOver(const EntryView& object, Version version, EntryRef present,
                               const index::StripeGuard& stripe, log::SideLog& side) {
  const Status carried = forgetCarried(present);
  if (carried != Status::Ok) return carried;
  const EntryView dead = entry(present);
  const std::array<ByteSpan, 1> payload = {object.payload()};
  const EntryInput input{.type = EntryType::Object,
                         .table = object.table(),
                         .version = version,
                         .key = object.key(),
                         .payload = payload,
                         .expiry_s = object.hasExpiry() ? object.expiry() : 0,
                         .dead = dead.type() == EntryType::Object ? present : EntryRef()};
  const auto appended = side.append(std::span(&input, 1), log::AppendClass::Write);
  if (!appended.ok()) return appended.error();
  RC_CHECK(parts_->index.replace(stripe, present, appended->refs[0]));
  return Status::Ok;
}

Status ObjectStore::replayTombstone(const EntryView& foreign, KeyHash hash, log::SideLog& side, DeadVersions& dead) {
  raiseSafeVersion(foreign.version());
  const index::StripeGuard stripe(parts_->index, hash);
  EntryRef present;
  const Status sound = findForReplay(stripe, hash, foreign.table(), foreign.key(), present);
  if (sound != Status::Ok) return sound;
  if (present) {
    const EntryView gone = entry(present);
    if (gone.version() > foreign.version()) return Status::Ok;
    const Status carried = forgetCarried(present);
    if (carried != Status::Ok) return carried;
    const EntryInput tombstone{.type = EntryType::Tombstone,
                               .table = gone.table(),
                               .version = gone.version(),
                               .key = gone.key(),
                               .payload = {},
                               .dead = present};
    const auto appended = side.append(std::span(&tombstone, 1), log::AppendClass::Remove);
    if (!appended.ok()) return appended.error();
    RC_CHECK(parts_->index.erase(stripe, present));
  }
  dead.note(hash, foreign.table(), foreign.key(), foreign.version());
  return Status::Ok;
}

Status ObjectStore::replayResult(const EntryView& foreign, log::SideLog& side) {
  if (foreign.payloadBytes() != sizeof(log::ResultRecordPayload) + sizeof(int64_t)) return Status::BadRequest;
  const auto record = foreign.payloadAs<log::ResultRecordPayload>();
  const wire::CallIdentity identity{record.client, record.sequence, record.acknowledged};
  if (!parts_->results.isAwaited(identity)) return Status::Ok;
  // Room for it is what a remove has: a move that stops here would stop the tablet.
  const auto copied = side.copy(foreign, log::AppendClass::Remove);
  if (!copied.ok()) return copied.error();
  parts_->results.take(identity,
                       {.opcode = static_cast<Opcode>(record.opcode),
                        .status = static_cast<Status>(record.status),
                        .version = foreign.version(),
                        .value = loadAs<int64_t>(foreign.payload().data() + sizeof(log::ResultRecordPayload)),
                        .table = foreign.table(),
                        .key_hash = record.key_hash},
                       *copied);
  return Status::Ok;
}

/// It gets a record of its own: what the object was may be dead already.
Status ObjectStore::replayCarried(const EntryView& object, KeyHash hash, log::SideLog& side) {
  const log::CarriedResult carried = object.carriedResult();
  const wire::CallIdentity identity{carried.client, carried.sequence, carried.acknowledged};
  if (!parts_->results.isAwaited(identity)) return Status::Ok;
  const auto opcode = static_cast<Opcode>(carried.opcode);
  const MutationResult result{.opcode = opcode,
                              .status = Status::Ok,
                              .version = object.version(),
                              .value = opcode == Opcode::Increment ? object.payloadAs<int64_t>() : 0,
                              .table = object.table(),
                              .key_hash = hash};
  Group group;
  group.addResult({carried.client, carried.sequence, carried.acknowledged, result});
  const auto appended = side.append(group.entries(), log::AppendClass::Remove);
  if (!appended.ok()) return appended.error();
  parts_->results.take(identity, result, appended->refs[0]);
  return Status::Ok;
}

Status ObjectStore::renewOne(TableId table, EntryRef seen_ref, KeyHash hash, Version version, log::SideLog& side) {
  const index::StripeGuard stripe(parts_->index, hash);
  // Found again by key: the cleaner may have moved it since the scan.
  const EntryView seen = entry(seen_ref);
  if (seen.table() != table) return Status::Ok;
  if (isDamaged(seen.state())) {
    return isOfFormer(seen_ref, table, hash) ? Status::Ok : damageOf(refOfDamaged(seen.state()));
  }
  EntryRef ref;
  const Status sound = findForReplay(stripe, hash, table, seen.key(), ref);
  if (sound != Status::Ok) return sound;
  if (!ref || entry(ref).type() != EntryType::Object || entry(ref).version() >= version) return Status::Ok;
  // What is damaged is not copied under a checksum of its own.
  if (verify(ref) != Status::Ok) return Status::RetryLater;
  return replayOver(entry(ref), version, ref, stripe, side);
}

Status ObjectStore::renewSlice(TableId table, const HashRange& range, Version version, std::optional<KeyHash>& cursor,
                               log::SideLog& side) {
  constexpr size_t kEntriesPerSlice = 64;
  // With another key it is not seen here, and would have its old version when it is restored.
  if (rangeStatus() == Status::RetryLater) return Status::RetryLater;
  std::vector<index::IndexEntry> entries;
  const auto next =
      parts_->index.scan(*cursor, range.last, kEntriesPerSlice, [this](EntryRef ref) { return hashOf(ref); }, entries);
  Status status = Status::Ok;
  for (const index::IndexEntry& one : entries) {
    status = one.is_misplaced ? verify(one.ref) : renewOne(table, one.ref, one.hash, version, side);
    if (one.is_misplaced && isOfFormer(one.ref, table, one.hash)) status = Status::Ok;
    if (status != Status::Ok) break;
  }
  side.settle();
  if (status == Status::Ok) cursor = next;
  return status;
}

std::optional<KeyHash> ObjectStore::purgeSlice(TableId table, const HashRange& range, KeyHash cursor) {
  constexpr size_t kEntriesPerSlice = 64;
  std::vector<index::IndexEntry> entries;
  const auto next =
      parts_->index.scan(cursor, range.last, kEntriesPerSlice, [this](EntryRef ref) { return hashOf(ref); }, entries);
  for (const index::IndexEntry& one : entries) {
    const index::StripeGuard stripe(parts_->index, one.hash);
    // Found again by key: the cleaner may have moved it since the scan.
    const EntryView seen = entry(one.ref);
    if (one.is_misplaced && !isDamaged(seen.state())) static_cast<void>(verify(one.ref));
    if (one.is_misplaced || isDamaged(seen.state())) continue;
    // A part of the range may be ours again: it was purged before it was taken, and what is there now is in service.
    if (seen.table() != table || parts_->tablets.find(table, one.hash) != nullptr) continue;
    const EntryRef ref = parts_->index.find(stripe, [&](EntryRef candidate) {
      const EntryView view = entry(candidate);
      return !isDamaged(view.state()) && view.table() == table && std::ranges::equal(view.key(), seen.key());
    });
    if (!ref) continue;
    const bool is_object = entry(ref).type() == EntryType::Object;
    // What is damaged leaves when it is restored.
    if (is_object && forgetCarried(ref) != Status::Ok) continue;
    raiseSafeVersion(entry(ref).version());
    RC_CHECK(parts_->index.erase(stripe, ref));
    if (is_object) parts_->log.markDead(ref);
  }
  return next;
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
  raiseSafeVersion(view.version());
  const index::StripeGuard stripe(parts_->index, hashKey(view.table(), view.key()));
  parts_->index.erase(stripe, ref);
}

log::SafeVersionPayload ObjectStore::safeVersion() {
  return {.version = next_version_.load(std::memory_order_relaxed), .expiry_clock_ms = 0};
}

}  // namespace ramcore::master
