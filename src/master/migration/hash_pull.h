#pragma once

#include <optional>
#include <vector>

#include "master/migration/arrival_lane.h"
#include "master/migration/arrival_state.h"
#include "master/migration/partition_pull.h"
#include "master/migration/priority_pulls.h"
#include "master/migration/source_calls.h"
#include "runtime/task.h"
#include "store/tablet_table.h"

namespace ramcore::master {

/// Brings what calls wait for, before the rest: the hashes of their keys, and pieces of the range for scans. One
/// request to the source is under way; what is wanted meanwhile goes with the next. Executor: the background one.
class HashPull {
 public:
  /// Everything is borrowed and outlives this.
  struct Parts {
    const store::Tablet& tablet;
    SourceCalls& calls;
    ArrivalState& state;
    PriorityPulls& waiting;
    ArrivalStats& stats;
    const SliceSizes& slices;
    PullPace& pace;
    runtime::Executor& background;
  };
  explicit HashPull(const Parts& parts) : parts_(parts) {}

  /// From now on something may be brought.
  /// @param lane  takes it; borrowed until end() has ended
  void begin(ArrivalLane& lane) {
    lane_ = &lane;
    is_open_ = true;
  }
  bool isOpen() const { return is_open_; }
  /// Nothing more is brought. Waits for what is under way.
  runtime::Task<void> end();
  /// Brings what calls want, until they want nothing more. Ends at once if that goes on already, or unless isOpen().
  runtime::Task<void> run();
  /// Asks for the next few lost keys. @param after  the last one that was asked for; none: from the beginning
  runtime::Task<void> askForLost(std::optional<KeyHash>& after);

 private:
  runtime::Task<void> bring(const PriorityPulls::Batch& wanted);
  runtime::Task<PriorityPulls::Piece> pullPiece(KeyHash first);
  runtime::Task<Status> pullHashes(std::vector<KeyHash>& hashes);
  void count(const PulledSlice& slice);

  const Parts parts_;
  ArrivalLane* lane_ = nullptr;
  bool is_open_ = false;
  bool is_running_ = false;
};

}  // namespace ramcore::master
