#pragma once

#include <map>
#include <string>

#include "base/bytes.h"
#include "base/ids.h"

namespace ramcore::master {

/// Up to which version each key is known to be dead, while a log is replayed in any order: what its tombstones say.
///
/// A version is kept only while the index has no newer object of the key, which says the same. What is left are the
/// keys that were removed for good, and overwritten ones whose new object has not been met yet.
///
/// Memory: about 120 bytes and the key for each; at most as many as there are tombstones of the ranges that are
/// replayed. It is not part of the log's memory and goes with the recovery. One thread.
class DeadVersions {
 public:
  /// The highest version of the key that is known to be dead, or 0.
  Version of(KeyHash hash, TableId table, ByteSpan key) const {
    if (versions_.empty()) return 0;
    const auto found = versions_.find(View{hash, table, asText(key)});
    return found == versions_.end() ? 0 : found->second;
  }
  void note(KeyHash hash, TableId table, ByteSpan key, Version version) {
    const View view{hash, table, asText(key)};
    const auto at = versions_.lower_bound(view);
    if (at != versions_.end() && !Less()(view, at->first)) {
      if (at->second < version) at->second = version;
    } else {
      versions_.emplace_hint(at, Key{hash, table, std::string(view.key)}, version);
    }
  }
  /// The index holds a newer object of it.
  void forget(KeyHash hash, TableId table, ByteSpan key) {
    if (versions_.empty()) return;
    const auto found = versions_.find(View{hash, table, asText(key)});
    if (found != versions_.end()) versions_.erase(found);
  }
  size_t size() const { return versions_.size(); }

 private:
  struct Key {
    KeyHash hash;
    TableId table;
    std::string key;
  };
  struct View {
    KeyHash hash;
    TableId table;
    std::string_view key;
  };
  // By hash first: cheap, and keys of one hash, which somebody may have computed, cost no more than others.
  struct Less {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      if (a.hash != b.hash) return a.hash < b.hash;
      if (a.table != b.table) return a.table < b.table;
      return std::string_view(a.key) < std::string_view(b.key);
    }
  };
  std::map<Key, Version, Less> versions_;
};

}  // namespace ramcore::master
