#include "log/live_limit.h"

#include <algorithm>

#include "base/check.h"
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

bool LiveLimit::hold(uint64_t bytes, uint64_t large_bytes) {
  RC_CHECK(bytes <= kHeldBytesMax && large_bytes <= bytes);
  const auto added = static_cast<int64_t>(bytes);
  const auto added_large = static_cast<int64_t>(large_bytes);
  // Held first, so that two that ask at the same time do not both get the same room.
  const int64_t live = stats_.live_bytes.load(std::memory_order_relaxed) +
                       stats_.succeeded_bytes.load(std::memory_order_relaxed) +
                       held_bytes_.fetch_add(added, std::memory_order_relaxed) + added;
  const int64_t large = stats_.large_bytes.load(std::memory_order_relaxed) +
                        held_large_bytes_.fetch_add(added_large, std::memory_order_relaxed) + added_large;
  const double share = static_cast<double>(large) / static_cast<double>(std::max<int64_t>(1, live));
  const uint64_t most = pool_.config().liveBytesMax(std::clamp(share, 0.0, 1.0), pool_.survivorReserveBytes());
  if (live <= static_cast<int64_t>(most)) return true;
  release(bytes, large_bytes);
  return false;
}

void LiveLimit::release(uint64_t bytes, uint64_t large_bytes) {
  held_bytes_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  held_large_bytes_.fetch_sub(static_cast<int64_t>(large_bytes), std::memory_order_relaxed);
}

uint64_t LiveLimit::roomBytes() const {
  const int64_t used = stats_.live_bytes.load(std::memory_order_relaxed) +
                       stats_.succeeded_bytes.load(std::memory_order_relaxed) +
                       held_bytes_.load(std::memory_order_relaxed);
  return static_cast<uint64_t>(std::max<int64_t>(0, static_cast<int64_t>(liveBytesMax()) - used));
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
