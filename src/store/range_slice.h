#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "base/check.h"
#include "index/hash_index.h"
#include "store/object_store.h"

namespace ramcore::store {

/// The objects that one answer of a scan or a pull holds: those of one table from a cursor on, in the order of their
/// key hashes. Objects of one hash stay together, because a cursor is a key hash; ObjectStore sees to it that there are
/// so few of them that they fit into one answer.
struct RangeSlice {
  struct Limits {
    uint64_t bytes_wanted = 0;  ///< the slice ends when it has this much
    uint64_t bytes_max = 0;     ///< and never has more than this
    bool skips_lost = false;    ///< objects that are lost are listed apart, and do not end the slice
  };

  std::vector<log::EntryRef> objects;
  std::vector<log::EntryRef> lost;  ///< only their keys can be read. Each takes as much as a tombstone of its key
  uint64_t bytes = 0;               ///< set to what the answer's header takes before fill()
  std::optional<KeyHash> next;      ///< where the next slice begins; nothing when the range is done

  /// @param size_of  `uint64_t(log::EntryRef)`: bytes of an object in the answer
  /// @param saw      `void(log::EntryRef)`: called for every entry of the table that the answer reveals, removals
  ///                 included
  /// @return Ok, or TooLarge if the objects of the first hash alone are more than `bytes_max`. Corrupt, RetryLater: an
  ///         object that is or may be among them is damaged in memory, lost or to be restored.
  /// Thread: any worker, inside one read section; the references are good in it.
  template <typename SizeOf, typename Saw>
  [[nodiscard]] Status fill(const ObjectStore& store, index::HashIndex& index, TableId table, HashRange range,
                            const Limits& limits, SizeOf&& size_of, Saw&& saw);

 private:
  static constexpr size_t kEntriesPerStep = 64;
  // Entries of other tables lie in between, so the work of one answer has a bound beside that of its length.
  static constexpr size_t kEntriesMax = 16 * 1024;
};

template <typename SizeOf, typename Saw>
Status RangeSlice::fill(const ObjectStore& store, index::HashIndex& index, TableId table, HashRange range,
                        const Limits& limits, SizeOf&& size_of, Saw&& saw) {
  const StoredEntries& entries = store.entries();
  const auto hash_of = [&entries](log::EntryRef ref) { return entries.hashOf(ref); };
  const auto isFull = [&] { return !(objects.empty() && lost.empty()) && bytes >= limits.bytes_wanted; };
  std::vector<index::IndexEntry> found;
  size_t entries_seen = 0;
  std::optional<KeyHash> cursor = range.first;
  const Status readable = entries.rangeStatus();
  if (readable != Status::Ok) return readable;
  while (cursor) {
    found.clear();
    cursor = index.scan(*cursor, range.last, kEntriesPerStep, hash_of, found);
    // A step over empty buckets counts as well.
    entries_seen += std::max(found.size(), kEntriesPerStep);
    for (size_t first = 0, end = 0; first < found.size(); first = end) {
      const size_t objects_before = objects.size();
      const size_t lost_before = lost.size();
      uint64_t group_bytes = 0;
      for (end = first; end < found.size() && found[end].hash == found[first].hash; ++end) {
        const log::EntryView entry = entries.entry(found[end].ref);
        if (found[end].is_misplaced) {
          // A misplaced entry may be of this range, whatever its key says now.
          const Status sound = entries.verify(found[end].ref);
          if (sound != Status::Ok) return sound;
          continue;
        }
        if (entry.table() != table) continue;
        saw(found[end].ref);
        const log::EntryState state = entry.state();
        if (state == log::EntryState::Damaged && limits.skips_lost) {
          lost.push_back(found[end].ref);
          group_bytes += log::alignedTombstoneBytes(entry.keyBytes());
          continue;
        }
        if (log::isDamaged(state)) return state == log::EntryState::Damaged ? Status::Corrupt : Status::RetryLater;
        if (entry.type() != log::EntryType::Object) {
          // A removed key, unless its type has changed in memory.
          const Status sound = entries.verify(found[end].ref);
          if (sound != Status::Ok) return sound;
          continue;
        }
        objects.push_back(found[end].ref);
        group_bytes += size_of(found[end].ref);
      }
      const bool is_first = objects_before + lost_before == 0;
      if (!is_first && (bytes >= limits.bytes_wanted || bytes + group_bytes > limits.bytes_max)) {
        objects.resize(objects_before);
        lost.resize(lost_before);
        next = found[first].hash;
        return Status::Ok;
      }
      if (bytes + group_bytes > limits.bytes_max) return Status::TooLarge;
      bytes += group_bytes;
    }
    if (cursor && (isFull() || entries_seen >= kEntriesMax)) break;
  }
  next = cursor;
  return Status::Ok;
}

}  // namespace ramcore::store
