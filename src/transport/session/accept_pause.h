#pragma once

#include <fcntl.h>

#include <cstdint>

#include "runtime/clock.h"
#include "runtime/growing_pause.h"
#include "transport/os/descriptor.h"

namespace ramcore::transport {

/// Opens a spare descriptor. It is given up for a moment when no other is left, so that a connection can be refused.
/// Returns an empty one if the spare one cannot be opened either.
inline Descriptor openSpare() { return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

/// Decides when a listener accepts again after it found no descriptor for a connection. Until a descriptor comes free
/// every attempt would be in vain, and refused peers come back at once, so each pause is twice as long as the one
/// before. Connections that wait in the kernel's queue meanwhile are accepted as soon as there is a descriptor at the
/// end of a pause.
class AcceptPause {
 public:
  static constexpr int64_t kLeastNs = 10 * runtime::kNanosPerMilli;
  /// The longest pause. A connection is accepted at most this long after a descriptor has come free.
  static constexpr int64_t kLongestNs = 160 * runtime::kNanosPerMilli;
  /// Maximum number of connections that are refused before each pause. Without a bound, refused peers that come back
  /// would keep the thread busy.
  static constexpr int kRefusalsMax = 32;

  void begin(int64_t now_ns) { until_ns_ = now_ns + pause_.nextNs(); }
  /// True while nothing is to be accepted; ends the pause if it is over.
  bool lasts(int64_t now_ns) {
    if (now_ns < until_ns_) return true;
    until_ns_ = kNone;
    return false;
  }
  /// To be called when a connection was taken, or none waits: the next pause is a short one again.
  void forget() { pause_.restart(); }

  bool isOn() const { return until_ns_ != kNone; }
  int64_t untilNs() const { return isOn() ? until_ns_ : runtime::kNever; }

 private:
  static constexpr int64_t kNone = INT64_MIN;
  runtime::DoublingPause pause_{kLeastNs, kLongestNs};
  int64_t until_ns_ = kNone;
};

}  // namespace ramcore::transport
