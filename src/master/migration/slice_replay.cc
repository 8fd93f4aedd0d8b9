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
  size_t taken = 0;
  const log::EntryView& front = batch_.front();
  if (front.type() == log::EntryType::Tombstone) {
    status = PulledSlice::isLost(front)
                 ? noteLost(slice, front)
                 : parts_.replay.replayRemoval(front, hashKey(front.table(), front.key()), side_);
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

/// A key that is lost, or was removed, comes in a batch of its own.
Status SliceReplay::decode(const PulledSlice& slice, ByteSpan bytes) {
  batch_.clear();
  while (!bytes.empty() && batch_.size() < store::TabletIntake::kEntriesPerTurn) {
    log::EntryView entry;
    if (log::decodeEntry(bytes, entry) != log::DecodeError::None) return Status::Corrupt;
    if (!slice.mayHold(parts_.tablet, entry, parts_.version_ceiling, parts_.returns)) return Status::BadRequest;
    const bool is_alone = entry.type() == log::EntryType::Tombstone;
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
