#include "sim/cluster/cleaning_steps.h"

namespace ramcore::sim {
namespace {

using log::SegmentKind;
using log::SegmentState;

/// Segments of a pass, by what happens to them.
struct PassSegments {
  uint32_t empty = 0;    ///< survivors that hold nothing but their header
  uint32_t filled = 0;   ///< survivors that are open and hold something
  uint32_t closing = 0;  ///< survivors
  uint32_t closed = 0;   ///< survivors that are not in the log yet
  uint32_t leaving = 0;  ///< no head without them has taken over
  uint32_t left = 0;     ///< one has
  uint32_t unlinked = 0;

  bool hasSurvivors() const { return empty + filled + closing + closed != 0; }
  bool isPass() const { return hasSurvivors() || leaving + left != 0; }
};

void look(const log::Log& log, const log::Segment& segment, PassSegments& found) {
  const bool is_survivor = segment.kind() == SegmentKind::Survivor;
  switch (segment.state()) {
    case SegmentState::Free:
      return;
    case SegmentState::Open:
      if (is_survivor) {
        const uint32_t header_bytes = log.view(segment.refAt(0)).alignedBytes();
        ++(segment.committedBytes() > header_bytes ? found.filled : found.empty);
      }
      return;
    case SegmentState::Closing:
      found.closing += is_survivor ? 1 : 0;
      return;
    case SegmentState::Closed:
      found.closed += is_survivor && !segment.isListed() ? 1 : 0;
      return;
    case SegmentState::Leaving: {
      const bool has_left = segment.leaveHead() && segment.leaveHead() <= log.headId();
      ++(has_left ? found.left : found.leaving);
      return;
    }
    case SegmentState::Unlinked:
      // Not what was given up before it was ever in the log.
      found.unlinked += segment.leaveHead() ? 1 : 0;
      return;
  }
}

bool isMemoryShort(const log::Log& log) {
  return log.pool().freeBytesForHeads() < log.config().cleanBelowFreeBytes() ||
         !log.pool().mayHaveRoom(SegmentKind::Head);
}

}  // namespace

std::string_view name(CleaningStep step) {
  constexpr std::array<std::string_view, kCleaningStepCount> kNames = {
      "choosing", "survivors open", "copying", "closing", "deaths", "rolling", "unlinking", "freeing"};
  return kNames[static_cast<size_t>(step)];
}

bool isAt(const log::Log& log, CleaningStep step) {
  PassSegments found;
  for (uint32_t i = 0; i < log.pool().slotCount(); ++i) look(log, log.pool().slot(i), found);
  switch (step) {
    case CleaningStep::Choosing:
      return !found.isPass() && isMemoryShort(log);
    case CleaningStep::SurvivorsOpen:
      return found.empty != 0 && found.filled + found.closing + found.closed == 0;
    case CleaningStep::Copying:
      return found.filled != 0;
    case CleaningStep::Closing:
      return found.closing != 0 && found.filled + found.empty == 0;
    case CleaningStep::Deaths:
      return found.closed != 0 && found.filled + found.empty + found.closing == 0;
    case CleaningStep::Rolling:
      return found.leaving != 0;
    case CleaningStep::Unlinking:
      return found.left != 0;
    case CleaningStep::Freeing:
      return found.unlinked != 0;
  }
  return false;
}

}  // namespace ramcore::sim
