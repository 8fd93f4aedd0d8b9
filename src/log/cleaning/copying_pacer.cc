#include "log/cleaning/copying_pacer.h"

#include <algorithm>

#include "log/cleaning/cleaner_policy.h"

namespace ramcore::log {

uint32_t CopyingPacer::copyingDue(const SharedCopy& copying, uint32_t slice_bytes_min, uint32_t slice_bytes_max) {
  const uint64_t appended = log_.stats().appended_bytes.load(std::memory_order_relaxed);
  const uint64_t left = copying.leftBytes();
  // Bytes that were appended before this copying began do not count for it.
  const bool is_first = left > paced_left_bytes_;
  const CopyingPace pace{.appended_bytes = is_first ? 0 : appended - paced_at_bytes_,
                         .left_bytes = left,
                         .free_bytes = log_.heads().writableBytes(),
                         .kept_bytes = log_.config().segment_bytes + ending_bytes_.load(std::memory_order_relaxed),
                         .slice_bytes_min = slice_bytes_min,
                         .slice_bytes_max = slice_bytes_max};
  paced_at_bytes_ = appended;
  paced_left_bytes_ = left;
  return log::copyingDue(pace);
}

void CopyingPacer::noteEnded() {
  const uint64_t most = 2 * uint64_t{log_.config().segment_bytes};
  const uint64_t appended = log_.stats().appended_bytes.load(std::memory_order_relaxed) - copied_at_bytes_;
  const uint64_t before = ending_bytes_.load(std::memory_order_relaxed);
  ending_bytes_.store(std::min(most, std::max(appended, before - before / 8)), std::memory_order_relaxed);
}

}  // namespace ramcore::log
