#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ramcore::log {

/// What the choice of segments to clean is made from.
struct SegmentSummary {
  uint32_t slot = 0;
  uint64_t memory_bytes = 0;           ///< what giving the segment up returns
  uint64_t live_bytes = 0;             ///< what has to be copied for it
  uint64_t freed_elsewhere_bytes = 0;  ///< tombstones in other segments that are garbage once it is gone
  uint64_t age_bytes = 0;              ///< log traffic since the segment was opened
};

struct CleaningBudget {
  uint64_t copy_bytes_max = 0;                ///< survivors' room
  uint64_t gain_bytes_min = 0;                ///< less is not worth a pass
  uint64_t gain_bytes_enough = ~uint64_t{0};  ///< nothing more is copied once this much is gained
  uint32_t segment_count_max = 0;
  bool merge_small = false;  ///< segment slots run short: gather the smallest, gain or not
};

/// The segments of the next pass, best first; empty if no set within the budget gains enough.
///
/// Cost-benefit: (bytes freed x age) / (bytes read + written). Old segments are cleaned at a higher utilisation than
/// young ones, because what is still alive in them is likely to stay, and what dies soon in the young ones is not
/// copied for nothing. If the best by that measure do not gain enough together, the emptiest are tried. Pure and
/// deterministic.
std::vector<uint32_t> chooseSegments(std::span<const SegmentSummary> segments, const CleaningBudget& budget);

}  // namespace ramcore::log
