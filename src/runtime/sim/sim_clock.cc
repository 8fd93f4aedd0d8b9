#include "runtime/sim/sim_clock.h"

#include <string>

#include "base/check.h"

namespace ramcore::runtime {
namespace {

constexpr int64_t kMillion = 1'000'000;
// Up to this time a product of time and rate fits into 64 bits. With 128 bits each event would cost a division in
// software.
constexpr int64_t kShortNs = 2'000 * kNanosPerSecond;
constexpr int64_t kWallStartNs = 1'700'000'000LL * kNanosPerSecond;

int64_t drawAround0(Random& random, int64_t magnitude_max) {
  return static_cast<int64_t>(random.below(2 * static_cast<uint64_t>(magnitude_max) + 1)) - magnitude_max;
}

}  // namespace

SimClock::SimClock(const SimScheduler& scheduler, std::string_view name, const Options& options)
    : scheduler_(scheduler) {
  RC_CHECK(options.drift_ppm_max >= 0 && options.drift_ppm_max <= kDriftPpmMax);
  Random random = scheduler.stream("clock." + std::string(name));
  drift_ppm_ = drawAround0(random, options.drift_ppm_max);
  offset_ns_ = kNanosPerSecond + static_cast<int64_t>(random.below(static_cast<uint64_t>(options.offset_ns_max) + 1));
  wall_offset_ns_ = kWallStartNs + drawAround0(random, options.wall_error_ns_max);
}

int64_t SimClock::nowNs() {
  const int64_t time_ns = scheduler_.nowNs();
  if (time_ns < kShortNs) return offset_ns_ + time_ns * (kMillion + drift_ppm_) / kMillion;
  return offset_ns_ + static_cast<int64_t>(static_cast<__int128>(time_ns) * (kMillion + drift_ppm_) / kMillion);
}

int64_t SimClock::wallNs() { return wall_offset_ns_ + (nowNs() - offset_ns_); }

int64_t SimClock::simTimeOf(int64_t local_ns) const {
  if (local_ns == kNever) return kNever;
  if (local_ns <= offset_ns_) return 0;
  const int64_t rate = kMillion + drift_ppm_;
  if (local_ns - offset_ns_ < kShortNs) return ((local_ns - offset_ns_) * kMillion + rate - 1) / rate;
  const __int128 scaled = static_cast<__int128>(local_ns - offset_ns_) * kMillion;
  const __int128 time = (scaled + rate - 1) / rate;
  return time >= kNever ? kNever : static_cast<int64_t>(time);
}

}  // namespace ramcore::runtime
