#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/status.h"
#include "runtime/task.h"

namespace ramcore::master {

/// Stores the floors of this server's log: the coordinator keeps them.
class FloorKeeper {
 public:
  virtual ~FloorKeeper() = default;
  /// Raises the floor: from then on a recovery ignores open replicas below (segment, replica_epoch). Ok: the floor is
  /// stored. Fenced: this server is declared dead. Anything else: it may be stored or not, and the call has to be
  /// repeated.
  virtual runtime::Task<Status> raiseFloor(SegmentId segment, uint64_t replica_epoch) = 0;
};

}  // namespace ramcore::master
