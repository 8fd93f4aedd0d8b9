#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "log/format/entry_view.h"

namespace ramcore::store {

/// Tells up to which version each key is known to be dead, while the segments of a log are replayed one after the
/// other. It keeps what tombstones say, as notes, for as long as an entry may still come that they have to keep dead.
/// Why no longer: docs/recovery.md, explored by tests/models/dead_versions_model.py.
///
/// A note is kept until the segment that the tombstone names has been replayed. It is kept to the end of the replay if
/// the plan does not have that segment, or if the tombstone took an object out of the index. An object that is left out
/// because of a note, and itself names a segment, prolongs the note until that segment has been replayed. So a note
/// never ends before everything has come that it has to keep dead.
///
/// Each key has one note, of 24 bytes, in tables that are 64 to 80 % full and drop ended notes before they grow: 30 to
/// 38 bytes for each note, and at most one note for each tombstone. Keys are known by 112 bits of their hashes, 48 of
/// them seeded: the probability that two keys of a log of 64 GB agree is 2^-56. The notes are not part of the log's
/// memory and go with the recovery. One thread.
class DeadVersions {
 public:
  /// For entries that come in any order, from anywhere: every note is kept to the end.
  explicit DeadVersions(uint64_t seed) : DeadVersions({}, seed) {}
  /// For a log that is whole.
  /// @param order  its segments, each once, as they will be replayed; empty: as above
  /// @param seed   a value that no writer of keys can know
  DeadVersions(std::span<const SegmentId> order, uint64_t seed);

  /// Notes that all of the next segment of the order has been replayed.
  void segmentDone() { ++done_; }

  /// Whether an object that the index does not have is known to be dead; if so, the caller leaves it out, and the note
  /// may be prolonged (see above).
  bool holdsDown(KeyHash hash, const log::EntryView& object);
  /// Notes a tombstone of a key of which the index has nothing, and had nothing when the tombstone came.
  void note(KeyHash hash, const log::EntryView& tombstone);
  /// Notes, to the end of the replay, a tombstone by which an object leaves the index: what that object kept dead is
  /// not known any more.
  void noteToTheEnd(KeyHash hash, const log::EntryView& tombstone);

  /// Gives all memory back.
  void clear();

  /// Notes in the tables, some of which may have ended.
  size_t size() const { return size_; }
  /// Memory of the tables, and the most that it has been.
  uint64_t bytes() const { return bytes_; }
  uint64_t peakBytes() const { return peak_bytes_; }

 private:
  // Identifies a key: 64 bits of the common hash, and 48 bits of a seeded one, by which the key's place is found. So
  // keys with equal common hashes, which can be computed on purpose, cost no more than others.
  struct Key {
    KeyHash hash;
    uint64_t mark;  // 48 bits
  };
  // The `until` of a note is the number of a segment in the order, counted from 1; the note ends when that segment has
  // been replayed.
  static constexpr uint32_t kEnd = (1U << 24) - 1;
  class Note {
   public:
    Note() = default;
    Note(const Key& key, Version version, uint32_t until)
        : hash_(key.hash), mark_(key.mark << 16 | until >> 8), version_(version << 8 | (until & 0xff)) {}
    bool isNone() const { return version() == 0; }
    bool isOf(const Key& key) const { return hash_ == key.hash && mark() == key.mark; }
    Key key() const { return {hash_, mark()}; }
    uint64_t mark() const { return mark_ >> 16; }
    Version version() const { return version_ >> 8; }
    uint32_t until() const { return static_cast<uint32_t>((mark_ & 0xffff) << 8 | (version_ & 0xff)); }

   private:
    KeyHash hash_ = 0;
    uint64_t mark_ = 0;
    uint64_t version_ = 0;
  };
  static_assert(sizeof(Note) == 24);

  // Each shard grows alone, so that there are never an old and a new table of all notes at the same time.
  struct Shard {
    std::vector<Note> notes;  // linear probing; at most 80 % are taken
    size_t taken = 0;
  };
  static constexpr uint32_t kShardBits = 6;

  Key keyOf(KeyHash hash, const log::EntryView& entry) const;
  uint32_t untilOf(SegmentId segment) const;
  bool hasEnded(const Note& note) const { return note.until() <= done_; }
  Shard& shardOf(const Key& key) { return shards_[key.mark >> (48 - kShardBits)]; }
  static size_t placeIn(const std::vector<Note>& notes, const Key& key);
  void put(const Key& key, Version version, uint32_t until);
  void makeRoom(Shard& shard);

  struct Numbered {
    SegmentId segment;
    uint32_t number;  // from 1 on
  };
  std::vector<Numbered> order_;  // sorted by segment
  const uint64_t seed_;
  uint32_t done_ = 0;
  size_t size_ = 0;
  uint64_t bytes_ = 0;
  uint64_t peak_bytes_ = 0;
  std::array<Shard, 1U << kShardBits> shards_;
};

}  // namespace ramcore::store
