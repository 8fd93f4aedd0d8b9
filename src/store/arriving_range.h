#pragma once

#include <algorithm>
#include <array>
#include <atomic>
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
/// The contents come in the order of hashes, so all hashes before the frontier have arrived; single hashes that were
/// asked for before are noted, the latest ones.
///
/// has(), isClosed() and hasOneKeyAtMost(): any thread, a few loads; has() takes a lock while keys are lost. A thread
/// that looks at the index asks before that: if a hash has arrived, the look finds what there is. The other functions:
/// one thread at a time, after the index was updated.
class ArrivingRange {
 public:
  /// @param anchor  the anchor of this arrival (log::PrivateSegments::openAnchor)
  ArrivingRange(const HashRange& range, SegmentId anchor) : range_(range), anchor_(anchor), frontier_(range.first) {
    // An entry that is not used holds a hash that belongs to another one.
    for (size_t i = 0; i < known_.size(); ++i) known_[i].store(i ^ 1, std::memory_order_relaxed);
  }

  bool has(KeyHash hash) const {
    const bool has_come = hash < frontier_.load(std::memory_order_acquire) || hasAll() ||
                          known_[placeOf(hash)].load(std::memory_order_acquire) == hash;
    return has_come && !lost_.has(hash);
  }
  /// Keys that cannot arrive. has() is false for their hashes; frontier(), hasAll() and fraction() ignore them.
  LostKeys& lost() const { return lost_; }
  /// Whether everything has come but lost keys.
  bool hasAll() const { return has_all_.load(std::memory_order_acquire); }
  /// True once nothing arrives any more: the other server is dead, and its log is replayed. What has not arrived is not
  /// served then.
  bool isClosed() const { return is_closed_.load(std::memory_order_acquire); }
  /// The first hash that has not arrived, if not all have.
  KeyHash frontier() const { return frontier_.load(std::memory_order_acquire); }
  const HashRange& range() const { return range_; }
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
  uint64_t earlyWrites() const { return early_writes_.load(std::memory_order_relaxed); }
  /// The segment that tombstones of the tablet name besides their own.
  SegmentId anchor() const { return anchor_; }
  /// How much of the range is before the frontier: 0 to 1.
  double fraction() const {
    if (hasAll()) return 1;
    const double hashes = static_cast<double>(range_.last - range_.first) + 1;
    return static_cast<double>(frontier_.load(std::memory_order_relaxed) - range_.first) / hashes;
  }

  /// All hashes before `next` have arrived. It is in the range, and above the former one.
  void advance(KeyHash next) {
    RC_DCHECK(range_.contains(next) && next > frontier_.load(std::memory_order_relaxed));
    frontier_.store(next, std::memory_order_release);
  }
  void noteAll() { has_all_.store(true, std::memory_order_release); }
  /// A hash has arrived that was asked for. It may be forgotten for another one, as if it had not arrived.
  void noteKnown(KeyHash hash) { known_[placeOf(hash)].store(hash, std::memory_order_release); }
  void close() { is_closed_.store(true, std::memory_order_release); }

 private:
  static constexpr size_t kKnown = 4096;
  static size_t placeOf(KeyHash hash) { return hash % kKnown; }

  const HashRange range_;
  const SegmentId anchor_;
  std::atomic<KeyHash> frontier_;
  std::atomic<bool> has_all_{false};
  std::atomic<bool> is_closed_{false};
  CrowdedHashes::List crowded_;
  mutable LostKeys lost_;
  mutable std::atomic<uint64_t> early_writes_{0};
  std::array<std::atomic<KeyHash>, kKnown> known_;
};

}  // namespace ramcore::store
