#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/spin_lock.h"
#include "base/step.h"
#include "index/index_line.h"
#include "index/index_memory.h"
#include "index/index_splitter.h"
#include "index/index_table.h"
#include "index/line_pool.h"
#include "index/stripes.h"
#include "runtime/epoch.h"

namespace ramcore::index {

struct IndexConfig {
  /// Buckets of the empty table, as a power of two. Raised: more memory for an empty table. Lowered: below about a
  /// 4,000th of the final size the tag bits run out and lookups compare more keys in vain. 0..30
  unsigned initial_buckets_log2 = 12;
  /// Addresses to reserve; bounds the table at about 1 entry per 13 bytes. Costs no memory by itself.
  uint64_t reserve_bytes = uint64_t{1} << 30;
  /// Stripe locks, as a power of two; capped by the initial buckets. Raised: 64 bytes each. Lowered: writers meet more.
  unsigned stripes_log2 = 10;

  static IndexConfig forTest() { return {.initial_buckets_log2 = 2, .reserve_bytes = 4 << 20, .stripes_log2 = 2}; }
};

struct IndexStats {
  uint64_t entries = 0;
  uint64_t buckets = 0;
  uint64_t overflow_lines = 0;
  uint64_t committed_bytes = 0;
  uint64_t splits = 0;
  uint64_t splits_per_operation_max = 0;
  uint64_t splits_put_off = 0;       // another thread was splitting, or a stripe or an overflow line was not available
  uint64_t relocations_refused = 0;  // the entry had died, or moved, meanwhile
};

/// One entry met by a scan.
struct IndexEntry {
  KeyHash hash = 0;
  EntryRef ref;
  /// The hash that `hash_of` computed is not the one under which the entry was inserted: its key has changed in memory.
  /// `hash` is one of the hashes of its bucket.
  bool is_misplaced = false;
};

class HashIndex;

/// Holds the stripe of one key: nothing that concerns this key changes in the index while it lives, so it is the lock
/// of a whole mutation (check, append, update of the index). Held for microseconds; never across a suspension or a
/// wait. Keys share stripes: never take a second one while holding one, except with tryLock.
class StripeGuard {
 public:
  /// Waits for the stripe.
  StripeGuard(HashIndex& index, KeyHash hash);
  /// For the dispatch thread, which must not wait for a preempted holder.
  static std::optional<StripeGuard> tryLock(HashIndex& index, KeyHash hash);
  StripeGuard(StripeGuard&& other) noexcept
      : lock_(std::exchange(other.lock_, nullptr)), reversed_(other.reversed_), stripe_(other.stripe_) {}
  StripeGuard& operator=(StripeGuard&&) = delete;
  ~StripeGuard();

 private:
  friend class HashIndex;
  StripeGuard(SpinLock* lock, ReversedHash reversed, uint64_t stripe)
      : lock_(lock), reversed_(reversed), stripe_(stripe) {}

  SpinLock* lock_;
  ReversedHash reversed_;
  uint64_t stripe_;
};

/// Finds entries of the log by key hash: one per master, for all its tables.
///
/// Linear hashing over one address range: the table grows a bucket at a time, as entries are inserted, and is never
/// rebuilt. A bucket is one cache line of 8 slots; when it is full, its last slot becomes a link to an overflow line. A
/// slot holds 24 hash bits and a 40-bit reference; keys are in the log alone, so callers pass a `matcher` that compares
/// keys.
///
/// Readers take no lock: they run inside a read section of `Rcu` (lookup and everything they do with the result) and
/// may find an entry that is being replaced at that moment. Writers hold the StripeGuard of the key. A bucket and its
/// split target share a stripe, because the numbers of both begin with the same low bits of the reversed hash.
///
/// Writers compute the bucket after they have the stripe, never before. Why no lookup misses a key while a bucket is
/// split is said at IndexSplitter.
///
/// Lock order: split lock (only tried) -> stripe (only tried by the splitter) -> line pool. A mutation waits for one
/// stripe and for no other lock but the line pool's.
class HashIndex {
 public:
  static constexpr uint32_t kSplitsPerOperationMax = IndexSplitter::kSplitsPerOperationMax;
  static constexpr uint64_t kEntriesPerBucketMax = IndexSplitter::kEntriesPerBucketMax;

  /// @param rcu  borrowed; its reclaimer must run now and then, or freed overflow lines never come back
  /// @return the index, or BadConfig, or NoSpace when the addresses cannot be reserved
  static Outcome<std::unique_ptr<HashIndex>> open(const IndexConfig& config, runtime::Rcu& rcu);
  HashIndex(const HashIndex&) = delete;
  HashIndex& operator=(const HashIndex&) = delete;

  /// The entry of a key, or none.
  /// @param matches  `bool(EntryRef)`: true if the entry has this key. Called for entries whose hash agrees in the bits
  ///                 that the index keeps; they are readable.
  /// Any thread, inside a read section; no lock. Cost: one cache miss, plus those of the matcher.
  template <typename Matcher>
  EntryRef lookup(KeyHash hash, Matcher&& matches) const {
    const ReversedHash reversed = reverseBits(hash);
    uint64_t word = table_.sizeWord();
    for (;;) {
      const EntryRef found = probe(TableSize::fromWord(word).bucketOf(reversed), table_.tagBits(reversed), matches);
      if (found || RC_STEP_MUTATION("look-once")) return found;
      const uint64_t now = table_.sizeWord();
      if (now == word) return {};
      word = now;
    }
  }

  /// `lookup` of many keys with their cache misses overlapped: several times the rate of single ones from 4 keys on.
  /// @param out      as many as hashes; out[i] is the entry of hashes[i] or none
  /// @param memory   base of the log memory, for prefetching entries
  /// @param matches  `bool(size_t i, EntryRef)`
  template <typename Matcher>
  void lookupBatch(std::span<const KeyHash> hashes, std::span<EntryRef> out, const std::byte* memory,
                   Matcher&& matches) const;

  /// Asks for the cache line that the next call about this key reads first.
  void prefetch(KeyHash hash) const { __builtin_prefetch(&table_.bucket(table_.currentBucket(reverseBits(hash)))); }
  /// Prefetches the entry to which the key's line seems to lead. To be called some time after prefetch(). It is a
  /// guess: only the tags in the bucket's own line are compared.
  /// @param memory  base of the log memory
  /// Any thread, inside a read section; no lock.
  void prefetchEntry(KeyHash hash, const std::byte* memory) const;

  /// `lookup` for a writer that holds the key's stripe: what it returns stays true while the guard lives.
  template <typename Matcher>
  EntryRef find(const StripeGuard& guard, Matcher&& matches) const {
    return probe(table_.currentBucket(guard.reversed_), table_.tagBits(guard.reversed_), matches);
  }

  /// Makes sure that `insert` of this key will find a slot, as long as the guard lives. Called before the entry is
  /// appended to the log. @return Ok, or NoSpace when overflow lines are used up; the caller may retry later
  Status prepareInsert(const StripeGuard& guard);
  /// Adds an entry; its key must not be in the index. The entry is complete and readable. May split buckets.
  /// @return Ok, or NoSpace; never NoSpace after prepareInsert under the same guard
  Status insert(const StripeGuard& guard, EntryRef ref);
  /// Makes the key of `old` point to `now`. @return false if the index does not hold `old`
  bool replace(const StripeGuard& guard, EntryRef old, EntryRef now);
  /// As replace(), for an entry that the cleaner has moved in the log without changing it. Counts refusals.
  /// @return false: the index does not hold `old`, because the entry died meanwhile; the copy is dead as well
  bool relocate(const StripeGuard& guard, EntryRef old, EntryRef now);
  /// Removes an entry. @return false if the index does not hold it
  bool erase(const StripeGuard& guard, EntryRef ref);

  /// Buckets that one scan() looks at, at most: in a table that was emptied most are empty.
  static constexpr size_t kScanBucketsMax = 512;
  /// Appends entries from `cursor` on to `out`, in the order of their key hashes, bucket by bucket, until there are
  /// `entries_min`, or kScanBucketsMax buckets were looked at, or `last` is reached. A cursor is a key hash and means
  /// the same at every size of the table, also on another server: a key that is present throughout a series of calls is
  /// returned exactly once.
  /// @param last     last key hash wanted
  /// @param hash_of  `KeyHash(EntryRef)`: reads the entry's key. If the hash of that is not the one under which the
  ///                 entry was inserted, the entry is returned all the same, see IndexEntry
  /// @return the cursor to go on with, or nothing when the range is done. All entries with hashes before it have been
  ///         returned; a caller that takes fewer may go on after any hash it has taken completely.
  /// Thread: any worker, inside a read section; waits for one stripe at a time. What is returned of one bucket is
  /// consistent.
  /// @param prefetch  `void(EntryRef)`: called for an entry some time before `hash_of` reads it
  template <typename HashOf, typename Prefetch>
  std::optional<KeyHash> scan(KeyHash cursor, KeyHash last, size_t entries_min, HashOf&& hash_of,
                              std::vector<IndexEntry>& out, Prefetch&& prefetch);
  template <typename HashOf>
  std::optional<KeyHash> scan(KeyHash cursor, KeyHash last, size_t entries_min, HashOf&& hash_of,
                              std::vector<IndexEntry>& out) {
    return scan(cursor, last, entries_min, hash_of, out, [](EntryRef) {});
  }
  /// A bucket as it was copied just now.
  struct Bucket {
    HashRange range;                      ///< the hashes that belong to it
    KeyHash cursor;                       ///< the first one of these that was asked for
    std::span<const IndexEntry> entries;  ///< in no order; for isMisplaced() and their references only
  };
  /// Calls `bool visit(const Bucket&)` for some buckets of a range, in hash order, without holding a lock and without
  /// reading any key: some of the entries may lie outside of the range. Returning false ends it before that bucket.
  /// @param buffer    is overwritten
  /// @param prefetch  `void(EntryRef)`: called for an entry some time before its bucket is visited
  /// @return as scan()
  /// Thread: as scan()
  template <typename Prefetch, typename Visit>
  std::optional<KeyHash> visitBuckets(const HashRange& range, std::vector<IndexEntry>& buffer, Prefetch&& prefetch,
                                      Visit&& visit);
  /// Whether an entry of a bucket was inserted under another hash than the one that its key has now.
  bool isMisplaced(const Bucket& bucket, const IndexEntry& entry, KeyHash hash) const {
    return !bucket.range.contains(hash) || table_.tagBits(reverseBits(hash)) != entry.hash;
  }
  /// Calls `visit(KeyHash, EntryRef)` for the entries of a range, in hash order, without holding a lock.
  template <typename HashOf, typename Visit>
  void forEachInRange(HashRange range, HashOf&& hash_of, Visit&& visit);

  /// Background work: pre-faults memory ahead of growth; when there is enough of it, has 2 MB that growth has passed
  /// put into a huge page. May take milliseconds; a thread that touches these 2 MB may wait for a part of that time.
  /// @return bytes; 0 = nothing to do. One thread at a time, which holds no stripe.
  uint64_t maintainMemory();
  /// Whether maintainMemory() would do something: a few loads. Any thread.
  bool memoryIsDue() const;
  IndexStats stats() const;
  uint64_t entryCount() const { return entries_.load(std::memory_order_relaxed); }
  /// Whether two hashes agree in all bits that the index keeps of them. By chance this is so for one pair of hashes in
  /// 2^24 times the number of buckets of the smallest table.
  bool agree(KeyHash a, KeyHash b) const {
    return (reverseBits(a) ^ reverseBits(b)) << (64 - kTagBits - table_.tagShift()) == 0;
  }

 private:
  friend class StripeGuard;
  struct Place {
    Line* line = nullptr;
    Line* parent = nullptr;  // whose link leads to `line`; none for the bucket's own line
    uint32_t slot_index = 0;
  };

  HashIndex(const IndexConfig& config, std::unique_ptr<IndexMemory> memory, runtime::Rcu& rcu);

  void checkHeld(const StripeGuard& guard) const;
  uint64_t filledBuckets() const;

  template <typename Matcher>
  EntryRef probe(uint64_t bucket, uint64_t tag, Matcher& matches) const;
  static uint32_t matchMask(const Line& line, uint64_t tag, SlotBits last);

  std::optional<Place> locate(uint64_t bucket, SlotBits wanted) const;
  std::optional<Place> locateEmpty(uint64_t bucket) const;
  Status extendChain(uint64_t bucket);
  bool swapSlot(uint64_t bucket, const StripeGuard& guard, EntryRef old, EntryRef now);
  void unlinkIfSparse(const Place& place);

  static constexpr size_t kWindow = 16;
  struct CopiedBucket {
    HashRange wanted;  // from the first wanted hash of the bucket to the last one of the range
    HashRange range;
    size_t first;  // its entries
    size_t end;
  };
  struct Window {
    std::array<CopiedBucket, kWindow> buckets;
    size_t count = 0;
    KeyHash next = 0;
    bool is_last = false;  // the range is done
  };
  template <typename Prefetch>
  Window copyWindow(KeyHash cursor, KeyHash last, size_t buckets_max, size_t entries_min, std::vector<IndexEntry>& out,
                    Prefetch& prefetch);
  void prefetchBuckets(KeyHash cursor, KeyHash last, size_t count) const;
  template <typename HashOf>
  size_t keepInRange(const HashRange& wanted, const HashRange& bucket, HashOf& hash_of,
                     std::span<const IndexEntry> entries, IndexEntry* to) const;
  /// Copies the references of the bucket that `cursor` falls into, under its stripe, with their tags in place of the
  /// hashes. @return the bucket's range
  HashRange copyBucket(KeyHash cursor, std::vector<IndexEntry>& out);

  // Read by every lookup; the two fill a cache line.
  alignas(64) IndexTable table_;
  Stripes stripes_;

  alignas(64) std::atomic<uint64_t> entries_{0};
  IndexSplitter splitter_;
  std::atomic<uint64_t> relocations_refused_{0};
  std::unique_ptr<IndexMemory> memory_;
  LinePool pool_;
};

}  // namespace ramcore::index

#include "index/hash_index_inline.h"  // IWYU pragma: export
