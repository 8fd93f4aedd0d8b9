#pragma once

#include "log/log.h"

namespace ramcore::log {

/// Verifies the closed segments of a log where they lie in memory, one pass after the other: bits flip there, and reads
/// do not look at checksums. What it finds goes to Log::integrity().
///
/// Thread: the cleaner's, inside a read section of the log's Rcu.
class MemoryScrubber {
 public:
  explicit MemoryScrubber(Log& log) : log_(log) {}

  /// Looks at entries until they are `bytes_max` together, or the pass is over.
  /// @return bytes looked at; fewer than `bytes_max`: the pass is over, the next call begins another one
  uint32_t step(uint32_t bytes_max);

 private:
  Segment* current();

  Log& log_;
  struct Begun {
    uint32_t slot = 0;
    SegmentId id;
    uint32_t compaction_count = 0;
    bool operator==(const Begun&) const = default;
  };
  uint32_t slot_ = 0;  ///< the segment that is being looked at
  Begun begun_;        ///< the segment that `offset_` belongs to
  uint32_t offset_ = 0;
};

}  // namespace ramcore::log
