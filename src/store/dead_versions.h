#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "log/format/entry_view.h"

namespace ramcore::master {

/// Up to which version each key is known to be dead, while the segments of a log are replayed one after the other: what
/// tombstones say, for as long as something may still come that they hold down. Why no longer: docs/recovery.md, walked
/// by tests/models/dead_versions_model.py.
///
/// A note is kept until the segment has been replayed that the tombstone names; to the end where the plan does not have
/// that, or the index had the object already. An object that is left out because of a note, and names a segment in its
/// turn, lends the note its own time. So a note never ends before everything has come that it is there for.
///
/// Each key has one note, of 24 bytes, in tables that are 64 to 80 % full and lose what has ended before they grow:
/// 30 to 38 bytes for each, at most one for each tombstone. Keys are known by 112 bits of their hashes, half of them
/// seeded: that two agree, of a log of 64 GB, has a chance of 2^-56. It is not part of the log's memory and goes with
/// the recovery. One thread.
class DeadVersions {
 public:
  /// Of entries in any order, from anywhere: every note is kept to the end.
  explicit DeadVersions(uint64_t seed) : DeadVersions({}, seed) {}
  /// Of a log that is whole.
  /// @param order  its segments, each once, as they will be replayed; empty: as above
  /// @param seed   nobody who writes keys can know it
  DeadVersions(std::span<const SegmentId> order, uint64_t seed);

  /// All of the next segment of the order has been replayed.
  void segmentDone() { ++done_; }

  /// Whether an object that the index does not have is known to be dead; if so, it is left out.
  bool holdsDown(KeyHash hash, const log::EntryView& object);
  /// A tombstone of a key of which the index has nothing, and had nothing when it came.
  void note(KeyHash hash, const log::EntryView& tombstone);
  /// A tombstone by which an object leaves the index. What that held down is not known any more.
  void noteToTheEnd(KeyHash hash, const log::EntryView& tombstone);

  /// Gives all memory back.
  void clear();

  /// Notes in the tables, some of which may have ended.
  size_t size() const { return size_; }
  /// Memory of the tables, and the most that it has been.
  uint64_t bytes() const { return bytes_; }
  uint64_t peakBytes() const { return peak_bytes_; }

 private:
  // Of the key: 64 bits of the hash that everybody uses, and 48 of a seeded one, by which its place is found: keys of
  // one hash, which somebody may have computed, cost no more than others.
  struct Key {
    KeyHash hash;
    uint64_t mark;  // 48 bits
  };
  // Until: the number of the segment in the order, from 1 on, at whose end it ends.
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

  // Each grows alone, so that the old and the new one of all that there is are never there at the same time.
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
  std::vector<Numbered> order_;  // by segment
  const uint64_t seed_;
  uint32_t done_ = 0;
  size_t size_ = 0;
  uint64_t bytes_ = 0;
  uint64_t peak_bytes_ = 0;
  std::array<Shard, 1U << kShardBits> shards_;
};

}  // namespace ramcore::master
