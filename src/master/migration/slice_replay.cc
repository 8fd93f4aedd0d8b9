#include "master/migration/slice_replay.h"

#include <span>
#include <utility>

#include "base/hash.h"
#include "store/tablet_intake.h"

namespace ramcore::master {

void SliceReplay::useHeldRoom() {
  side_.useHeldRoom();
  uses_held_room_ = true;
  spent_bytes_ = side_.bytes();
}

Status SliceReplay::step(PulledSlice& slice, ByteSpan& rest, uint64_t& objects) {
  if (parts_.room.isExceeded()) return Status::BadRequest;
  Status status = decode(slice, rest);
  if (status != Status::Ok) return status;
  // What is damaged here may be an older entry of a key that comes. It is restored first.
  if (parts_.returns && parts_.replay.hasDamage()) return Status::RetryLater;
  size_t taken = 0;
  if (isAlone(batch_.front())) {
    status = takeAlone(slice, batch_.front());
    taken = status == Status::Ok ? 1 : 0;
  } else {
    status = parts_.replay.replayBatch(batch_, side_, taken);
  }
  if (uses_held_room_) {
    const uint64_t bytes = side_.bytes();
    parts_.room.spend(bytes - std::exchange(spent_bytes_, bytes));
  }
  for (const log::EntryView& entry : std::span(batch_).first(taken)) {
    if (entry.type() == log::EntryType::Object) ++objects;
    rest = rest.subspan(entry.alignedBytes());
  }
  return status;
}

/// Whether an entry is a batch of its own: a key that is lost, or was removed; a result that may be here already.
bool SliceReplay::isAlone(const log::EntryView& entry) const {
  return entry.type() == log::EntryType::Tombstone || (parts_.returns && entry.type() == log::EntryType::ResultRecord);
}

Status SliceReplay::takeAlone(PulledSlice& slice, const log::EntryView& entry) {
  if (entry.type() == log::EntryType::ResultRecord) {
    // This server's own log has it. A copy in the side log would not be there until that has joined.
    if (parts_.replay.knowsResult(entry)) return Status::Ok;
    size_t taken = 0;
    return parts_.replay.replayBatch(std::span(&entry, 1), side_, taken);
  }
  if (PulledSlice::isLost(entry)) return noteLost(slice, entry);
  return parts_.replay.replayRemoval(entry, hashKey(entry.table(), entry.key()), side_);
}

Status SliceReplay::decode(const PulledSlice& slice, ByteSpan bytes) {
  batch_.clear();
  while (!bytes.empty() && batch_.size() < store::TabletIntake::kEntriesPerTurn) {
    log::EntryView entry;
    if (log::decodeEntry(bytes, entry) != log::DecodeError::None) return Status::Corrupt;
    if (!slice.mayHold(parts_.tablet, entry, parts_.version_ceiling, parts_.returns)) return Status::BadRequest;
    const bool is_alone = isAlone(entry);
    if (is_alone && !batch_.empty()) break;
    batch_.push_back(entry);
    if (is_alone) break;
    bytes = bytes.subspan(entry.alignedBytes());
  }
  return Status::Ok;
}

Status SliceReplay::noteLost(PulledSlice& slice, const log::EntryView& entry) {
  const KeyHash hash = hashKey(entry.table(), entry.key());
  bool is_lost = false;
  const Status status = parts_.replay.noteLost(entry.table(), hash, entry.key(), parts_.arriving, is_lost);
  if (status == Status::Ok && is_lost) slice.lost.emplace_back(hash, asText(entry.key()));
  return status;
}

}  // namespace ramcore::master
