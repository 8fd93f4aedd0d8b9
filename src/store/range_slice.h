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
    Version changes_after = 0;  ///< not 0: only objects above this version, and keys that were removed
  };

  std::vector<log::EntryRef> objects;
  std::vector<log::EntryRef> lost;       ///< only their keys can be read. Each takes as much as a tombstone of its key
  std::vector<log::EntryRef> removed{};  ///< with changes_after: tombstones. Each takes as much as one
  uint64_t bytes = 0;                    ///< set to what the answer's header takes before fill()
  std::optional<KeyHash> next;           ///< where the next slice begins; nothing when the range is done

  /// @param size_of  `uint64_t(log::EntryRef)`: bytes of an object in the answer
  /// @param saw      `void(log::EntryRef)`: called for every entry of the table that the answer reveals, removals
  ///                 included
  /// @return Ok, or TooLarge if the objects of the first hash alone are more than `bytes_max`. Corrupt, RetryLater: an
  ///         object that is or may be among them is damaged in memory, lost or to be restored.
  /// Thread: any worker, inside one read section; the references are good in it.
  template <typename SizeOf, typename Saw>
  [[nodiscard]] Status fill(const ObjectStore& store, index::HashIndex& index, TableId table, HashRange range,
                            const Limits& limits, SizeOf&& size_of, Saw&& saw);
  /// As fill() for a tablet that does not change, in about half of the time: the objects of a bucket of the index are
  /// in no order, and their keys are not looked at. So `size_of` has to see whether an object is what was written.
  template <typename SizeOf>
  [[nodiscard]] Status fillByBuckets(const ObjectStore& store, index::HashIndex& index, TableId table, HashRange range,
                                     const Limits& limits, SizeOf&& size_of);

 private:
  // Entries of other tables lie in between, so the work of one answer has a bound beside that of its length.
  static constexpr size_t kEntriesMax = 16 * 1024;
  // A step over empty buckets counts as well.
  static constexpr size_t kEntriesPerStep = 64;

  bool isEmpty() const { return objects.empty() && lost.empty() && removed.empty(); }
  // How much there is, to go back to.
  struct Mark {
    size_t objects;
    size_t lost;
    size_t removed;
  };
  Mark mark() const { return {objects.size(), lost.size(), removed.size()}; }
  void cutTo(const Mark& mark) {
    objects.resize(mark.objects);
    lost.resize(mark.lost);
    removed.resize(mark.removed);
  }
  template <typename SizeOf>
  Status addEntry(const StoredEntries& entries, log::EntryRef ref, const Limits& limits, SizeOf&& size_of,
                  uint64_t& group_bytes);
  enum class Fits : uint8_t { Yes, No, Unknown };
  template <typename SizeOf>
  Fits addBucket(const StoredEntries& entries, const index::HashIndex& index, TableId table,
                 const index::HashIndex::Bucket& bucket, const Limits& limits, SizeOf&& size_of);
};

template <typename SizeOf, typename Saw>
Status RangeSlice::fill(const ObjectStore& store, index::HashIndex& index, TableId table, HashRange range,
                        const Limits& limits, SizeOf&& size_of, Saw&& saw) {
  const StoredEntries& entries = store.entries();
  const auto hash_of = [&entries](log::EntryRef ref) { return entries.hashOf(ref); };
  const auto prefetch = [&entries](log::EntryRef ref) { entries.prefetch(ref); };
  const auto isFull = [&] { return !isEmpty() && bytes >= limits.bytes_wanted; };
  std::vector<index::IndexEntry> found;
  size_t entries_seen = 0;
  std::optional<KeyHash> cursor = range.first;
  const Status readable = entries.rangeStatus();
  if (readable != Status::Ok) return readable;
  while (cursor) {
    found.clear();
    cursor = index.scan(*cursor, range.last, kEntriesPerStep, hash_of, found, prefetch);
    entries_seen += std::max(found.size(), kEntriesPerStep);
    for (size_t first = 0, end = 0; first < found.size(); first = end) {
      const bool is_first = isEmpty();
      const Mark before = mark();
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
        const Status status = addEntry(entries, found[end].ref, limits, size_of, group_bytes);
        if (status != Status::Ok) return status;
      }
      if (!is_first && (bytes >= limits.bytes_wanted || bytes + group_bytes > limits.bytes_max)) {
        cutTo(before);
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

/// Adds an entry of the table.
/// @return Corrupt, RetryLater: it is damaged, and not skipped
template <typename SizeOf>
Status RangeSlice::addEntry(const StoredEntries& entries, log::EntryRef ref, const Limits& limits, SizeOf&& size_of,
                            uint64_t& group_bytes) {
  const log::EntryView entry = entries.entry(ref);
  const log::EntryState state = entry.state();
  if (state == log::EntryState::Damaged && limits.skips_lost) {
    lost.push_back(ref);
    group_bytes += log::alignedTombstoneBytes(entry.keyBytes());
    return Status::Ok;
  }
  if (log::isDamaged(state)) return state == log::EntryState::Damaged ? Status::Corrupt : Status::RetryLater;
  if (entry.type() != log::EntryType::Object) {
    // A removed key, unless its type has changed in memory.
    const Status sound = entries.verify(ref);
    if (sound != Status::Ok || limits.changes_after == 0) return sound;
    removed.push_back(ref);
    group_bytes += log::alignedTombstoneBytes(entry.keyBytes());
    return Status::Ok;
  }
  // What is taken for unchanged is not sent, so its version has to be right.
  if (limits.changes_after != 0 && entry.version() <= limits.changes_after) return entries.verify(ref);
  objects.push_back(ref);
  group_bytes += size_of(ref);
  return Status::Ok;
}

/// Adds the objects of a bucket that lies in the range as a whole.
/// @return No: they would be too many. Unknown: something about it has to be looked at closely. Nothing was added then
template <typename SizeOf>
RangeSlice::Fits RangeSlice::addBucket(const StoredEntries& entries, const index::HashIndex& index, TableId table,
                                       const index::HashIndex::Bucket& bucket, const Limits& limits, SizeOf&& size_of) {
  const size_t before = objects.size();
  for (const index::IndexEntry& found : bucket.entries) {
    const log::EntryView entry = entries.entry(found.ref);
    const bool is_object = entry.table() == table && entry.type() == log::EntryType::Object;
    const bool is_clear =
        !log::isDamaged(entry.state()) && (is_object || !index.isMisplaced(bucket, found, entries.hashOf(found.ref)));
    if (!is_clear || (entry.table() == table && !is_object)) {
      objects.resize(before);
      return Fits::Unknown;
    }
    if (is_object) objects.push_back(found.ref);
  }
  uint64_t bucket_bytes = 0;
  for (size_t i = before; i < objects.size(); ++i) bucket_bytes += size_of(objects[i]);
  if (bytes + bucket_bytes > limits.bytes_max) {
    const bool is_first = before == 0 && lost.empty();
    objects.resize(before);
    return is_first ? Fits::Unknown : Fits::No;
  }
  // One long object may be enough.
  if (objects.size() > before + 1 && bucket_bytes > limits.bytes_wanted / 2) {
    objects.resize(before);
    return Fits::Unknown;
  }
  bytes += bucket_bytes;
  return Fits::Yes;
}

template <typename SizeOf>
Status RangeSlice::fillByBuckets(const ObjectStore& store, index::HashIndex& index, TableId table, HashRange range,
                                 const Limits& limits, SizeOf&& size_of) {
  const StoredEntries& entries = store.entries();
  const Status readable = entries.rangeStatus();
  if (readable != Status::Ok) return readable;
  const auto prefetch = [&entries](log::EntryRef ref) { entries.prefetch(ref); };
  std::vector<index::IndexEntry> buffer;
  std::optional<HashRange> unclear;  // a part of a bucket that is looked at closely
  bool is_full = false;
  const auto add = [&](const index::HashIndex::Bucket& bucket) {
    is_full = !isEmpty() && bytes >= limits.bytes_wanted;
    if (is_full) return false;
    const bool is_whole = bucket.cursor == bucket.range.first && bucket.range.last <= range.last;
    const Fits fits = is_whole ? addBucket(entries, index, table, bucket, limits, size_of) : Fits::Unknown;
    is_full = fits == Fits::No;
    if (fits == Fits::Unknown) unclear = {bucket.cursor, std::min(bucket.range.last, range.last)};
    return fits == Fits::Yes;
  };
  std::optional<KeyHash> cursor = range.first;
  for (size_t entries_seen = 0; cursor && !is_full && entries_seen < kEntriesMax;) {
    cursor = index.visitBuckets({*cursor, range.last}, buffer, prefetch, add);
    entries_seen += std::max(buffer.size(), kEntriesPerStep);
    if (!unclear) continue;
    const Status status = fill(store, index, table, *unclear, limits, size_of, [](log::EntryRef) {});
    if (status != Status::Ok) return status;
    is_full = next.has_value();
    if (!is_full && unclear->last != range.last) next = unclear->last + 1;
    cursor = next;
    unclear.reset();
  }
  next = cursor;
  return Status::Ok;
}

}  // namespace ramcore::store
