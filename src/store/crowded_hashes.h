#pragma once

#include <set>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/spin_lock.h"

namespace ramcore::store {

/// The key hashes of which this server has, or has had, more than one key. Chance gives hardly any, but such keys can
/// be computed. The next owner of a tablet has to know them: it takes new keys before it has those that are here, and
/// keys of one hash may not become too many (ObjectStore::kKeysPerHashMax).
///
/// Any thread; the lock is a leaf that is taken inside a key's stripe, only when a key joins others.
class CrowdedHashes {
 public:
  /// If more are added, list() says that any hash may have several keys.
  static constexpr size_t kMost = 1024;

  /// Hashes of a part of a table, ascending.
  struct List {
    bool are_all = false;  ///< there are too many to list: any hash may have several keys
    std::vector<KeyHash> hashes;
  };

  void add(TableId table, KeyHash hash) {
    SpinGuard guard(lock_);
    if (hashes_.size() < kMost || hashes_.contains({table, hash})) {
      hashes_.emplace(table, hash);
    } else {
      are_all_ = true;
    }
  }
  List list(TableId table, const HashRange& range) const {
    List found;
    SpinGuard guard(lock_);
    found.are_all = are_all_;
    if (are_all_) return found;
    const auto end = hashes_.upper_bound({table, range.last});
    for (auto at = hashes_.lower_bound({table, range.first}); at != end; ++at) found.hashes.push_back(at->second);
    return found;
  }

 private:
  mutable SpinLock lock_;
  std::set<std::pair<TableId, KeyHash>> hashes_ RC_GUARDED_BY(lock_);
  bool are_all_ RC_GUARDED_BY(lock_) = false;
};

}  // namespace ramcore::store
