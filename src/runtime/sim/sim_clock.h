#pragma once

#include <cstdint>

#include "runtime/clock.h"
#include "runtime/sim/sim_scheduler.h"

namespace ramcore::runtime {

/// The clocks of one simulated machine: they start at any time and run a little too fast or too slow, by the seed.
class SimClock final : public Clock {
 public:
  /// Largest deviation of a rate: two clocks then differ by less than 5 % in rate, which is what leases allow for.
  static constexpr int64_t kDriftPpmMax = 24'000;

  struct Options {
    int64_t offset_ns_max = 1'000 * kNanosPerSecond;   ///< bound of the steady clock's random start
    int64_t wall_error_ns_max = 30 * kNanosPerSecond;  ///< bound of the wall clock's error, to either side
    int64_t drift_ppm_max = kDriftPpmMax;              ///< deviation of the rate, 0..kDriftPpmMax, to either side
  };

  /// Draws offsets and rate from the stream "clock.<name>". The scheduler outlives the clock.
  SimClock(const SimScheduler& scheduler, std::string_view name, const Options& options);

  int64_t nowNs() override;
  int64_t wallNs() override;

  /// The first simulated time at which `nowNs` shows `local_ns` or more; kNever for kNever.
  int64_t simTimeOf(int64_t local_ns) const;
  /// Moves the wall clock by `by_ns`, as an administrator or a time server does. The steady clock stays.
  void jumpWall(int64_t by_ns) { wall_offset_ns_ += by_ns; }

 private:
  const SimScheduler& scheduler_;
  int64_t drift_ppm_ = 0;
  int64_t offset_ns_ = 0;
  int64_t wall_offset_ns_ = 0;
};

}  // namespace ramcore::runtime
