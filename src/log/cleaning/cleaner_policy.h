#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ramcore::log {

/// One segment, with the numbers from which the segments to clean are chosen.
struct SegmentSummary {
  uint32_t slot = 0;
  uint64_t memory_bytes = 0;           ///< what giving the segment up returns
  uint64_t live_bytes = 0;             ///< what has to be copied for it
  uint64_t freed_elsewhere_bytes = 0;  ///< tombstones in other segments that are garbage once it is gone
  uint64_t age_bytes = 0;              ///< log traffic since the segment was opened
};

struct CleaningBudget {
  uint64_t copy_bytes_max = 0;                ///< what the survivors have room for
  uint64_t gain_bytes_min = 0;                ///< less is not worth a pass
  uint64_t gain_bytes_enough = ~uint64_t{0};  ///< nothing more is copied once this much is gained
  uint32_t segment_count_max = 0;
  bool emptiest_first = false;  ///< the emptiest first, whatever their ages: gains the most
  bool merge_small = false;  ///< there are too many segments: those in which least is alive are chosen, whether or not
                             ///< they gain memory
};

/// The segments of the next pass, best first; empty if no set within the budget gains enough.
///
/// Cost-benefit: (bytes freed x age) / (bytes read + written). Old segments are cleaned at a higher utilisation than
/// young ones, because what is still alive in them is likely to stay, and what dies soon in the young ones is not
/// copied for nothing. If the best by that measure do not gain enough together, the emptiest are tried. Pure and
/// deterministic.
std::vector<uint32_t> chooseSegments(std::span<const SegmentSummary> segments, const CleaningBudget& budget);

/// The segments of the next compaction, best first; empty if none gains. The same measure as for chooseSegments, but a
/// segment counts alone: `memory_bytes` - `live_bytes` is what it gives back, and tombstones elsewhere stay.
std::vector<uint32_t> chooseToCompact(std::span<const SegmentSummary> segments, const CleaningBudget& budget);

/// What a level of cleaning, combining or compacting, would do next: the bytes that it copies, and the bytes that come
/// free by it.
struct LevelCost {
  uint64_t copied_bytes = 0;
  uint64_t freed_bytes = 0;
};

/// From this percentage on passes begin for the sake of the storage for replicas. It is counted of what heads may take
/// of that storage.
inline constexpr uint32_t kStoragePercentScarce = 90;

/// The numbers on which decide() depends.
struct CleaningState {
  bool has_room_for_head = false;
  bool is_short_of_slots = false;
  bool is_short_of_places = false;  ///< places for replicas of a head are short
  uint64_t live_bytes = 0;
  uint64_t live_bytes_max = 0;   ///< at which writes are refused
  uint64_t tombstone_bytes = 0;  ///< part of live_bytes
  uint32_t copies = 0;           ///< replicas that are made of each segment that combining keeps
  uint32_t storage_percent = 0;  ///< the part in use of the storage that replicas of heads may take
  LevelCost combining;           ///< this and the next: for the best candidates of each level; freed_bytes 0: there are
                                 ///< none
  LevelCost compacting;
};

enum class CleaningAction : uint8_t {
  Combine,  ///< a pass: what is alive in several segments goes into new ones; if that gains nothing, nothing
  Compact,  ///< what is alive in single segments goes into less memory
};

/// Which level works next.
///
/// Compaction sends nothing, so it wins wherever its copying frees memory more cheaply than copying and replicating
/// would. But it frees neither segment slots, nor storage for replicas, nor tombstones: when one of those runs short,
/// or when no head finds room (a pass gives small heads back), segments are combined. Pure and deterministic.
CleaningAction decide(const CleaningState& state);

/// The numbers on which cleanersWanted() depends.
struct CleaningPressure {
  bool has_room_for_head = true;
  uint64_t free_bytes = 0;         ///< beyond the survivors' reserve
  uint64_t begin_below_bytes = 0;  ///< cleaning begins when free_bytes is less than this
  uint32_t storage_percent = 0;    ///< as in CleaningState
};

/// How many workers share the copying.
///
/// One worker costs requests the least, and is enough as long as it keeps up: no more than half of the free memory in
/// which cleaning begins is used up, and the storage for replicas does not run short. Beyond that it is at once one
/// worker more, and all workers when memory is used up or storage nearly so; whichever of the two is shorter decides.
/// Pure and deterministic.
/// @param cleaners_max  at least 1
/// @return 1 .. cleaners_max
uint32_t cleanersWanted(const CleaningPressure& pressure, uint32_t cleaners_max);

/// The numbers on which copyingDue() depends. It sets the pace where writers and the copying share one processor.
struct CopyingPace {
  uint64_t appended_bytes = 0;  ///< since the slice before
  uint64_t left_bytes = 0;      ///< bytes that the copying still has to look at
  uint64_t free_bytes = 0;      ///< bytes that writers still have
  uint64_t kept_bytes = 0;      ///< the part of free_bytes that they need from the end of the copying until memory
                                ///< comes back
  uint32_t slice_bytes_min = 0;
  uint32_t slice_bytes_max = 0;
};

/// How many bytes the next slice copies.
///
/// The amount is proportional to what was appended, so that the copying is over when no more is free than kept_bytes.
/// If it ended sooner, memory would lie idle in which entries could still die before they are copied. If it ended
/// later, writers would be refused. Pure and deterministic.
uint32_t copyingDue(const CopyingPace& pace);

/// How many workers may clean at a time: one at least, and never all, if there is more than one.
/// @param configured  0: half of the workers
uint32_t cleanersMax(uint32_t configured, uint32_t worker_count);

}  // namespace ramcore::log
