#include "tools/server/sizing.h"

#include <algorithm>

#include "backup/frame_file.h"
#include "backup/free_frames.h"
#include "base/bytes.h"

namespace ramcore::tools {

uint64_t storageBytesNeeded(const log::LogConfig& log, uint32_t replicas) {
  constexpr uint64_t kKeptPermille =
      backup::FreeFrames::kHeadSharePermille + backup::FreeFrames::kSurvivorSharePermille;
  const uint64_t full = (log.liveBytesMax() + log.segment_bytes - 1) / log.segment_bytes;
  const uint64_t frames = uint64_t{replicas} * (full + log::LogConfig::kSmallHeads);
  const uint64_t with_kept = (frames * 1000 + (1000 - kKeptPermille) - 1) / (1000 - kKeptPermille);
  return backup::FrameFile::fileBytes(
      std::max<uint64_t>(with_kept, replicas == 0 ? 0 : backup::FrameFile::kFrameCountMin),
      log::LogConfig::kFrameBytes);
}

uint64_t storageBytesDefault(const log::LogConfig& log, uint32_t replicas) {
  constexpr uint64_t kStepBytes = uint64_t{64} << 20;
  const uint64_t needed = storageBytesNeeded(log, std::max(1U, replicas));
  return alignUp(needed + needed / 8, kStepBytes);
}

}  // namespace ramcore::tools
