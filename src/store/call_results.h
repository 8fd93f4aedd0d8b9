#pragma once

#include <algorithm>
#include <boost/circular_buffer.hpp>
#include <cstddef>
#include <utility>

#include "base/ids.h"

namespace ramcore::store {

/// The results of the calls of one client, in the order of their sequence numbers. Calls begin nearly in that order and
/// are acknowledged from the front, so the results lie in a ring: it takes memory when there are more results than it
/// has room for, and gives some back when there are few, but takes none for each call.
/// @tparam Stored  copied and moved without failing
template <typename Stored>
class CallResults {
 public:
  using One = std::pair<Sequence, Stored>;
  using iterator = typename boost::circular_buffer<One>::iterator;

  size_t size() const { return ring_.size(); }
  bool empty() const { return ring_.empty(); }
  auto begin() { return ring_.begin(); }
  auto end() { return ring_.end(); }
  auto begin() const { return ring_.begin(); }
  auto end() const { return ring_.end(); }

  /// nullptr: there is no result of this call. Valid until a result is added or removed.
  Stored* find(Sequence sequence) { return found(*this, sequence); }
  const Stored* find(Sequence sequence) const { return found(*this, sequence); }
  /// Keeps `stored`, unless there is a result of this call already. Returns the result that is kept, and whether it is
  /// `stored`.
  std::pair<Stored*, bool> emplace(Sequence sequence, const Stored& stored) {
    auto at = lowerBound(*this, sequence);
    if (at != end() && at->first == sequence) return {&at->second, false};
    if (ring_.full()) {
      const auto number = at - begin();
      ring_.set_capacity(std::max(kFew, ring_.capacity() * 2));
      at = begin() + number;
    }
    at = ring_.insert(at, One{sequence, stored});
    return {&at->second, true};
  }
  /// Removes all results up to `sequence`, and calls `last` with each of them.
  template <typename Last>
  void eraseUpTo(Sequence sequence, const Last& last) {
    size_t count = 0;
    for (; count < ring_.size() && ring_[count].first <= sequence; ++count) last(ring_[count].second);
    ring_.erase_begin(count);
    shrink();
  }
  /// Removes the results for which `goes` is true.
  template <typename Goes>
  void eraseIf(const Goes& goes) {
    const auto left = std::remove_if(begin(), end(), [&](One& one) { return goes(one.second); });
    ring_.erase(left, end());
    shrink();
  }
  void erase(Sequence sequence) {
    const auto at = lowerBound(*this, sequence);
    if (at != end() && at->first == sequence) ring_.erase(at);
  }

 private:
  static constexpr size_t kFew = 8;
  static constexpr size_t kMany = 64;

  template <typename Self>
  static auto lowerBound(Self& self, Sequence sequence) {
    // Most calls are younger than all that are kept.
    if (!self.empty() && self.ring_.back().first < sequence) return self.end();
    return std::lower_bound(self.begin(), self.end(), sequence,
                            [](const One& one, Sequence wanted) { return one.first < wanted; });
  }
  template <typename Self>
  static auto found(Self& self, Sequence sequence) -> decltype(&self.ring_.front().second) {
    const auto at = lowerBound(self, sequence);
    return at != self.end() && at->first == sequence ? &at->second : nullptr;
  }
  // The ring shrinks to half, of which at most a quarter is in use: many more calls fit before it has to grow again.
  void shrink() {
    if (ring_.capacity() > kMany && ring_.size() < ring_.capacity() / 8) ring_.set_capacity(ring_.capacity() / 2);
  }

  boost::circular_buffer<One> ring_;
};

}  // namespace ramcore::store
