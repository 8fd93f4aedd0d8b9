#include "log/cleaning/shortage.h"

#include <algorithm>

#include "log/cleaning/cleaner_policy.h"

namespace ramcore::log {

bool Shortage::lacksMemory() const {
  const SegmentPool& pool = log_.pool();
  const LogConfig& config = log_.config();
  if (pool.freeBytesForHeads() < config.cleanBelowFreeBytes()) return true;
  // Free memory may have fallen into pieces, and slots may be short, however much there is.
  if (!findsHead() || pool.isShortOfSlots()) return true;
  return isNearLimit(1);
}

bool Shortage::findsHead() const {
  return log_.pool().mayHaveRoom(SegmentKind::Head) && !replicator_.isShortOfPlaces();
}

bool Shortage::isStorageScarce() const { return replicator_.storagePercent() >= kStoragePercentScarce; }

bool Shortage::mayMissPlaces() const { return replicator_.isShortOfPlaces() || isStorageScarce(); }

bool Shortage::hasTooMany() const {
  if (log_.pool().isShortOfSlots() || replicator_.isShortOfPlaces()) return true;
  return isStorageScarce() && !lacksMemory();
}

/// Whether writes are about to be refused although tombstones could go, together with the entries that they keep dead.
/// @param part  1: within the usual distance of the limit; 2: within half of that distance
bool Shortage::isNearLimit(int64_t part) const {
  const LogStats& stats = log_.stats();
  const auto limit = static_cast<int64_t>(log_.limit().liveBytesMax());
  const int64_t succeeded = stats.succeeded_bytes.load(std::memory_order_relaxed);
  const int64_t segment_bytes = log_.config().segment_bytes;
  // The distance is short: as long as there is free memory, more dies if one waits.
  const int64_t distance = std::max(segment_bytes / 2, limit / 256) / part;
  return stats.live_bytes.load(std::memory_order_relaxed) + succeeded > limit - distance &&
         stats.tombstone_bytes.load(std::memory_order_relaxed) + succeeded > segment_bytes;
}

bool Shortage::isUrgent() const {
  const SegmentPool& pool = log_.pool();
  return pool.freeBytesForHeads() < log_.config().cleanBelowFreeBytes() / 2 || !findsHead() || isNearLimit(2);
}

}  // namespace ramcore::log
