#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "transport/message.h"

namespace ramcore::transport::verbs {

/// The announced requests of one endpoint for which there is no memory, in the order in which they came, those of
/// clients behind the others. Strictly in this order: if shorter requests that find memory went first, the first one
/// could wait for ever. All times are nanoseconds. One thread.
class WaitingReads {
 public:
  struct Read {
    SessionId session;
    uint16_t slot = 0;
    bool is_bounded = false;  ///< a client's
    /// Since when no memory can be registered for it, while it is the first.
    std::optional<int64_t> refused_since_ns = std::nullopt;
  };

  bool empty() const { return reads_.empty(); }
  /// REQUIRES: not empty().
  Read& first() { return reads_.front(); }

  void add(SessionId session, uint16_t slot, bool is_bounded, int64_t now_ns) {
    if (reads_.empty()) since_ns_ = now_ns;
    const auto behind = is_bounded ? reads_.end() : std::ranges::find_if(reads_, &Read::is_bounded);
    reads_.insert(behind, Read{.session = session, .slot = slot, .is_bounded = is_bounded});
  }
  /// Removes the first one, which has its memory or needs none any more. REQUIRES: not empty().
  void removeFirst(int64_t now_ns) {
    reads_.pop_front();
    since_ns_ = now_ns;
  }
  /// Removes the reads of a session that ends, at once and not only when it is their turn: otherwise peers that come
  /// and go would let the list grow.
  void forget(SessionId session) {
    if (reads_.empty()) return;
    std::erase_if(reads_, [&](const Read& read) { return read.session == session; });
  }

  /// Whether the first one has waited for `patience_ns`. If so, its time begins anew.
  bool isOverdue(int64_t now_ns, int64_t patience_ns) {
    if (reads_.empty() || now_ns - since_ns_ < patience_ns) return false;
    since_ns_ = now_ns;
    return true;
  }

 private:
  std::deque<Read> reads_;
  int64_t since_ns_ = 0;  // since when the first one waits
};

}  // namespace ramcore::transport::verbs
