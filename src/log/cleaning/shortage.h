#pragma once

#include <cstdint>

#include "log/log.h"

namespace ramcore::log {

/// Says what a log is short of: memory, segment slots, places for replicas, or room below the limit of live bytes.
///
/// Threads: any; each call is a few loads.
class Shortage {
 public:
  /// Both belong together and outlive this object.
  Shortage(const Log& log, const Replicator& replicator) : log_(log), replicator_(replicator) {}

  /// Whether free memory is below what cleaning begins at, or no head finds memory or places, or the live bytes, with
  /// many tombstones among them, are near their limit.
  bool lacksMemory() const;
  /// Whether heads will soon find no place on backups.
  bool isStorageScarce() const;
  /// As lacksMemory(), but writers are faster than the cleaner and will be refused soon.
  bool isUrgent() const;
  /// Whether there are memory and places for a head that is none of the reserve.
  bool findsHead() const;
  /// Whether a survivor might have to wait for places on backups, while other masters wait for those that this pass
  /// has.
  bool mayMissPlaces() const;
  /// Whether there are too many segments: slots or places on backups are short, which segments take however little is
  /// alive in them. Scarce storage does not count if memory is short as well, because passes that free most memory
  /// leave fewer segments behind, too.
  bool hasTooMany() const;

 private:
  bool isNearLimit(int64_t part) const;

  const Log& log_;
  const Replicator& replicator_;
};

}  // namespace ramcore::log
