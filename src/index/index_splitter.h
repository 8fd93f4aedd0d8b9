#pragma once

#include <atomic>
#include <cstdint>

#include "base/spin_lock.h"
#include "index/index_line.h"
#include "index/index_table.h"
#include "index/line_pool.h"
#include "index/stripes.h"

namespace ramcore::index {

/// Growth of an index: splits one bucket after the other, as entries are inserted.
///
/// Why no lookup misses a key (the only order that works):
///   1. under the stripe, copies of the entries that belong to the new bucket are written there; no lookup goes there
///      yet;
///   2. the word with the table's size is published: new lookups go to the new bucket;
///   3. the originals are cleared.
/// A reader with the old word that comes after 3 finds nothing, loads the word again, sees the change and retries.
/// A reader that finds the original between 2 and 3 is right: no writer can have replaced it, the stripe is still held.
/// When entries of the old bucket move closer together, so that overflow lines become free, the same order holds: copy,
/// publish (`phase`), unlink. Writers compute the bucket after they have the stripe, never before.
///
/// Lock order: split lock (only tried) -> stripe (only tried) -> line pool. Any thread that holds a stripe.
class IndexSplitter {
 public:
  static constexpr uint32_t kSplitsPerOperationMax = 2;
  /// Average entries per bucket above which an insert splits: load 0.75.
  static constexpr uint64_t kEntriesPerBucketMax = 6;

  /// Everything is borrowed and outlives this.
  struct Parts {
    IndexTable& table;
    Stripes& stripes;
    LinePool& pool;
    const std::atomic<uint64_t>& entries;  ///< how many the index has
  };
  /// @param buckets_max  the most buckets that the table ever has
  IndexSplitter(const Parts& parts, uint64_t buckets_max) : parts_(parts), buckets_max_(buckets_max) {}

  /// To be called after an insert: splits buckets if the table has too many entries for them. Waits for no lock.
  /// @param stripe_held  the number of the stripe that the caller holds
  void splitAsNeeded(uint64_t stripe_held);

  uint64_t splits() const { return splits_.load(std::memory_order_relaxed); }
  uint64_t splitsPerOperationMax() const { return splits_per_operation_max_.load(std::memory_order_relaxed); }
  /// Another thread was splitting, or a stripe or an overflow line was not available.
  uint64_t splitsPutOff() const { return splits_put_off_.load(std::memory_order_relaxed); }

 private:
  class ChainBuilder;

  bool trySplit(uint64_t stripe_held);
  bool splitBucket(TableSize before);
  bool belongsToTarget(TableSize before, SlotBits slot) const;
  void compactChain(TableSize before, uint64_t bucket, uint64_t entries_kept, uint64_t lines_now);

  const Parts parts_;  // read by each insert
  const uint64_t buckets_max_;

  alignas(64) SpinLock lock_;  // one split at a time; only tried
  std::atomic<uint64_t> splits_{0};
  std::atomic<uint64_t> splits_per_operation_max_{0};
  std::atomic<uint64_t> splits_put_off_{0};
};

}  // namespace ramcore::index
