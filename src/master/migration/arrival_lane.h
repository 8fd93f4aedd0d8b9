#pragma once

#include "log/log.h"
#include "log/side_log.h"
#include "master/migration/arrival_state.h"
#include "master/migration/pulled_slice.h"
#include "master/migration/slice_replay.h"
#include "runtime/executor.h"
#include "runtime/task.h"
#include "store/tablet_intake.h"

namespace ramcore::master {

/// A worker that takes what arrives of a tablet, into a side log of its own. Executor: its own one.
class ArrivalLane {
 public:
  /// Whether a slice for which this server has no room just now waits. Calls wait for what was asked for before others.
  enum class Patience : uint8_t { None, UntilThereIsRoom };

  /// Everything is borrowed and outlives this.
  ArrivalLane(runtime::Executor& executor, log::Log& log, store::TabletIntake& intake, ArrivalState& state,
              const SliceReplay::Parts& parts)
      : executor_(executor),
        intake_(intake),
        state_(state),
        side_(log, log.replicator(), log::CopiesAwaited::All),
        replay_(parts, side_) {}

  /// Takes all entries of a slice, some in each turn. Keys that the source has lost are noted in it.
  /// @param who  whose problem it is if that does not go on (ArrivalState::note)
  /// @return Ok; Cancelled: it is over; or as SliceReplay::step()
  runtime::Task<Status> take(PulledSlice& slice, Patience patience, size_t who);

  runtime::Executor& executor() { return executor_; }
  SliceReplay& replay() { return replay_; }
  /// How many partitions come here. To be called before the first one begins.
  void expect(size_t partitions) { partitions_left_ = partitions; }
  /// One partition is over. @return true: it was the last one
  bool endPartition() { return --partitions_left_ == 0; }
  log::SideLog& side() { return side_; }

 private:
  runtime::Executor& executor_;
  store::TabletIntake& intake_;
  ArrivalState& state_;
  log::SideLog side_;
  SliceReplay replay_;
  size_t partitions_left_ = 0;
};

}  // namespace ramcore::master
