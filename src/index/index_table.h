#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/step.h"
#include "index/index_line.h"

namespace ramcore::index {

/// What every lookup of an index reads: the word with the table's size, the buckets, and the overflow lines. Set when
/// the index is opened; later only the word changes, with each split (index_splitter.h).
///
/// Any thread; publish() under the lock of splits. Everything is inline, and the index has this by value, in one cache
/// line.
class IndexTable {
 public:
  /// @param buckets, lines  borrowed
  /// @param initial_buckets_log2  buckets of the empty table, as a power of two
  IndexTable(std::span<Line> buckets, std::span<Line> lines, unsigned initial_buckets_log2)
      : buckets_(buckets), lines_(lines), tag_shift_(initial_buckets_log2) {
    TableSize initial;
    initial.level = initial_buckets_log2;
    publish(initial);
  }
  IndexTable(const IndexTable&) = delete;
  IndexTable& operator=(const IndexTable&) = delete;

  uint64_t sizeWord() const {
    RC_STEP();
    return size_.load(std::memory_order_acquire);
  }
  TableSize size() const { return TableSize::fromWord(sizeWord()); }
  /// From now on lookups go by this size.
  void publish(TableSize size) {
    RC_STEP();
    size_.store(size.toWord(), std::memory_order_release);
  }
  /// The number of the bucket to which a hash belongs now.
  uint64_t currentBucket(ReversedHash reversed) const { return size().bucketOf(reversed); }
  /// The first line of a bucket, which may be one that the table does not have yet.
  Line& bucket(uint64_t number) const { return buckets_[number]; }
  Line& overflowLine(uint64_t number) const { return lines_[number]; }
  /// The line to which a line's last slot links, or nullptr if that slot is no link.
  Line* nextLine(SlotBits link) const { return isLink(link) ? &lines_[linkedLine(link)] : nullptr; }
  uint64_t tagBits(ReversedHash reversed) const { return reversed >> tag_shift_ & kTagMask; }
  /// Bits of the reversed hash below those of the tag: as many as number the buckets of the empty table.
  unsigned tagShift() const { return tag_shift_; }

 private:
  std::atomic<uint64_t> size_{0};
  const std::span<Line> buckets_;
  const std::span<Line> lines_;
  const unsigned tag_shift_;
};

}  // namespace ramcore::index
