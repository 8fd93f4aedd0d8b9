#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"

namespace ramcore::coordinator {

/// The storage of a server that lives, for replicas of other servers' segments. A place is a storage frame.
struct BackupPlaces {
  ServerId id;
  uint64_t places_total = 0;  ///< each for one replica of one segment
  uint64_t places_free = 0;
  uint64_t storage_bytes = 0;  ///< bytes of all these places
};

/// What recoveries need whose replicas find no storage frames.
struct PlacesWanted {
  uint64_t least_segments = 0;  ///< segments of the shortest log that waits
  uint64_t all_segments = 0;    ///< segments of all logs that wait
  uint32_t copies = 0;          ///< replicas of each segment, on as many servers
  size_t masters = 0;           ///< servers that live: each has log heads of its own
};

/// What is certainly enough, if added, for everything to come back: this many servers with this much storage each. 0
/// servers: what there is should be enough, or nothing can be said.
struct MissingPlaces {
  uint32_t servers = 0;
  uint64_t storage_bytes = 0;
};

/// Whether a server has storage frames for a replica of each segment of these logs, and for what masters need besides.
/// Then it refuses no replica, wherever others are placed before.
bool isAmple(const BackupPlaces& places, uint64_t segments, size_t masters);

/// As many ample servers as there are replicas of a segment, besides the recovery master, are certainly enough
/// (tests/models/scarce_places_model.py). Fewer may be.
MissingPlaces missingPlaces(const PlacesWanted& wanted, std::span<const BackupPlaces> servers);

}  // namespace ramcore::coordinator
