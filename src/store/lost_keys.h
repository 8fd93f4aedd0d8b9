#pragma once

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/spin_lock.h"

namespace ramcore::store {

/// Keys of a tablet that cannot arrive, because the memory of the server that has them is damaged and no replica could
/// be read. They are neither absent nor known, until somebody overwrites them or they are restored there.
///
/// Any thread; the lock is a leaf. Costs one load as long as there are none.
class LostKeys {
 public:
  /// More are not kept.
  static constexpr size_t kMost = 4096;
  using Key = std::pair<KeyHash, std::string>;

  bool isEmpty() const { return count_.load(std::memory_order_acquire) == 0; }
  size_t size() const { return count_.load(std::memory_order_acquire); }
  /// Whether a key of this hash is lost.
  bool has(KeyHash hash) const { return hasAny({hash, hash}); }
  bool has(KeyHash hash, std::string_view key) const {
    if (isEmpty()) return false;
    SpinGuard guard(lock_);
    return keys_.contains({hash, std::string(key)});
  }
  bool hasAny(const HashRange& range) const {
    if (isEmpty()) return false;
    SpinGuard guard(lock_);
    const auto first = keys_.lower_bound({range.first, {}});
    return first != keys_.end() && first->first <= range.last;
  }
  /// Up to `count_max` of the hashes above `after`, ascending; with `after` none, the first ones.
  std::vector<KeyHash> hashesAfter(std::optional<KeyHash> after, size_t count_max) const {
    std::vector<KeyHash> hashes;
    SpinGuard guard(lock_);
    for (const Key& key : keys_) {
      if (hashes.size() == count_max) break;
      const bool is_next = (!after || key.first > *after) && (hashes.empty() || hashes.back() != key.first);
      if (is_next) hashes.push_back(key.first);
    }
    return hashes;
  }

  /// @return false: there are too many
  bool add(KeyHash hash, std::string_view key) {
    SpinGuard guard(lock_);
    if (keys_.size() >= kMost && !keys_.contains({hash, std::string(key)})) return false;
    keys_.emplace(hash, key);
    count_.store(keys_.size(), std::memory_order_release);
    return true;
  }
  void remove(KeyHash hash, std::string_view key) {
    if (isEmpty()) return;
    SpinGuard guard(lock_);
    keys_.erase({hash, std::string(key)});
    count_.store(keys_.size(), std::memory_order_release);
  }
  /// Forgets the keys with these hashes (ascending) that are not in `still`.
  void keep(const std::vector<KeyHash>& hashes, const std::vector<Key>& still) {
    if (isEmpty()) return;
    SpinGuard guard(lock_);
    std::erase_if(keys_, [&](const Key& key) {
      return std::ranges::binary_search(hashes, key.first) && std::ranges::find(still, key) == still.end();
    });
    count_.store(keys_.size(), std::memory_order_release);
  }

 private:
  mutable SpinLock lock_;
  std::set<Key> keys_ RC_GUARDED_BY(lock_);
  std::atomic<size_t> count_{0};
};

}  // namespace ramcore::store
