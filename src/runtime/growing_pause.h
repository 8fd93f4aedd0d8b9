#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/random.h"

namespace ramcore::runtime {

/// The pauses of a loop that looks again and again whether something has happened: each pause is an eighth of what was
/// waited so far, within bounds. Looking then costs little however long it takes, and notices the end only a little
/// late.
class GrowingPause {
 public:
  constexpr GrowingPause(int64_t least_ns, int64_t longest_ns) : least_ns_(least_ns), longest_ns_(longest_ns) {}

  int64_t nextNs() {
    const int64_t pause_ns = std::clamp(waited_ns_ / 8, least_ns_, longest_ns_);
    waited_ns_ += pause_ns;
    return pause_ns;
  }

 private:
  int64_t least_ns_;
  int64_t longest_ns_;
  int64_t waited_ns_ = 0;
};

/// The pauses of a caller that is refused again and again, as many others may be at the same time: each is drawn from
/// [half, whole] of a bound that doubles, so that callers that were refused together do not come back together.
class DrawnPause {
 public:
  constexpr DrawnPause(int64_t least_ns, int64_t longest_ns) : least_ns_(least_ns), longest_ns_(longest_ns) {}

  int64_t nextNs(Random& random) {
    bound_ns_ = std::clamp(bound_ns_ * 2, least_ns_, longest_ns_);
    return static_cast<int64_t>(random.between(static_cast<uint64_t>(bound_ns_) / 2, static_cast<uint64_t>(bound_ns_)));
  }
  /// The caller was not refused: the next pause is a short one again.
  void restart() { bound_ns_ = 0; }

 private:
  int64_t least_ns_;
  int64_t longest_ns_;
  int64_t bound_ns_ = 0;
};

}  // namespace ramcore::runtime
