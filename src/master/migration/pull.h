#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "master/migration/arrival_lane.h"
#include "master/migration/arrival_state.h"
#include "master/migration/hash_pull.h"
#include "master/migration/migration_target.h"
#include "master/migration/room_claim.h"
#include "master/migration/source_calls.h"
#include "runtime/await.h"
#include "store/intake_attempts.h"

namespace ramcore::master {

/// A tablet that is handed over to this server: an attempt with one part. What is atomic, any executor of the master
/// may ask; the rest is for the background executor, but for `calls`, `state` and its lane, which a partition uses.
struct MigrationTarget::Pull : store::IntakeAttempt {
  /// @param comes_back  the tablet is lent by this server, and handed back to it
  Pull(const store::Tablet& wanted, SourceCalls::Tablet at_source, MigrationTarget& target, bool comes_back)
      : store::IntakeAttempt(target.attempts_.stopping()),
        state(at_source.source.id, addPart(wanted), ended, target.stats_, target.parts_.trace),
        calls(target.parts_.caller, target.parts_.background, std::move(at_source), ended, state.is_interrupted),
        returns(comes_back),
        hashes({tablet(), calls, state, target.priority_pulls_, target.stats_, target.slices_, target.pace_,
                target.parts_.background}),
        partition_over(target.parts_.background) {}
  const store::Tablet& tablet() const { return parts.front().tablet; }

  ArrivalState state;
  SourceCalls calls;
  const bool returns;
  HashPull hashes;
  std::shared_ptr<store::IntakeAttempt> former;  // the pull that was given up for this one, which waits for its end

  std::atomic<Phase> ordered{Phase::Preparing};  // how far the coordinator has ordered it to go
  std::atomic<Version> version_ceiling{0};
  std::atomic<bool> is_quiet{false};           // nothing is brought any more, and what was is in the log
  std::atomic<uint64_t> room_wanted_bytes{0};  // of one that failed with NoSpace
  std::atomic<uint64_t> room_left_bytes{0};

  log::Segment* anchor = nullptr;
  std::optional<RoomClaim> room;
  std::deque<ArrivalLane> lanes;  // the first one is the background executor's
  runtime::Signal partition_over;
  size_t partitions_left = 0;  // that are being pulled

 private:
  Part& addPart(const store::Tablet& wanted) {
    parts.emplace_back().tablet = wanted;
    return parts.front();
  }
};

}  // namespace ramcore::master
