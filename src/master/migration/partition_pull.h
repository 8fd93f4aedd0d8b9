#pragma once

#include "master/migration/arrival_lane.h"
#include "master/migration/arrival_state.h"
#include "master/migration/client_activity.h"
#include "master/migration/pull_pace.h"
#include "master/migration/pulled_slice.h"
#include "master/migration/source_calls.h"
#include "runtime/task.h"

namespace ramcore::master {

/// How much one request for the contents of a tablet brings.
struct SliceSizes {
  uint32_t bytes = 512 * 1024;      ///< Raised: fewer requests; each is looked up and copied in one go
  uint32_t bytes_busy = 20 * 1024;  ///< while clients have work for this server; and what a scan waits for
  /// A tablet is cut into partitions of about this length at least, at most ArrivingRange::kPartitionsMax. Raised: a
  /// short tablet costs fewer requests, but the source and this server wait for each other more often.
  uint64_t partition_bytes = 1024 * 1024;
  /// Several workers share a tablet if each gets about this much at least. Lowered: the last segment of each worker,
  /// which may stay nearly empty, takes more memory for what arrives.
  uint64_t lane_bytes = 32 * 1024 * 1024;
};

/// Brings one partition of a tablet that arrives, in the order of hashes. One request is under way, and the next one
/// is sent before the answer of the last one is taken: so the source looks up while this server replays. Nothing is
/// given up: a slice that does not come, or is not what was asked for, is asked for again. Executor: the lane's.
class PartitionPull {
 public:
  /// Everything is borrowed and outlives this.
  struct Parts {
    SourceCalls& calls;
    ArrivalState& state;
    ArrivalLane& lane;
    ClientActivity& activity;
    PullPace& pace;
    const SliceSizes& sizes;
  };
  PartitionPull(const Parts& parts, size_t partition)
      : parts_(parts), partition_(partition), range_(parts.state.arriving->partition(partition)) {}

  /// @return Ok: all has arrived, but for keys that the source has lost. Cancelled: nothing is pulled any more
  runtime::Task<Status> run();

 private:
  runtime::Task<Status> ask(KeyHash cursor, PulledSlice& slice);
  runtime::Task<PullPace::Place> awaitPlace(uint32_t bytes);
  runtime::Task<Status> take(PulledSlice& slice);

  const Parts parts_;
  const size_t partition_;
  const HashRange range_;
};

}  // namespace ramcore::master
