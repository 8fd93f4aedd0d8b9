#pragma once

#include <sched.h>

#include "runtime/clock.h"

namespace ramcore::rpc {

/// Tells a thread that polls whether it has a core to itself. On a shared one polling delays the very thread that would
/// send the next message: whoever waits there sleeps instead, and the scheduler runs it soon after it is woken.
/// Thread: the polling one.
class CrowdGauge {
 public:
  explicit CrowdGauge(runtime::Clock& clock) : clock_(clock) {}

  /// Lets others run first, if somebody wants to. Some 0.3 us if nobody does.
  /// @param now_ns  the time before
  void yield(int64_t now_ns) {
    sched_yield();
    const int64_t back_ns = clock_.nowNs();
    if (back_ns - now_ns > kAwayNs) crowded_until_ns_ = back_ns + kCrowdedNs;
  }
  /// Somebody else ran on this core when it was offered lately. Looks at the clock only as long as that may be so.
  bool isCrowded() {
    if (crowded_until_ns_ == 0) [[likely]]
      return false;
    if (clock_.nowNs() < crowded_until_ns_) return true;
    crowded_until_ns_ = 0;
    return false;
  }

 private:
  // Two switches of threads and what the other one did; nobody there takes a tenth of it.
  static constexpr int64_t kAwayNs = 4 * runtime::kNanosPerMicro;
  // Long against a request, so that the core is offered seldom; short against what people call a pause.
  static constexpr int64_t kCrowdedNs = 2 * runtime::kNanosPerMilli;

  runtime::Clock& clock_;
  int64_t crowded_until_ns_ = 0;
};

}  // namespace ramcore::rpc
