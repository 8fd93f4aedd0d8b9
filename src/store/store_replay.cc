#include "store/store_replay.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/mutation.h"
#include "store/entry_group.h"
#include "store/result_entry.h"

namespace ramcore::store {

using log::EntryInput;
using log::EntryRef;
using log::EntryState;
using log::EntryType;
using log::EntryView;
using wire::Opcode;

Status StoreReplay::replayBatch(std::span<const EntryView> entries, log::SideLog& side, size_t& taken,
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
      parts_.index.prefetch(hashes[i]);
    }
    for (size_t i = 0; status == Status::Ok && i < group.size(); ++i) {
      status = replayOne(group[i], hashes[i], side, dead);
      if (status == Status::Ok) ++taken;
    }
    side.settle();
  }
  return status;
}

/// Finds the entry of a key in a range that is being taken. An entry that is marked as damaged may be of any key, so it
/// decides the outcome, unless it is from before the range was taken: then it is not of this ownership, whatever it
/// says.
/// @return RetryLater or Corrupt: a damaged entry may be that of this key
Status StoreReplay::findPresent(const index::StripeGuard& stripe, KeyHash hash, TableId table, ByteSpan key,
                                Present& present) const {
  EntryState state = EntryState::Pending;
  const EntryRef found = parts_.index.find(stripe, [&](EntryRef candidate) {
    if (!parts_.entries.standsFor(candidate, hash, {table, key}, state)) {
      present.has_others |= parts_.entries.entry(candidate).table() == table;
      return false;
    }
    return !(isDamaged(state) && parts_.entries.isOfFormer(candidate, table, hash));
  });
  present.ref = found;
  if (found && isDamaged(state)) return damageOf(refOfDamaged(state));
  return Status::Ok;
}

Status StoreReplay::replayOne(const EntryView& foreign, KeyHash hash, log::SideLog& side, DeadVersions* dead) {
  if (!objectFits(parts_.log.config(), foreign.keyBytes(), foreign.payloadBytes(), foreign.hasExpiry())) {
    return Status::TooLarge;
  }
  const bool forgets = dead != nullptr ? RC_MUTATION("recover-without-results") : RC_MUTATION("move-without-results");
  if (foreign.type() == EntryType::ResultRecord) return forgets ? Status::Ok : replayResult(foreign, side);
  if (foreign.type() == EntryType::Tombstone && dead != nullptr) return replayTombstone(foreign, hash, side, *dead);
  if (foreign.type() != EntryType::Object) return Status::BadRequest;
  const Status status = replayObject(foreign, hash, side, dead);
  return status == Status::Ok && foreign.carriesResult() && !forgets ? replayCarried(foreign, hash, side) : status;
}

Status StoreReplay::noteLost(TableId table, KeyHash hash, ByteSpan key, const ArrivingRange& arriving, bool& is_lost) {
  const index::StripeGuard stripe(parts_.index, hash);
  Present present;
  const Status sound = findPresent(stripe, hash, table, key, present);
  if (sound != Status::Ok) return sound;
  const bool is_here = present.ref && !arriving.isOld(parts_.entries.entry(present.ref).version());
  is_lost = !is_here && !RC_MUTATION("take-the-lost-for-absent");
  return !is_lost || arriving.lost().add(hash, asText(key)) ? Status::Ok : Status::NoSpace;
}

Status StoreReplay::replayObject(const EntryView& foreign, KeyHash hash, log::SideLog& side, DeadVersions* dead) {
  const index::StripeGuard stripe(parts_.index, hash);
  Present found;
  const Status sound = findPresent(stripe, hash, foreign.table(), foreign.key(), found);
  if (sound == Status::Corrupt && dead == nullptr && isLostHere(found.ref, foreign)) return Status::Ok;
  if (sound != Status::Ok) return sound;
  const EntryRef present = found.ref;
  const bool is_older = present && parts_.entries.entry(present).version() >= foreign.version();
  if (is_older && !(dead == nullptr && RC_MUTATION("the-pulled-entry-wins"))) return Status::Ok;
  if (dead != nullptr && dead->holdsDown(hash, foreign)) return Status::Ok;
  if (present) {
    const Status replaced = replayOver(foreign, foreign.version(), present, stripe, &side);
    if (replaced != Status::Ok) return replaced;
  } else {
    const Status room = parts_.index.prepareInsert(stripe);
    if (room != Status::Ok) return room;
    const auto copied = side.copy(foreign, log::AppendClass::Write);
    if (!copied.ok()) return copied.error();
    RC_CHECK(parts_.index.insert(stripe, *copied) == Status::Ok);
    if (found.has_others) parts_.crowded.add(foreign.table(), hash);
  }
  parts_.versions.raise(foreign.version());
  return Status::Ok;
}

/// Whether an entry that is lost in this server's memory is that of this key. It is not missing, then: what comes of it
/// does not depend on who has older ones.
bool StoreReplay::isLostHere(EntryRef lost, const EntryView& foreign) const {
  if (parts_.entries.rangeStatus() != Status::Ok) return false;  // the key of some lost entry cannot be read
  const EntryView entry = parts_.entries.entry(lost);
  return entry.table() == foreign.table() && std::ranges::equal(entry.key(), foreign.key());
}

Status StoreReplay::replayOver(const EntryView& object, Version version, EntryRef present,
                               const index::StripeGuard& stripe, log::SideLog* side) {
  const EntryView dead = parts_.entries.entry(present);
  const std::array<ByteSpan, 1> payload = {object.payload()};
  const EntryInput input{.type = EntryType::Object,
                         .table = object.table(),
                         .version = version,
                         .key = object.key(),
                         .payload = payload,
                         .expiry_s = object.hasExpiry() ? object.expiry() : 0,
                         .dead = dead.type() == EntryType::Object ? present : EntryRef()};
  EntryRef replaced_by;
  const Status status = appendOver(present, input, log::AppendClass::Write, side, replaced_by);
  if (status == Status::Ok) RC_CHECK(parts_.index.replace(stripe, present, replaced_by));
  return status;
}

/// Appends the entry by which `present` dies. The entry that dies may carry the result of a call that its client may
/// repeat, if this server is the survivor of a move: the result may be in no other log, and it gets a record of its
/// own. That lies at the log's head, where the cleaner waits for it before it frees the entry that dies. A side log may
/// never join.
/// @param side  nullptr: at the log's head, for the same reason
/// @param ref  set to where `input` lies, with Ok
Status StoreReplay::appendOver(EntryRef present, const EntryInput& input, log::AppendClass append_class,
                               log::SideLog* side, EntryRef& ref) {
  std::optional<ResultTable::Record> result;
  const Status carried = parts_.carried.find(present, result);
  if (carried != Status::Ok) return carried;
  if (RC_MUTATION("forget-results-in-replay") && result) {
    static_cast<void>(parts_.carried.forget(present));
    result.reset();
  }
  EntryRef record_ref;
  if (result) {
    ResultEntry record;
    const EntryInput entry = record.assign(*result);
    const auto kept = parts_.log.append(std::span(&entry, 1), log::AppendClass::Remove);
    if (!kept.ok()) return kept.error();
    record_ref = kept->refs[0];
  }
  const std::span<const EntryInput> group(&input, 1);
  const auto appended = side != nullptr ? side->append(group, append_class) : parts_.log.append(group, append_class);
  if (!appended.ok()) {
    if (result) parts_.log.markDead(record_ref);
    return appended.error();
  }
  if (result) parts_.results.moveOut(present, result->client, result->sequence, record_ref);
  ref = appended->refs[0];
  return Status::Ok;
}

Status StoreReplay::replayTombstone(const EntryView& foreign, KeyHash hash, log::SideLog& side, DeadVersions& dead) {
  // Nothing is kept of the tombstone itself, so the safe version has to be above its version.
  if (!RC_MUTATION("forget-versions-in-replay")) parts_.versions.raise(foreign.version());
  const index::StripeGuard stripe(parts_.index, hash);
  Present found;
  const Status sound = findPresent(stripe, hash, foreign.table(), foreign.key(), found);
  if (sound != Status::Ok) return sound;
  const EntryRef present = found.ref;
  if (!present) {
    if (!RC_MUTATION("forget-the-dead-in-replay")) dead.note(hash, foreign);
  } else {
    const EntryView gone = parts_.entries.entry(present);
    // The present object is newer: it keeps dead all that the tombstone does, and so will the object or the tombstone
    // by which it leaves the index.
    if (gone.version() > foreign.version()) return Status::Ok;
    // The key was removed here as well, before. That stays in the index.
    if (gone.type() != EntryType::Object) {
      dead.noteToTheEnd(hash, foreign);
      return Status::Ok;
    }
    const Status status = takeOut(present, stripe, side);
    if (status != Status::Ok) return status;
    dead.noteToTheEnd(hash, foreign);
  }
  return Status::Ok;
}

/// Takes an object out of the index, with a tombstone in the side log.
Status StoreReplay::takeOut(EntryRef present, const index::StripeGuard& stripe, log::SideLog& side) {
  const EntryView gone = parts_.entries.entry(present);
  const EntryInput tombstone{.type = EntryType::Tombstone,
                             .table = gone.table(),
                             .version = gone.version(),
                             .key = gone.key(),
                             .payload = {},
                             .dead = present};
  EntryRef ref;
  const Status status = appendOver(present, tombstone, log::AppendClass::Remove, &side, ref);
  if (status == Status::Ok) RC_CHECK(parts_.index.erase(stripe, present));
  return status;
}

Status StoreReplay::replayRemoval(const EntryView& foreign, KeyHash hash, log::SideLog& side) {
  parts_.versions.raise(foreign.version());
  const index::StripeGuard stripe(parts_.index, hash);
  Present found;
  const Status sound = findPresent(stripe, hash, foreign.table(), foreign.key(), found);
  if (sound != Status::Ok) return sound;
  if (!found.ref || RC_MUTATION("leave-removals-behind")) return Status::Ok;
  const EntryView gone = parts_.entries.entry(found.ref);
  // What is newer was written here since, and a tombstone of this server's own stays in the index.
  if (gone.type() != EntryType::Object || gone.version() > foreign.version()) return Status::Ok;
  const Status status = takeOut(found.ref, stripe, side);
  side.settle();
  return status;
}

bool StoreReplay::knowsResult(const EntryView& foreign) const {
  if (foreign.payloadBytes() < sizeof(log::ResultRecordPayload)) return false;
  const auto record = foreign.payloadAs<log::ResultRecordPayload>();
  return parts_.results.has(record.client, record.sequence);
}

bool StoreReplay::hasDamage() const { return parts_.log.stats().damaged_now.load(std::memory_order_relaxed) != 0; }

Status StoreReplay::replayResult(const EntryView& foreign, log::SideLog& side) {
  if (foreign.payloadBytes() != sizeof(log::ResultRecordPayload) + sizeof(int64_t)) return Status::BadRequest;
  const auto record = foreign.payloadAs<log::ResultRecordPayload>();
  const wire::CallIdentity identity{record.client, record.sequence, record.acknowledged};
  if (!parts_.results.isAwaited(identity)) return Status::Ok;
  // The record may use the memory that is kept for removals: if a move ended here for want of memory, the tablet would
  // stand still.
  const auto copied = side.copy(foreign, log::AppendClass::Remove);
  if (!copied.ok()) return copied.error();
  parts_.results.take(identity,
                      {.opcode = static_cast<Opcode>(record.opcode),
                       .status = static_cast<Status>(record.status),
                       .version = foreign.version(),
                       .value = loadAs<int64_t>(foreign.payload().data() + sizeof(log::ResultRecordPayload)),
                       .table = foreign.table(),
                       .key_hash = record.key_hash},
                      *copied);
  return Status::Ok;
}

/// The result gets a record of its own, because the object that carried it may be dead already.
Status StoreReplay::replayCarried(const EntryView& object, KeyHash hash, log::SideLog& side) {
  const log::CarriedResult carried = object.carriedResult();
  const wire::CallIdentity identity{carried.client, carried.sequence, carried.acknowledged};
  if (!parts_.results.isAwaited(identity)) return Status::Ok;
  const auto opcode = static_cast<Opcode>(carried.opcode);
  const MutationResult result{.opcode = opcode,
                              .status = Status::Ok,
                              .version = object.version(),
                              .value = opcode == Opcode::Increment ? object.payloadAs<int64_t>() : 0,
                              .table = object.table(),
                              .key_hash = hash};
  EntryGroup group;
  group.addResult({carried.client, carried.sequence, carried.acknowledged, result});
  const auto appended = side.append(group.entries(), log::AppendClass::Remove);
  if (!appended.ok()) return appended.error();
  parts_.results.take(identity, result, appended->refs[0]);
  return Status::Ok;
}

Status StoreReplay::renewOne(TableId table, EntryRef seen_ref, KeyHash hash, Version version, log::SideLog* side) {
  const index::StripeGuard stripe(parts_.index, hash);
  // Found again by key: the cleaner may have moved it since the scan.
  const EntryView seen = parts_.entries.entry(seen_ref);
  if (seen.table() != table) return Status::Ok;
  if (isDamaged(seen.state())) {
    return parts_.entries.isOfFormer(seen_ref, table, hash) ? Status::Ok : damageOf(refOfDamaged(seen.state()));
  }
  Present found;
  const Status sound = findPresent(stripe, hash, table, seen.key(), found);
  if (sound != Status::Ok) return sound;
  const EntryRef ref = found.ref;
  const EntryView object = ref ? parts_.entries.entry(ref) : EntryView();
  if (!ref || object.type() != EntryType::Object || object.version() >= version) return Status::Ok;
  // Verified first, because replayOver() computes a new checksum, which would make damaged bytes look sound.
  if (parts_.entries.verify(ref) != Status::Ok) return Status::RetryLater;
  return replayOver(object, version, ref, stripe, side);
}

Status StoreReplay::renewSlice(TableId table, const HashRange& range, Version version, std::optional<KeyHash>& cursor,
                               log::SideLog* side) {
  constexpr size_t kEntriesPerSlice = 64;
  // A damaged entry that shows another key would not be seen here, and would have its old version when it is restored.
  if (parts_.entries.rangeStatus() == Status::RetryLater) return Status::RetryLater;
  std::vector<index::IndexEntry> entries;
  const auto next = parts_.index.scan(
      *cursor, range.last, kEntriesPerSlice, [this](EntryRef ref) { return parts_.entries.hashOf(ref); }, entries);
  Status status = Status::Ok;
  for (const index::IndexEntry& one : entries) {
    status = one.is_misplaced ? parts_.entries.verify(one.ref) : renewOne(table, one.ref, one.hash, version, side);
    if (one.is_misplaced && parts_.entries.isOfFormer(one.ref, table, one.hash)) status = Status::Ok;
    if (status != Status::Ok) break;
  }
  if (side != nullptr) side->settle();
  if (status == Status::Ok) cursor = next;
  return status;
}

}  // namespace ramcore::store
