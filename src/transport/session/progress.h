#pragma once

#include <cstdint>

namespace ramcore::transport {

/// Measures since when a peer has made no progress. A byte now and then is not progress: the position has to move by
/// kProgressBytesMin. So a peer that is given up after some time without progress cannot hold memory for ever by
/// sending or taking a few bytes at a time.
class Progress {
 public:
  static constexpr uint64_t kProgressBytesMin = 64 * 1024;

  /// @param position  bytes that it has taken or sent so far.
  void begin(int64_t now_ns, uint64_t position) {
    since_ns_ = now_ns;
    position_ = position;
  }
  void note(int64_t now_ns, uint64_t position) {
    if (position - position_ >= kProgressBytesMin) begin(now_ns, position);
  }
  int64_t sinceNs() const { return since_ns_; }

 private:
  int64_t since_ns_ = 0;
  uint64_t position_ = 0;
};

/// The reception of a message of which only the beginning has come from the peer of a session.
struct Reception {
  bool is_going_on = false;  ///< the session is in the endpoint's list of such sessions
  uint64_t message_count = 0;
  Progress progress;
};

}  // namespace ramcore::transport
