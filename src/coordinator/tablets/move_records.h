#pragma once

#include <map>
#include <string>
#include <vector>

#include "coordinator/tablets/parts.h"

namespace ramcore::coordinator {

/// The moves of tablets that are under way, and the last that are over. Each step of a move is stored in one batch with
/// its tablet, and applied then.
///
/// Thread: one executor. The functions that store take map_lock, unless they say that the caller holds it; they repeat
/// while the disk is full. False: the coordinator stops.
class MoveRecords {
 public:
  static constexpr size_t kFinishedKept = 64;

  struct Progress {
    Migration migration;
    double fraction = 0;
    std::string waits_for;  ///< its turn, or what does not come while the contents arrive
    int64_t begun_ns = -1;  ///< Journal::nowNs() when it was asked for; -1: before this coordinator started
    int64_t over_ns = -1;   ///< when it was over; -1: it is not, or was before this coordinator started
  };
  struct Move : Progress {
    bool cancel_wanted = false;
    std::string return_problem;  ///< why it was not handed back
    Status return_status = Status::Ok;
    uint64_t returns_given_up = 0;
  };

  explicit MoveRecords(const Parts& parts) : parts_(parts) {}

  /// Reads the stored moves, after the tables. Corrupt: as readMoves().
  /// @param ids_end  all ids that were given to moves are below
  runtime::Task<Status> load(uint64_t ids_end);

  /// In the order in which they were begun.
  const std::map<MigrationId, Move>& all() const { return moves_; }
  std::map<MigrationId, Move>& all() { return moves_; }
  Move& at(MigrationId id) { return moves_.at(id); }
  const Move& at(MigrationId id) const { return moves_.at(id); }
  const Migration& record(MigrationId id) const { return moves_.at(id).migration; }
  /// Whether a move of the tablet is not over, also if the tablet is in other hands meanwhile.
  bool isMoving(TabletId tablet) const;
  size_t runningCount() const;

  /// A new move; the caller holds map_lock. As Journal::commit().
  runtime::Task<Status> storeBegun(Migration move, Tablet tablet);
  runtime::Task<bool> storeFreezing(MigrationId id, SegmentId destination_segment);
  /// Gives the tablet to the destination, unless one of the two servers is dead: then nothing is changed.
  runtime::Task<bool> storeHandOver(MigrationId id);
  /// @param lacks_room  because the destination has no room
  runtime::Task<bool> storeGivingUp(MigrationId id, std::string reason, bool lacks_room);
  /// The contents are in the log of the owner, flushed: the other one is not needed for them any more. Nothing is
  /// changed if a recovery has the tablet in hand.
  runtime::Task<bool> storeArrived(MigrationId id);
  /// Draws the epoch under which the source gets the tablet back, or forgets it. False also if a recovery has the
  /// tablet in hand.
  runtime::Task<bool> storeReturnEpoch(MigrationId id, bool is_wanted);
  /// Gives the tablet back to the source, as storeHandOver().
  runtime::Task<bool> storeReturning(MigrationId id);
  /// Sets how fast its contents may come. Nothing is changed if it is over.
  runtime::Task<bool> storeRate(MigrationId id, uint64_t rate_max);
  /// The move is over; if a recovery has the tablet in hand, that stays as it is. Forgets the oldest that are over.
  runtime::Task<bool> storeEnd(MigrationId id, MigrationStep step, std::string reason);

  /// For whoever follows a move.
  void traceProgress(MigrationId id, const std::string& what) const;

 private:
  runtime::Task<bool> store(const Migration& move, const Tablet& tablet);
  void forgetOldest(Batch& batch, std::vector<MigrationId>& forgotten) const;
  void traceStep(MigrationId id) const;

  const Parts& parts_;
  std::map<MigrationId, Move> moves_;  // those under way, and the last kFinishedKept that are over
};

}  // namespace ramcore::coordinator
