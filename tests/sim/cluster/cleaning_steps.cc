#include "sim/cluster/cleaning_steps.h"

#include <array>

namespace ramcore::sim {
namespace {

using log::SegmentKind;
using log::SegmentState;

/// Segments of a pass or a compaction, by what happens to them.
struct FoundSegments {
  uint32_t empty = 0;    ///< survivors that hold nothing but their header
  uint32_t filled = 0;   ///< survivors that are open and hold something
  uint32_t closing = 0;  ///< survivors
  uint32_t closed = 0;   ///< survivors that are not in the log yet
  uint32_t leaving = 0;  ///< no head without them has taken over
  uint32_t left = 0;     ///< one has
  uint32_t unlinked = 0;
  uint32_t copies = 0;    ///< that have not taken the place of their originals
  uint32_t replaced = 0;  ///< originals that wait for readers

  bool hasSurvivors() const { return empty + filled + closing + closed != 0; }
  bool isPass() const { return hasSurvivors() || leaving + left != 0; }
};

// True if the id leads to another segment in memory: this one has become the original of a compaction that is over. A
// segment that was given up before it was in the log is still found by its id.
bool isReplaced(const log::Log& log, const log::Segment& segment) {
  const log::Segment* const known = log.pool().find(segment.id());
  return known != nullptr && known != &segment;
}

void look(const log::Log& log, const log::Segment& segment, FoundSegments& found) {
  // A copy has the kind of its original, which may be a survivor of an earlier pass.
  const bool is_copy = segment.compactionCount() != 0;
  const bool is_survivor = segment.kind() == SegmentKind::Survivor && !is_copy;
  switch (segment.state()) {
    case SegmentState::Free:
      return;
    case SegmentState::Open:
      // A copy is closed as soon as it has taken the place of its original.
      found.copies += is_copy ? 1 : 0;
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
      // No digest is the first without a segment that was replaced: its copy is listed under the same id. Nor is there
      // one without what was given up before it was ever in the log.
      if (segment.leaveHead()) {
        ++found.unlinked;
      } else if (isReplaced(log, segment)) {
        ++found.replaced;
      }
      return;
  }
}

bool isMemoryShort(const log::Log& log) {
  return log.pool().freeBytesForHeads() < log.config().cleanBelowFreeBytes() ||
         !log.pool().mayHaveRoom(SegmentKind::Head);
}

bool isAt(const log::Log& log, const FoundSegments& found, CleaningStep step) {
  switch (step) {
    case CleaningStep::Choosing:
      return !found.isPass() && found.copies == 0 && isMemoryShort(log);
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
    case CleaningStep::Compacting:
      return found.copies != 0;
    case CleaningStep::Replaced:
      return found.replaced != 0;
  }
  return false;
}

}  // namespace

std::string_view name(CleaningStep step) {
  constexpr std::array<std::string_view, kCleaningStepCount> kNames = {
      "choosing", "survivors open", "copying", "closing",    "deaths",
      "rolling",  "unlinking",      "freeing", "compacting", "replaced"};
  return kNames[static_cast<size_t>(step)];
}

std::optional<CleaningStep> stepAmong(const log::Log& log, std::span<const CleaningStep> steps) {
  FoundSegments found;
  for (uint32_t i = 0; i < log.pool().slotCount(); ++i) look(log, log.pool().slot(i), found);
  for (const CleaningStep step : steps) {
    if (isAt(log, found, step)) return step;
  }
  return std::nullopt;
}

}  // namespace ramcore::sim
