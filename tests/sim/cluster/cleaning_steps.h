#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "log/log.h"

namespace ramcore::sim {

/// The steps of cleaning, as docs/cleaning.md has them, told from the states of segments.
enum class CleaningStep : uint8_t {
  // Of a pass.
  Choosing,       ///< memory is short, and neither a pass nor a compaction has begun
  SurvivorsOpen,  ///< there are survivors, and nothing in them yet
  Copying,
  Closing,    ///< survivors are being closed on their replicas
  Deaths,     ///< they are closed, and not in any digest
  Rolling,    ///< segments are to leave, and no head without them has taken over
  Unlinking,  ///< one has, and its predecessor is not closed everywhere
  Freeing,    ///< they are in no digest that counts, and their memory waits for readers
  // Of a compaction.
  Compacting,  ///< there are copies, and what they are made of is in its place still
  Replaced,    ///< copies have taken the place of originals, whose memory waits for readers
};
inline constexpr size_t kPassStepCount = 8;  ///< the first ones
inline constexpr size_t kCleaningStepCount = 10;
std::string_view name(CleaningStep step);

/// The first of these steps that the log is at now; nothing if it is at none. Between two events of the simulation;
/// looks at every segment.
std::optional<CleaningStep> stepAmong(const log::Log& log, std::span<const CleaningStep> steps);

}  // namespace ramcore::sim
