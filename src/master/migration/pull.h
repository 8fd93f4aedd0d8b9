#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "log/side_log.h"
#include "master/migration/migration_target.h"
#include "master/migration/room_claim.h"
#include "master/migration/slice_replay.h"
#include "master/migration/source_calls.h"
#include "store/arriving_range.h"
#include "store/intake_attempts.h"

namespace ramcore::master {

/// A tablet that is handed over to this server: an attempt with one part. What is atomic, any executor of the master
/// may ask; the rest is for the background executor.
struct MigrationTarget::Pull : store::IntakeAttempt {
  Pull(const store::Tablet& wanted, SourceCalls::Tablet at_source, const Parts& target,
       const std::atomic<bool>& stopping)
      : store::IntakeAttempt(stopping),
        calls(target.caller, target.background, std::move(at_source), ended, is_interrupted) {
    parts.emplace_back().tablet = wanted;
  }
  const store::Tablet& tablet() const { return parts.front().tablet; }
  /// True if nothing is to be pulled any more.
  bool isOver() const { return ended || is_interrupted; }
  /// True if the tablet is here to stay: what was pulled is not given up.
  bool isTaken() const { return phase.load() >= Phase::Arriving || is_interrupted; }

  SourceCalls calls;
  std::shared_ptr<store::IntakeAttempt> former;  // the pull that was given up for this one, which waits for its end

  std::atomic<Phase> phase{Phase::Preparing};    // how far it is
  std::atomic<Phase> ordered{Phase::Preparing};  // how far the coordinator has ordered it to go
  std::atomic<Version> version_ceiling{0};
  std::atomic<bool> is_interrupted{false};  // the source is dead
  std::atomic<bool> is_quiet{false};        // nothing is brought any more, and what was is in the log
  std::atomic<Status> problem{Status::Ok};
  std::atomic<uint64_t> room_wanted_bytes{0};  // of one that failed with NoSpace
  std::atomic<uint64_t> room_left_bytes{0};
  std::shared_ptr<store::ArrivingRange> arriving;  // set before the phase is Prepared

  Status traced = Status::Ok;  // the problem that was traced last
  log::Segment* anchor = nullptr;
  std::optional<RoomClaim> room;
  std::optional<log::SideLog> side;
  std::optional<SliceReplay> replay;  // into the side log
  bool takes_hashes = false;          // hashes for which calls wait are pulled
  bool pulls_hashes = false;          // a coroutine is at it
};

}  // namespace ramcore::master
