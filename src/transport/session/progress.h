#pragma once

#include <cstdint>

namespace ramcore::transport {

/// Since when a peer has not got on. A byte now and then is no progress: it has to move kProgressBytesMin from where it
/// was, so that whoever is given up after some time without progress cannot hold memory for ever by trickling.
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

/// A session that has sent the beginning of a message.
struct Reception {
  bool is_going_on = false;  ///< it is in the endpoint's list of such sessions
  uint64_t message_count = 0;
  Progress progress;
};

}  // namespace ramcore::transport
