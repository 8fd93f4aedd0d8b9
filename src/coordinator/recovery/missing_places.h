#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"

namespace ramcore::coordinator {

/// The storage of a server that lives, for copies of what others hold.
struct BackupPlaces {
  ServerId id;
  uint64_t places_total = 0;  ///< each for one copy of one segment
  uint64_t places_free = 0;
  uint64_t storage_bytes = 0;  ///< of all of them
};

/// What recoveries need whose copies find no places.
struct PlacesWanted {
  uint64_t least_segments = 0;  ///< of the shortest log that waits
  uint64_t all_segments = 0;    ///< of all logs that wait
  uint32_t copies = 0;          ///< of each segment, on as many servers
  size_t masters = 0;           ///< servers that live: each has heads of its own
};

/// What is certainly enough, if added, for everything to come back: so many servers with so much storage each. None:
/// what there is should do, or nothing can be said.
struct MissingPlaces {
  uint32_t servers = 0;
  uint64_t storage_bytes = 0;
};

/// Whether a server has room for a copy of each segment of these logs, and of what masters need beside them. It refuses
/// none then, whatever is placed where before.
bool isAmple(const BackupPlaces& places, uint64_t segments, size_t masters);

/// As many ample servers as there are copies, beside the recovery master, are certainly enough
/// (tests/models/scarce_places_model.py). Fewer may be.
MissingPlaces missingPlaces(const PlacesWanted& wanted, std::span<const BackupPlaces> servers);

}  // namespace ramcore::coordinator
