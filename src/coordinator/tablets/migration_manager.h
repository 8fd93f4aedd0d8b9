#pragma once

#include <string>

#include "coordinator/tablets/migration_calls.h"
#include "coordinator/tablets/move_records.h"
#include "coordinator/tablets/move_turns.h"
#include "coordinator/tablets/parts.h"

namespace ramcore::coordinator {

/// Moves tablets from server to server while clients continue (docs/migration.md).
///
/// A move is a state machine whose state is stored before anything is sent, so that a coordinator that starts carries
/// on from where its predecessor was:
///
///   Preparing   the destination gets ready. The source serves.
///   Freezing    the source refuses mutations, the destination takes over what there is besides objects.
///   Arriving    the tablet belongs to the destination, under a new epoch, and its contents are in both logs. The
///               source answers nothing any more, or is dead and its lease over; then the destination answers, and
///               fetches the contents.
///   Arrived     the contents are in the destination's log alone. The source drops the tablet.
///   Returning   (from Arriving: cancelled) the tablet belongs to the source again, under a new epoch, and its contents
///               are in both logs. The destination answers nothing any more; the source answers, and fetches what was
///               changed at the destination. GivingUp follows.
///   GivingUp    (from Preparing and Freezing: cancelled, or it failed) the source goes on under a new epoch, the
///               destination forgets the tablet.
///   Done        the tablet belongs to the destination.
///   Cancelled   (from GivingUp) given up by a request, or because the table is dropped. The source stays the owner.
///               (From Arriving) the table is dropped.
///   Failed      (from GivingUp) given up for the stored reason. The source stays the owner; if it is dead, the
///               recovery gives the tablet to another server. (From Arriving) the destination has died, and a recovery
///               has given the tablet to another server, mostly the source.
///
/// From Arriving on a move is not given up, but it can be taken back. If one of the two servers dies, or both, the
/// recovery has the tablet in hand (RecoveryManager), and the move ends with it: Done if the tablet is at the
/// destination then, Cancelled if it was returning and is at the source, else Failed.
///
/// A server takes part in few moves at a time; others wait in Preparing for their turn (MoveTurns).
///
/// Every epoch is used once, for one purpose: a late copy of any message finds another epoch.
/// Thread: one executor.
class MigrationManager final : public TabletOperations {
 public:
  static constexpr size_t kRunningMax = 256;

  explicit MigrationManager(const Parts& parts);

  /// Reads the stored migrations; after the tables.
  runtime::Task<Status> load();
  void resume();
  /// After Journal::stop().
  void stop();

  struct Begun {
    Status status = Status::Ok;
    MigrationId id;
  };
  /// Stores a move and starts it. A repeated request gets the move that is under way, or the one that did it. Failure:
  /// NotFound: no such tablet or server; BadRequest: the tablet is there already; RetryLater: the tablet is in
  /// transition or unavailable, the destination is silent, or there are too many moves; as Journal::commit.
  /// @param rate_max  of a new one: bytes a second at which contents come at the most; 0: any
  runtime::Task<Begun> begin(TabletId tablet, ServerId destination, uint64_t rate_max = 0);
  /// Has a move given up, or taken back if the tablet was handed over and its contents arrive. Ok when that is stored,
  /// and for a move that ended without moving. BadRequest: all of the contents have moved already. NotFound. NoSpace:
  /// the source has no room for what was changed meanwhile. RetryLater: not decided by `deadline_ns`, or not possible
  /// now (Progress::waits_for says why).
  runtime::Task<Status> cancel(MigrationId id, int64_t deadline_ns);

  /// Has the contents come at this rate at the most from now on. NotFound; BadRequest: it is over.
  runtime::Task<Status> setRate(MigrationId id, uint64_t rate_max);

  using Progress = MoveRecords::Progress;
  /// Those that are under way, and the last ones that are over, in the order in which they were asked for.
  const std::map<MigrationId, MoveRecords::Move>& all() const { return moves_.all(); }
  /// Whether a move of the tablet is not over, also if the tablet is in other hands meanwhile.
  bool isMoving(TabletId tablet) const { return moves_.isMoving(tablet); }
  /// nullptr if the move is unknown, or ended too long ago.
  const Progress* find(MigrationId id) const;

  // TabletOperations
  runtime::Task<bool> endAll(TableId table) override;

 private:
  Status mayBegin(const Tablet* tablet, ServerId destination) const;
  runtime::Task<void> run(MigrationId id);
  runtime::Task<bool> runStep(MigrationId id);
  runtime::Task<StepOutcome> prepare(MigrationId id);
  runtime::Task<StepOutcome> freeze(MigrationId id);
  Migration wayOf(MigrationId id) const;
  runtime::Task<bool> arrive(MigrationId id);
  runtime::Task<bool> storeEndByRecovery(MigrationId id, ServerId owner);
  bool isTakenBack(MigrationId id) const;
  runtime::Task<bool> tryReturn(MigrationId id);
  runtime::Task<bool> hasJoined(MigrationId id);
  runtime::Task<bool> finish(MigrationId id);
  runtime::Task<bool> giveUp(MigrationId id);
  bool mustEnd(MigrationId id, StepOutcome& outcome) const;

  const Parts parts_;
  MigrationCalls calls_;
  MoveRecords moves_;
  MoveTurns turns_;  // of those that are not over
  IdAllocator ids_;
  runtime::Signal changed_;  // a step was stored, or a move is to be given up
};

}  // namespace ramcore::coordinator
