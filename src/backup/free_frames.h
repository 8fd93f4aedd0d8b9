#pragma once

#include <optional>
#include <vector>

#include "backup/store_stats.h"

namespace ramcore::backup {

/// The free storage frames, and who may take them.
/// Thread: the store's executor.
class FreeFrames {
 public:
  /// The share of the storage frames that only small heads may take, and the share that is kept free for survivors and
  /// side logs. So when the storage is full, masters can still record removals and clean, which is what frees storage.
  /// Each share has at least one storage frame. Which ones these are is not fixed: what comes free fills these shares
  /// first.
  static constexpr uint32_t kHeadSharePermille = 125;
  static constexpr uint32_t kSurvivorSharePermille = 125;

  /// No storage frame is free yet.
  /// @param frame_count  storage frames of the file
  /// @param stats        outlives this object, which keeps `frames_free` and `frames_kept`
  FreeFrames(uint32_t frame_count, StoreStats& stats);
  FreeFrames(const FreeFrames&) = delete;
  FreeFrames& operator=(const FreeFrames&) = delete;

  /// Takes a storage frame for a replica with these flags (wire::WriteReplica::Flags); the one that came free last.
  /// None: all that are free are kept for others.
  std::optional<uint32_t> take(uint8_t flags);
  /// A storage frame comes free.
  /// @param of_reserve  it was taken with the flag kReserve
  void put(uint32_t frame, bool of_reserve);

 private:
  uint32_t framesKeptFrom(uint8_t flags) const;

  StoreStats& stats_;
  const uint32_t head_frames_;      // storage frames that small heads are certain to get
  const uint32_t survivor_frames_;  // storage frames that others leave to survivors and side logs
  uint32_t reserve_heads_ = 0;      // storage frames that hold small heads, taken in this life
  std::vector<uint32_t> free_;
};

}  // namespace ramcore::backup
