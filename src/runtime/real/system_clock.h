#pragma once

#include "runtime/clock.h"
#include "runtime/random.h"

namespace ramcore::runtime {

/// The machine's clocks: CLOCK_BOOTTIME, which runs through suspend, and CLOCK_REALTIME. Any thread.
class SystemClock final : public Clock {
 public:
  int64_t nowNs() override;
  uint64_t ticks() override;
  int64_t wallNs() override;
};

/// getrandom(2). Any thread.
class SystemEntropy final : public Entropy {
 public:
  void fill(MutableByteSpan out) override;
};

}  // namespace ramcore::runtime
