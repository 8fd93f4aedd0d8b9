#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "log/log.h"

namespace ramcore::accounting {

/// The sums of a walk over a log.
struct Recount {
  /// False: a pass, a side log or a segment that waits for its last reader holds bytes that are counted elsewhere just
  /// now, so nothing was compared.
  bool is_quiet = false;
  uint64_t segments = 0;
  uint64_t entries = 0;
  uint64_t results = 0;                  ///< live result records, and objects that carry a result which is still needed
  std::vector<std::string> differences;  ///< the first few, a line each
};

/// Whether the owner of the log is led to this very entry: asked of objects and result records.
using Refers = std::function<bool(log::EntryRef, const log::EntryView&)>;
/// Whether the owner is led to it for the result that it carries.
using Awaits = std::function<bool(log::EntryRef, const log::CarriedResult&)>;

/// Counts anew what every segment holds of live objects, tombstones and result records, and compares that with what the
/// log has counted while it wrote, killed, cleaned and gave up: per segment, per pair of segments for tombstones, and
/// in all. A tombstone is alive while the segment it names is there, an object or a record while the owner is led to
/// it; that its state byte says the same is checked as well. A dead object that names a segment which is there counts
/// as the tombstone that will take its place, and a live one as a tombstone that may have to.
///
/// No other thread may use the log meanwhile. Cost: a walk over all of it.
Recount recount(const log::Log& log, const Refers& refers, const Awaits& awaits);

}  // namespace ramcore::accounting
