#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace ramcore::log {

/// Counts how many bytes of tombstones lie in one segment, the holder, and name another one. Only pairs for which there
/// are such bytes are kept. Segments are identified by their slots.
///
/// All pairs of one named segment are linked, and so are all pairs of one holder, because they go together: when a
/// segment is given up, the tombstones that name it are garbage wherever they lie; when a holder's memory is given
/// back, no tombstone lies in it any more.
///
/// Memory: kPairBytes for each pair, for as many pairs as there have ever been at the same time; never given back to
/// the system. There are never more pairs than tombstones, written and due, so it is no more than about as much as
/// those take themselves.
///
/// Thread: one at a time, but for prepare() and bytes(). Cost: a look-up and a change of a list, some cache lines each.
class TombstoneCounts {
 public:
  explicit TombstoneCounts(uint32_t slot_count);
  ~TombstoneCounts();
  TombstoneCounts(const TombstoneCounts&) = delete;
  TombstoneCounts& operator=(const TombstoneCounts&) = delete;

  /// Gets memory for the next pairs in advance, so that add() takes none from the system while its caller holds a lock.
  /// Any thread; one load if there is some already.
  void prepare();

  int64_t bytesOf(uint32_t named, uint32_t holder) const;
  /// @param bytes  may be negative, and so may be the count that results: the thread that moves a tombstone that is due
  ///               may come before the thread that counts it. Sums are right when both have called
  void add(uint32_t named, uint32_t holder, int64_t bytes);

  struct Taken {
    uint32_t slot = 0;  ///< the slot of the other segment of the pair
    int64_t bytes = 0;  ///< 0: there is none
  };
  /// Removes one pair in which the segment is named, and returns it.
  Taken takeNaming(uint32_t named);
  /// Removes one pair of which the segment is the holder, and returns it.
  Taken takeHeld(uint32_t holder);
  /// All tombstones that name `from` name `to` from now on. Cost: proportional to the pairs that name `to` already.
  void moveNaming(uint32_t from, uint32_t to);

  /// The memory that all pairs take, and have taken. Any thread.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  /// A pair is linked into a bucket of the hash table, and into the lists of its row and of its holder. A row is the
  /// pairs that name one segment: moveNaming() gives the row to another segment, without touching its pairs.
  struct Pair {
    uint32_t row;
    uint32_t holder;
    int32_t bytes;  ///< never 0
    uint32_t next_in_bucket;
    uint32_t previous_of_row;
    uint32_t next_of_row;
    uint32_t previous_of_holder;
    uint32_t next_of_holder;
  };
  static_assert(sizeof(Pair) == 32);
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kBlockShift = 12;
  static constexpr uint32_t kBlockPairs = 1u << kBlockShift;
  /// Pairs, and as many buckets: the table grows by one bucket with each pair (linear hashing), so only those pairs
  /// ever move that the new bucket takes from one other bucket.
  struct Block {
    std::array<Pair, kBlockPairs> pairs{};
    std::array<uint32_t, kBlockPairs> buckets{};
  };

 public:
  /// A pair and a bucket.
  static constexpr uint32_t kPairBytes = sizeof(Block) / kBlockPairs;

 private:
  Pair& pairAt(uint32_t index) { return blocks_[index >> kBlockShift]->pairs[index & (kBlockPairs - 1)]; }
  const Pair& pairAt(uint32_t index) const { return blocks_[index >> kBlockShift]->pairs[index & (kBlockPairs - 1)]; }
  uint32_t& bucketAt(uint32_t index) { return blocks_[index >> kBlockShift]->buckets[index & (kBlockPairs - 1)]; }
  const uint32_t& bucketAt(uint32_t index) const {
    return blocks_[index >> kBlockShift]->buckets[index & (kBlockPairs - 1)];
  }
  uint32_t bucketOf(uint32_t row, uint32_t holder) const;
  uint32_t find(uint32_t row, uint32_t holder) const;
  uint32_t insert(uint32_t row, uint32_t holder);
  void erase(uint32_t index);
  void addBlock();
  void splitBucket();

  std::vector<uint32_t> row_of_slot_;
  std::vector<uint32_t> slot_of_row_;
  std::vector<uint32_t> first_of_row_;
  std::vector<uint32_t> first_of_holder_;
  std::vector<std::unique_ptr<Block>> blocks_;
  uint32_t bucket_count_ = 0;
  uint32_t bucket_mask_ = 0;  ///< the mask for the buckets that there were before this round of splits began
  uint32_t pair_count_ = 0;
  uint32_t fresh_ = 0;     ///< pairs from here on were never used
  uint32_t free_ = kNone;  ///< the first unused pair that was used before; they are linked by next_in_bucket
  std::atomic<Block*> spare_{nullptr};
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace ramcore::log
