#include "log/cleaning/cleaner_policy.h"

#include <algorithm>

namespace ramcore::log {

namespace {

/// Above this, storage for replicas may run out before the next pass gives some back.
constexpr uint32_t kStoragePercentMax = 75;

uint64_t gainOf(const SegmentSummary& segment) {
  return segment.memory_bytes > segment.live_bytes ? segment.memory_bytes - segment.live_bytes : 0;
}

/// Fixed point, so that every machine chooses the same.
uint64_t costBenefit(const SegmentSummary& segment) {
  const unsigned __int128 benefit = static_cast<unsigned __int128>(gainOf(segment) + segment.freed_elsewhere_bytes) *
                                    (segment.age_bytes + segment.memory_bytes);
  const unsigned __int128 score = benefit / (segment.memory_bytes + segment.live_bytes + 1);
  constexpr auto kMax = ~uint64_t{0};
  return score > kMax ? kMax : static_cast<uint64_t>(score);
}

uint64_t emptiness(const SegmentSummary& segment) {
  return ((gainOf(segment) + segment.freed_elsewhere_bytes) << 20) / (segment.memory_bytes + 1);
}

uint64_t smallness(const SegmentSummary& segment) { return ~segment.live_bytes; }

std::vector<uint32_t> take(std::span<const SegmentSummary> segments, const CleaningBudget& budget,
                           uint64_t (*score)(const SegmentSummary&)) {
  std::vector<const SegmentSummary*> order;
  for (const SegmentSummary& segment : segments) {
    if (gainOf(segment) + segment.freed_elsewhere_bytes > 0) order.push_back(&segment);
  }
  std::sort(order.begin(), order.end(), [score](const SegmentSummary* a, const SegmentSummary* b) {
    const uint64_t score_a = score(*a);
    const uint64_t score_b = score(*b);
    return score_a != score_b ? score_a > score_b : a->slot < b->slot;
  });
  std::vector<uint32_t> chosen;
  uint64_t copied = 0;
  uint64_t gain = 0;
  for (const SegmentSummary* segment : order) {
    if (chosen.size() >= budget.segment_count_max) break;
    if (copied + segment->live_bytes > budget.copy_bytes_max) continue;
    if (gain >= budget.gain_bytes_enough && segment->live_bytes > 0 && !budget.merge_small) continue;
    copied += segment->live_bytes;
    gain += gainOf(*segment) + segment->freed_elsewhere_bytes;
    chosen.push_back(segment->slot);
  }
  const bool worth_it = gain >= budget.gain_bytes_min || (budget.merge_small && chosen.size() > 1);
  return worth_it ? chosen : std::vector<uint32_t>{};
}

}  // namespace

std::vector<uint32_t> chooseSegments(std::span<const SegmentSummary> segments, const CleaningBudget& budget) {
  if (budget.merge_small) return take(segments, budget, smallness);
  std::vector<uint32_t> chosen;
  if (!budget.emptiest_first) chosen = take(segments, budget, costBenefit);
  if (chosen.empty()) chosen = take(segments, budget, emptiness);
  return chosen;
}

std::vector<uint32_t> chooseToCompact(std::span<const SegmentSummary> segments, const CleaningBudget& budget) {
  std::vector<SegmentSummary> alone(segments.begin(), segments.end());
  for (SegmentSummary& segment : alone) segment.freed_elsewhere_bytes = 0;
  return take(alone, budget, costBenefit);
}

CleaningAction decide(const CleaningState& state) {
  // Compaction copies tombstones again and again, and they take memory that live entries leave: the fuller the memory,
  // the dearer each of them makes all cleaning. If there are more of them than one of these bounds, it is time for a
  // pass.
  constexpr uint64_t kTombstonePart = 8;         // the eighth part of what all other live bytes leave below the limit
  constexpr uint64_t kTombstonePercentMax = 12;  // of the live bytes
  // Live bytes are near their limit from this percentage of it on.
  constexpr uint64_t kNearLimitPercent = 94;
  const LevelCost& compacting = state.compacting;
  const LevelCost& combining = state.combining;
  if (compacting.freed_bytes == 0) return CleaningAction::Combine;
  if (!state.has_room_for_head || state.is_short_of_slots) return CleaningAction::Combine;
  if (state.is_short_of_places) return CleaningAction::Combine;
  if (state.storage_percent > kStoragePercentMax) return CleaningAction::Combine;
  const uint64_t others_bytes = state.live_bytes - std::min(state.live_bytes, state.tombstone_bytes);
  const uint64_t left_bytes = state.live_bytes_max - std::min(state.live_bytes_max, others_bytes);
  const uint64_t tombstone_bytes_max =
      std::min(left_bytes / kTombstonePart, state.live_bytes / 100 * kTombstonePercentMax);
  if (state.tombstone_bytes > tombstone_bytes_max) return CleaningAction::Combine;
  // Writes may be refused because of tombstones. Then live bytes have to fall, and compaction leaves them as they are.
  const bool is_near_limit = state.live_bytes > state.live_bytes_max / 100 * kNearLimitPercent;
  if (is_near_limit && state.tombstone_bytes > compacting.freed_bytes) return CleaningAction::Combine;
  if (combining.freed_bytes == 0) return CleaningAction::Compact;
  // Copied bytes per byte freed; each replica costs as much again.
  const auto combined = static_cast<unsigned __int128>(combining.copied_bytes) * (1 + state.copies);
  const auto compacted = static_cast<unsigned __int128>(compacting.copied_bytes);
  return compacted * combining.freed_bytes < combined * compacting.freed_bytes ? CleaningAction::Compact
                                                                               : CleaningAction::Combine;
}

uint32_t cleanersWanted(const CleaningPressure& pressure, uint32_t cleaners_max) {
  constexpr uint32_t kStoragePercentAll = 95;
  if (!pressure.has_room_for_head) return cleaners_max;
  // How many workers beside the first are wanted, rounded up: none if nothing is lacking, all if `range` is lacking.
  const auto others = [&](uint64_t lacking, uint64_t range) {
    return static_cast<uint32_t>(((cleaners_max - 1) * std::min(lacking, range) + range - 1) / range);
  };
  const uint64_t half_bytes = pressure.begin_below_bytes / 2;
  const uint64_t lacking_bytes = half_bytes - std::min(half_bytes, pressure.free_bytes);
  const uint64_t percent = std::max(pressure.storage_percent, kStoragePercentMax) - kStoragePercentMax;
  return 1 + std::max(others(lacking_bytes, std::max<uint64_t>(half_bytes, 1)),
                      others(percent, kStoragePercentAll - kStoragePercentMax));
}

uint32_t copyingDue(const CopyingPace& pace) {
  if (pace.free_bytes <= pace.kept_bytes) return pace.slice_bytes_max;
  const auto wanted = static_cast<unsigned __int128>(pace.appended_bytes) * pace.left_bytes;
  const unsigned __int128 due = wanted / (pace.free_bytes - pace.kept_bytes);
  return static_cast<uint32_t>(std::clamp<unsigned __int128>(due, pace.slice_bytes_min, pace.slice_bytes_max));
}

uint32_t cleanersMax(uint32_t configured, uint32_t worker_count) {
  if (configured == 0) return std::max(1u, worker_count / 2);
  return std::min(configured, std::max(1u, worker_count - std::min(worker_count, 1u)));
}

}  // namespace ramcore::log
