#include "log/live_limit.h"

#include <algorithm>

#include "base/mutation.h"

namespace ramcore::log {

LiveLimit::LiveLimit(const SegmentPool& pool, const LogStats& stats)
    : pool_(pool),
      stats_(stats),
      least_live_bytes_max_(
          pool.config().liveBytesMax(1, pool.config().survivorReserveBytes(pool.config().segmentSlots()))) {}

bool LiveLimit::isBelowMax(int64_t live_bytes) const {
  if (RC_MUTATION("write-beyond-the-limit")) return true;
  return live_bytes <= static_cast<int64_t>(liveBytesMax());
}

uint64_t LiveLimit::liveBytesMax() const {
  const auto live = static_cast<double>(std::max<int64_t>(1, stats_.live_bytes.load(std::memory_order_relaxed)));
  const auto large = static_cast<double>(stats_.large_bytes.load(std::memory_order_relaxed));
  return pool_.config().liveBytesMax(std::clamp(large / live, 0.0, 1.0), pool_.survivorReserveBytes());
}

int64_t LiveLimit::deathsBytes() const {
  return static_cast<int64_t>(stats_.appended_bytes.load(std::memory_order_relaxed)) -
         stats_.live_bytes.load(std::memory_order_relaxed);
}

void LiveLimit::noteCollectable(bool is_collectable) {
  nothing_collectable_at_.store(is_collectable ? kCollectable : deathsBytes(), std::memory_order_relaxed);
}

bool LiveLimit::gainsNothing() const {
  const int64_t at = nothing_collectable_at_.load(std::memory_order_relaxed);
  if (at == kCollectable || deathsBytes() - at >= int64_t{pool_.config().seglet_bytes}) return false;
  return !pool_.mayHaveRoom(SegmentKind::Head);
}

}  // namespace ramcore::log
