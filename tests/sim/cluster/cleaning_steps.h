#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "log/log.h"

namespace ramcore::sim {

/// The steps of cleaning, as docs/cleaning.md has them, told from the states of segments.
enum class CleaningStep : uint8_t {
  Choosing,       ///< memory is short, and no pass has begun
  SurvivorsOpen,  ///< there are survivors, and nothing in them yet
  Copying,
  Closing,    ///< survivors are being closed on their replicas
  Deaths,     ///< they are closed, and not in any digest
  Rolling,    ///< segments are to leave, and no head without them has taken over
  Unlinking,  ///< one has, and its predecessor is not closed everywhere
  Freeing,    ///< they are in no digest that counts, and their memory waits for readers
};
inline constexpr size_t kCleaningStepCount = 8;
std::string_view name(CleaningStep step);

/// Whether the log is at this step now. Between two events of the simulation; looks at every segment.
bool isAt(const log::Log& log, CleaningStep step);

}  // namespace ramcore::sim
