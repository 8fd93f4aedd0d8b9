#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "runtime/clock.h"

namespace ramcore::transport::datagram {

/// The retransmission timeout: how long to wait for a sign of a packet before it is sent again. It is the smoothed
/// round trip plus four times its deviation (Jacobson, Karels 1988), doubled with each try. Only a packet that was sent
/// once can be measured (Karn 1987).
class RoundTrip {
 public:
  static constexpr int64_t kFirstNs = 10 * runtime::kNanosPerMilli;
  /// With a shorter timeout, a thread that has just lost its processor would be taken for a loss.
  static constexpr int64_t kLeastNs = 2 * runtime::kNanosPerMilli;
  static constexpr int64_t kMostNs = 200 * runtime::kNanosPerMilli;

  void note(int64_t sample_ns) {
    // A sample may be 0: the trip ended before the clock was read again.
    if (!std::exchange(has_sample_, true)) {
      smoothed_ns_ = sample_ns;
      deviation_ns_ = sample_ns / 2;
      return;
    }
    const int64_t error_ns = sample_ns - smoothed_ns_;
    smoothed_ns_ += error_ns / 8;
    deviation_ns_ += ((error_ns < 0 ? -error_ns : error_ns) - deviation_ns_) / 4;
  }
  bool hasSample() const { return has_sample_; }
  int64_t smoothedNs() const { return smoothed_ns_; }
  /// The timeout of the try that follows `tries` unsuccessful ones.
  int64_t timeoutNs(uint8_t tries) const {
    const int64_t once_ns = !has_sample_ ? kFirstNs : std::clamp(smoothed_ns_ + 4 * deviation_ns_, kLeastNs, kMostNs);
    return std::min(once_ns << std::min<uint8_t>(tries, 7), kMostNs);
  }

 private:
  bool has_sample_ = false;
  int64_t smoothed_ns_ = 0;
  int64_t deviation_ns_ = 0;
};

}  // namespace ramcore::transport::datagram
