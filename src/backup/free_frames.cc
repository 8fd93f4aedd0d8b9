#include "backup/free_frames.h"

#include <algorithm>

#include "base/mutation.h"
#include "wire/replica_messages.h"

namespace ramcore::backup {
namespace {

uint32_t shareOf(uint32_t frame_count, uint32_t permille) {
  return std::max<uint32_t>(1, static_cast<uint32_t>(uint64_t{frame_count} * permille / 1000));
}

}  // namespace

FreeFrames::FreeFrames(uint32_t frame_count, StoreStats& stats)
    : stats_(stats),
      head_frames_(shareOf(frame_count, kHeadSharePermille)),
      survivor_frames_(shareOf(frame_count, kSurvivorSharePermille)) {
  stats_.frames_kept = head_frames_ + survivor_frames_;
}

// The number of free frames that a replica with these flags has to leave to others. Heads of the reserve that exist
// count towards their share, so that they do not take that of the survivors as well. Survivors do not count towards
// theirs, because in the end all replicas are survivors.
uint32_t FreeFrames::framesKeptFrom(uint8_t flags) const {
  const uint32_t for_heads = head_frames_ - std::min(head_frames_, reserve_heads_);
  if ((flags & wire::WriteReplica::kHead) == 0) return for_heads;
  if ((flags & wire::WriteReplica::kReserve) == 0) return for_heads + survivor_frames_;
  return for_heads > 0 ? 0 : survivor_frames_;
}

std::optional<uint32_t> FreeFrames::take(uint8_t flags) {
  if (free_.empty() || (free_.size() <= framesKeptFrom(flags) && !RC_MUTATION("take-places-of-others")))
    return std::nullopt;
  const uint32_t frame = free_.back();
  free_.pop_back();
  StoreStats::add(stats_.frames_free, -1);
  if ((flags & wire::WriteReplica::kReserve) != 0) ++reserve_heads_;
  return frame;
}

void FreeFrames::put(uint32_t frame, bool of_reserve) {
  if (of_reserve) --reserve_heads_;
  free_.push_back(frame);
  StoreStats::add(stats_.frames_free, 1);
}

}  // namespace ramcore::backup
