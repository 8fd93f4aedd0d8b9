#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/ids.h"
#include "store/crowded_hashes.h"
#include "store/lost_keys.h"

namespace ramcore::store {

/// Says which key hashes of a tablet have arrived, while the tablet is handed over to this server and its contents
/// follow: of a hash that has arrived, every key that exists is in the index (a hash with a lost key has not arrived).
/// The tablet is cut into partitions of equal width (but for the last), which arrive beside each other. The contents of
/// each come in the order of hashes, so all hashes before its frontier have arrived; single hashes that were asked for
/// before are noted, the latest ones.
///
/// A tablet that comes back to the server that has lent it out arrives as well. That server has kept its own entries,
/// and what the other one has changed is older here until it has come back: see isOld().
///
/// has(), isOld(), isClosed(), lastFrom() and hasOneKeyAtMost(): any thread, a few loads; has() takes a lock while keys
/// are lost. A thread that looks at the index asks before that: if a hash has arrived, the look finds what there is.
/// The other functions: one thread at a time, advance() and finish() one thread for each partition; after the index was
/// updated.
class ArrivingRange {
 public:
  static constexpr size_t kPartitionsMax = 8;

  /// @param anchor      the anchor of this arrival (log::PrivateSegments::openAnchor)
  /// @param partitions  1 .. kPartitionsMax, a power of two. There are so many, or a few less
  ArrivingRange(const HashRange& range, SegmentId anchor, size_t partitions = 1)
      : range_(range), shift_(shiftFor(range, partitions)), anchor_(anchor) {
    RC_CHECK(partitions <= kPartitionsMax && std::has_single_bit(partitions));
    // An entry that is not used holds a hash that belongs to another one.
    for (size_t i = 0; i < known_.size(); ++i) known_[i].store(i ^ 1, std::memory_order_relaxed);
  }

  bool has(KeyHash hash) const {
    if (!range_.contains(hash)) return false;
    const bool has_come = arrived_[partitionOf(hash)].has(offsetOf(hash)) ||
                          known_[placeOf(hash)].load(std::memory_order_acquire) == hash;
    return has_come && !lost_.has(hash);
  }
  /// The last of the hashes that have arrived without a gap from `hash` on, which is of the range. Nothing: `hash` has
  /// not come in the order of hashes.
  std::optional<KeyHash> lastFrom(KeyHash hash) const {
    std::optional<KeyHash> last;
    for (size_t i = partitionOf(hash); i < partitionCount(); ++i) {
      const HashRange part = partition(i);
      if (arrived_[i].isAll()) {
        last = part.last;
        continue;
      }
      const uint64_t arrived = arrived_[i].count.load(std::memory_order_acquire);
      if (arrived > (last ? 0 : offsetOf(hash))) last = part.first + (arrived - 1);
      break;
    }
    return last;
  }
  /// Keys that cannot arrive. has() is false for their hashes; lastFrom(), hasAll() and fraction() ignore them.
  LostKeys& lost() const { return lost_; }
  /// Whether everything has come but lost keys.
  bool hasAll() const {
    for (size_t i = 0; i < partitionCount(); ++i) {
      if (!arrived_[i].isAll()) return false;
    }
    return true;
  }
  /// True once nothing arrives any more: the other server is dead, and its log is replayed. What has not arrived is not
  /// served then.
  bool isClosed() const { return is_closed_.load(std::memory_order_acquire); }
  const HashRange& range() const { return range_; }
  size_t partitionCount() const { return partitionOf(range_.last) + 1; }
  HashRange partition(size_t index) const {
    const KeyHash first = index == 0 ? range_.first : range_.first + (uint64_t{index} << shift_);
    return {first, first + std::min(range_.last - first, offsetMask())};
  }
  /// Says up to where the other server has handed out versions. What this server writes meanwhile is above, also where
  /// it overwrites. Called once, before any thread asks.
  /// @param old_up_to  entries of this server's own in the index up to this version may be older than what has not come
  ///                   back; 0: there are none
  void setCeiling(Version ceiling, Version old_up_to) {
    ceiling_ = ceiling;
    old_up_to_ = old_up_to;
  }
  Version ceiling() const { return ceiling_; }
  /// Whether an entry of the index, whose hash has not arrived, says nothing of its key: the other server may have
  /// changed that.
  bool isOld(Version version) const { return version <= old_up_to_; }
  /// Says of which hashes the other server has, or may have, several keys. Called once, before any thread asks for
  /// them.
  void nameCrowded(CrowdedHashes::List crowded) { crowded_ = std::move(crowded); }
  /// Whether a key of a hash that has not arrived may be written here, whether it exists or not: at most one key of the
  /// hash arrives. Any thread.
  bool hasOneKeyAtMost(KeyHash hash) const {
    return !crowded_.are_all && !std::ranges::binary_search(crowded_.hashes, hash);
  }
  /// Notes a write of a key that had not arrived. Any thread that holds the stripe of the key.
  void noteEarlyWrite(KeyHash hash, std::string_view key) const {
    early_writes_.fetch_add(1, std::memory_order_relaxed);
    lost_.remove(hash, key);
  }
  /// Notes that a removed key keeps its tombstone in the index until nothing arrives any more. Any thread.
  void noteTombstone() const { keeps_tombstones_.store(true, std::memory_order_relaxed); }
  /// Whether one does. Once nobody acts on the tablet as one that arrives.
  bool keepsTombstones() const { return keeps_tombstones_.load(std::memory_order_relaxed); }
  uint64_t earlyWrites() const { return early_writes_.load(std::memory_order_relaxed); }
  /// The segment that tombstones of the tablet name besides their own.
  SegmentId anchor() const { return anchor_; }
  /// How much of the range is before the frontiers: 0 to 1.
  double fraction() const {
    double arrived = 0;
    for (size_t i = 0; i < partitionCount(); ++i) {
      const HashRange part = partition(i);
      const double hashes = static_cast<double>(part.last - part.first) + 1;
      arrived += arrived_[i].isAll() ? hashes : static_cast<double>(arrived_[i].count.load(std::memory_order_relaxed));
    }
    return arrived / (static_cast<double>(range_.last - range_.first) + 1);
  }

  /// All hashes of the partition before `next` have arrived. It is in the partition, and above the former one.
  void advance(size_t partition_index, KeyHash next) {
    RC_DCHECK(partition(partition_index).contains(next));
    RC_DCHECK(offsetOf(next) > arrived_[partition_index].count.load(std::memory_order_relaxed));
    arrived_[partition_index].count.store(offsetOf(next), std::memory_order_release);
  }
  /// All hashes of the partition have arrived.
  void finish(size_t partition_index) { arrived_[partition_index].is_all.store(true, std::memory_order_release); }
  /// A hash has arrived that was asked for. It may be forgotten for another one, as if it had not arrived.
  void noteKnown(KeyHash hash) { known_[placeOf(hash)].store(hash, std::memory_order_release); }
  void close() { is_closed_.store(true, std::memory_order_release); }

 private:
  static constexpr size_t kKnown = 4096;
  static constexpr unsigned kHashBits = 64;
  // What has arrived of a partition in the order of hashes.
  struct Arrived {
    bool isAll() const { return is_all.load(std::memory_order_acquire); }
    bool has(uint64_t offset) const { return offset < count.load(std::memory_order_acquire) || isAll(); }
    std::atomic<uint64_t> count{0};  // the hashes before the frontier
    std::atomic<bool> is_all{false};
  };
  static size_t placeOf(KeyHash hash) { return hash % kKnown; }
  // A partition has 2^shift hashes.
  static unsigned shiftFor(const HashRange& range, size_t partitions) {
    const auto hash_bits = static_cast<unsigned>(std::bit_width(range.last - range.first));
    const auto partition_bits = static_cast<unsigned>(std::bit_width(partitions) - 1);
    return hash_bits - std::min(hash_bits, partition_bits);
  }
  size_t partitionOf(KeyHash hash) const { return shift_ == kHashBits ? 0 : (hash - range_.first) >> shift_; }
  uint64_t offsetMask() const { return shift_ == kHashBits ? ~uint64_t{0} : (uint64_t{1} << shift_) - 1; }
  uint64_t offsetOf(KeyHash hash) const { return (hash - range_.first) & offsetMask(); }

  const HashRange range_;
  const unsigned shift_;
  const SegmentId anchor_;
  Version ceiling_ = 0;
  Version old_up_to_ = 0;
  std::array<Arrived, kPartitionsMax> arrived_;
  std::atomic<bool> is_closed_{false};
  CrowdedHashes::List crowded_;
  mutable LostKeys lost_;
  mutable std::atomic<uint64_t> early_writes_{0};
  mutable std::atomic<bool> keeps_tombstones_{false};
  std::array<std::atomic<KeyHash>, kKnown> known_;
};

}  // namespace ramcore::store
