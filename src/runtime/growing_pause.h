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

/// The pauses of a caller that fails, or is refused, again and again: each is twice as long as the one before, up to
/// the longest. The present pause may also be a bound that a pause is drawn from, for callers that were refused
/// together with many others and are not to come back together.
class DoublingPause {
 public:
  constexpr DoublingPause(int64_t first_ns, int64_t longest_ns) : first_ns_(first_ns), longest_ns_(longest_ns) {}

  int64_t nextNs() {
    bound_ns_ = bound_ns_ == 0 ? first_ns_ : std::min(2 * bound_ns_, longest_ns_);
    return bound_ns_;
  }
  /// Drawn from [half, whole] of what nextNs() gives. One draw.
  int64_t nextNs(Random& random) {
    const auto bound_ns = static_cast<uint64_t>(nextNs());
    return static_cast<int64_t>(random.between(bound_ns / 2, bound_ns));
  }
  /// The caller did not fail: the next pause is the first again.
  void restart() { bound_ns_ = 0; }

 private:
  int64_t first_ns_;
  int64_t longest_ns_;
  int64_t bound_ns_ = 0;
};

}  // namespace ramcore::runtime
