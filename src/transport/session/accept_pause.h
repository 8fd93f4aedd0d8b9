#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cstdint>

#include "runtime/clock.h"
#include "transport/os/descriptor.h"

namespace ramcore::transport {

/// A descriptor to give up for a moment when no other is left, so that a connection can be refused. None: it is not
/// left either.
inline Descriptor openSpare() { return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

/// When a listener looks again after it found no descriptor for a connection. Until one comes free every look would be
/// in vain, and those who were refused come back at once: so each pause is twice as long as the one before. What waits
/// in the kernel's queue meanwhile is taken as soon as there is a descriptor at the end of a pause.
class AcceptPause {
 public:
  static constexpr int64_t kLeastNs = 10 * runtime::kNanosPerMilli;
  /// So much later than a descriptor came free somebody gets in, at most.
  static constexpr int64_t kLongestNs = 160 * runtime::kNanosPerMilli;
  /// Connections that are refused before each pause. Without a bound those who come back would keep the thread busy.
  static constexpr int kRefusalsMax = 32;

  void begin(int64_t now_ns) {
    pause_ns_ = std::clamp(2 * pause_ns_, kLeastNs, kLongestNs);
    until_ns_ = now_ns + pause_ns_;
  }
  /// True while nothing is to be accepted; ends the pause if it is over.
  bool lasts(int64_t now_ns) {
    if (now_ns < until_ns_) return true;
    until_ns_ = kNone;
    return false;
  }
  /// A connection was taken, or none waits: the next pause is a short one again.
  void forget() { pause_ns_ = 0; }

  bool isOn() const { return until_ns_ != kNone; }
  int64_t untilNs() const { return isOn() ? until_ns_ : runtime::kNever; }

 private:
  static constexpr int64_t kNone = INT64_MIN;
  int64_t pause_ns_ = 0;
  int64_t until_ns_ = kNone;
};

}  // namespace ramcore::transport
