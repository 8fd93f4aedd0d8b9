#include "master/migration/pull_pace.h"

#include <algorithm>

#include "runtime/clock.h"

namespace ramcore::master {
namespace {

// A slice has what comes in this part of a second at the most, and at least so many bytes.
constexpr uint64_t kSlicesPerSecond = 20;
constexpr uint32_t kSliceBytesLeast = 4 * 1024;

int64_t durationNs(uint64_t bytes, uint64_t rate) {
  return static_cast<int64_t>(static_cast<double>(bytes) / static_cast<double>(rate) *
                              static_cast<double>(runtime::kNanosPerSecond));
}

}  // namespace

void PullPace::set(TabletId tablet, uint64_t rate_max) {
  // Told again and again, and nearly always the same.
  if (rate_max == 0 && rate_.load(std::memory_order_relaxed) == 0) return;
  SpinGuard guard(lock_);
  if (rate_max == 0) {
    rates_.erase(tablet);
  } else {
    rates_[tablet] = rate_max;
  }
  uint64_t lowest = 0;
  for (const auto& [id, rate] : rates_) lowest = lowest == 0 ? rate : std::min(lowest, rate);
  if (lowest == rate_.load(std::memory_order_relaxed)) return;
  rate_.store(lowest, std::memory_order_relaxed);
  changes_.fetch_add(1, std::memory_order_relaxed);
  free_ns_ = 0;
}

uint32_t PullPace::slice(uint32_t bytes) const {
  const uint64_t rate = rate_.load(std::memory_order_relaxed);
  if (rate == 0) return bytes;
  return std::min(
      bytes, std::max(static_cast<uint32_t>(std::min<uint64_t>(rate / kSlicesPerSecond, bytes)), kSliceBytesLeast));
}

PullPace::Place PullPace::reserve(uint64_t bytes, int64_t now_ns) {
  if (rate_.load(std::memory_order_relaxed) == 0) {
    return {.begin_ns = now_ns, .changes = changes_.load(std::memory_order_relaxed)};
  }
  SpinGuard guard(lock_);
  const uint64_t rate = rate_.load(std::memory_order_relaxed);
  const Place place{.begin_ns = std::max(free_ns_, now_ns), .changes = changes_.load(std::memory_order_relaxed)};
  if (rate != 0) free_ns_ = place.begin_ns + durationNs(bytes, rate);
  return place;
}

void PullPace::giveBack(const Place& place, uint64_t bytes) {
  if (rate_.load(std::memory_order_relaxed) == 0) return;
  SpinGuard guard(lock_);
  const uint64_t rate = rate_.load(std::memory_order_relaxed);
  if (rate != 0 && isValid(place)) free_ns_ -= durationNs(bytes, rate);
}

}  // namespace ramcore::master
