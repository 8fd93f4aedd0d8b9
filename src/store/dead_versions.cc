#include "store/dead_versions.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"
#include "base/mutation.h"

namespace ramcore::store {

DeadVersions::DeadVersions(std::span<const SegmentId> order, uint64_t seed) : seed_(seed) {
  // A plan comes in a message of 8 MB.
  RC_CHECK(order.size() < kEnd);
  order_.reserve(order.size());
  for (const SegmentId segment : order) order_.push_back({segment, static_cast<uint32_t>(order_.size() + 1)});
  std::ranges::sort(order_, {}, &Numbered::segment);
}

DeadVersions::Key DeadVersions::keyOf(KeyHash hash, const log::EntryView& entry) const {
  return {hash, fingerprint(entry.key(), seed_ + entry.table().value) >> 16};
}

/// A segment that the plan does not have is not replayed, but its objects may lie in another segment, too: the dead
/// server may have been copying the one to the other when it died. So a note that waits for it lasts to the end.
uint32_t DeadVersions::untilOf(SegmentId segment) const {
  const auto at = std::ranges::lower_bound(order_, segment, {}, &Numbered::segment);
  return at != order_.end() && at->segment == segment ? at->number : kEnd;
}

void DeadVersions::clear() {
  shards_ = {};
  order_ = {};
  size_ = 0;
  bytes_ = 0;
}

size_t DeadVersions::placeIn(const std::vector<Note>& notes, const Key& key) {
  // The bits below those that chose the shard, as a share of the table.
  const uint64_t share = key.mark << (16 + kShardBits);
  auto place = static_cast<size_t>(static_cast<unsigned __int128>(share) * notes.size() >> 64);
  while (!notes[place].isNone() && !notes[place].isOf(key)) {
    if (++place == notes.size()) place = 0;
  }
  return place;
}

bool DeadVersions::holdsDown(KeyHash hash, const log::EntryView& object) {
  if (size_ == 0) return false;
  const Key key = keyOf(hash, object);
  std::vector<Note>& notes = shardOf(key).notes;
  if (notes.empty()) return false;
  Note& note = notes[placeIn(notes, key)];
  if (note.isNone() || hasEnded(note) || note.version() < object.version()) return false;
  // Only this object, which is left out, may say that the one that it replaced is dead. So the note also has to keep
  // that one dead.
  const bool names = object.namesSegment() && !RC_MUTATION("lend-no-time");
  const uint32_t until = names ? untilOf(object.namedSegment()) : 0;
  if (until > note.until()) note = Note(key, note.version(), until);
  return true;
}

void DeadVersions::note(KeyHash hash, const log::EntryView& tombstone) {
  const uint32_t until = untilOf(tombstone.namedSegment());
  if (until > done_) put(keyOf(hash, tombstone), tombstone.version(), until);
}

void DeadVersions::noteToTheEnd(KeyHash hash, const log::EntryView& tombstone) {
  const bool is_short = RC_MUTATION("forget-what-was-taken-out");
  is_short ? note(hash, tombstone) : put(keyOf(hash, tombstone), tombstone.version(), kEnd);
}

void DeadVersions::put(const Key& key, Version version, uint32_t until) {
  if (version == 0) return;  // nothing is dead by it
  Shard& shard = shardOf(key);
  if (shard.taken * 5 >= shard.notes.size() * 4) makeRoom(shard);
  Note& note = shard.notes[placeIn(shard.notes, key)];
  if (note.isNone()) {
    ++shard.taken;
    ++size_;
  } else if (!hasEnded(note)) {
    version = std::max(version, note.version());
    until = std::max(until, note.until());
  }
  note = Note(key, version, until);
}

void DeadVersions::makeRoom(Shard& shard) {
  constexpr size_t kLeast = 16;
  const auto count = static_cast<size_t>(
      std::ranges::count_if(shard.notes, [this](const Note& note) { return !note.isNone() && !hasEnded(note); }));
  std::vector<Note> notes(std::max(kLeast, count * 25 / 16));  // 64 % of it
  const uint64_t before = shard.notes.size() * sizeof(Note);
  bytes_ += notes.size() * sizeof(Note);
  peak_bytes_ = std::max(peak_bytes_, bytes_);
  for (const Note& note : shard.notes) {
    if (!note.isNone() && !hasEnded(note)) notes[placeIn(notes, note.key())] = note;
  }
  size_ -= shard.taken - count;
  shard.taken = count;
  shard.notes.swap(notes);
  bytes_ -= before;
}

}  // namespace ramcore::store
