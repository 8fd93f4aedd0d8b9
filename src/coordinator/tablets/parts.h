#pragma once

#include "base/trace.h"
#include "coordinator/calls/master_calls.h"
#include "coordinator/members/membership.h"
#include "coordinator/state/async_mutex.h"
#include "coordinator/state/id_allocator.h"
#include "coordinator/state/journal.h"
#include "coordinator/tablets/tablet_map.h"

namespace ramcore::coordinator {

/// What the managers of tables, moves, splits and recoveries share.
struct Parts {
  Journal& journal;
  Trace& trace;
  TabletMap& map;
  AsyncMutex& map_lock;  ///< held while the map is read, a change of it is committed, and applied; never over a call
  Membership& membership;
  MasterCalls& masters;
  IdAllocator& tablet_ids;
};

/// A kind of operation on tablets that a drop of their table has to end first. Implemented by MigrationManager,
/// SplitManager and RecoveryManager.
class TabletOperations {
 public:
  virtual ~TabletOperations() = default;
  /// Makes every operation on tablets of `table` give up or finish, and returns when none is left. False if the
  /// coordinator stops before. No new operations begin, because the table is not ready.
  virtual runtime::Task<bool> endAll(TableId table) = 0;
};

}  // namespace ramcore::coordinator
