#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/recovery/dead_log.h"
#include "coordinator/recovery/master_loads.h"
#include "coordinator/recovery/missing_places.h"
#include "coordinator/recovery/recovery_attempts.h"
#include "coordinator/recovery/recovery_turns.h"
#include "coordinator/survey/log_salvage.h"
#include "coordinator/tablets/parts.h"
#include "runtime/growing_pause.h"

namespace ramcore::coordinator {

/// How far the recovery of a dead server is, for a person.
struct RecoveryReport {
  ServerId server;
  size_t tablets_left = 0;
  std::vector<SegmentId> missing;  ///< segments of its log that no server offers, or none offers whole
  std::vector<ServerId> away;      ///< servers that may have them
  std::string text;
  uint64_t loss_token = 0;     ///< for acceptLoss(); 0: nothing can be accepted now
  bool loss_accepted = false;  ///< a loss was accepted, and nothing more would be lost now
  LogSalvage salvage;          ///< what an acceptance would bring back; only with a token
  /// What to add while its replicas find no storage frames; with that they certainly find them.
  MissingPlaces missing_places;
};

/// Brings the tablets of dead servers back from the replicas of their logs.
///
/// For each server that is dead and not recovered, the manager has all servers that keep replicas fence it and say what
/// they have; proves that this is all of its log (log_survey.h), or waits and asks again; and gives each of its tablets
/// to a server that lives, which fetches the contents (recovery_attempts.h). The states of a tablet on this way:
///
///   Normal       the owner is dead: unavailable
///   Recovering   stored before anything is sent: the recovery master, and an epoch for this attempt alone. If the
///                attempt fails, another one follows under another epoch
///   Taking       the grant: the recovery master is the owner, from its own log on. Stored when the contents are
///                durable there and the dead server's lease is over
///   Normal       the new owner has confirmed that it answers for the tablet
///
/// A tablet that was being handed over has its contents in two logs. If one of the two servers lives, it is the only
/// recovery master: it replays the dead one's log over its own. If both are dead, one server replays both logs
/// together, in the recovery of the owner. A server counts as recovered when no tablet has contents in its log.
///
/// Tablets that are being moved and are not handed over, and those that are split, are left to the move or split until
/// it ends; tablets of a table that is being dropped are left to the drop. A log that stays incomplete is given up only
/// when an operator says so, for exactly what is missing (acceptLoss); then what is there is fetched as usual
/// (log_salvage.h). A server of which nothing is left is stored as recovered: its replicas are free, and its record may
/// be forgotten.
///
/// While replicas of what is recovered find no storage frames, one dead server is recovered at a time
/// (recovery_turns.h).
/// Thread: one executor.
class RecoveryManager final : public TabletOperations {
 public:
  explicit RecoveryManager(const Parts& parts);

  /// Checks what is stored of recoveries under way; called after membership, tables, moves and splits. Failure:
  /// Corrupt.
  runtime::Task<Status> load();
  void resume();
  /// After Journal::stop().
  void stop();

  /// As RecoveryAttempts::reviewIntakes(). Only while this state may be acted on (Membership::isSettled).
  void reviewIntakes(ServerId server, const std::vector<RecoveryAttempts::Intake>& intakes) {
    attempts_.reviewIntakes(server, intakes);
  }

  /// What has ended since this process started.
  struct Finished {
    uint64_t servers = 0;  ///< servers that had tablets to bring back
    uint64_t tablets = 0;
    /// Attempts given up because replicas found no storage frames. An attempt with many tablets counts several times.
    uint64_t given_up = 0;
  };
  Finished finished() const {
    return {.servers = servers_finished_, .tablets = tablets_finished_, .given_up = turns_.givenUpCount()};
  }

  /// Reports of all servers whose tablets are not back, in the order of ids.
  std::vector<RecoveryReport> reports() const;

  /// Has the recovery of a dead server continue without what is missing of its log; that is stored before anything is
  /// done.
  /// @param token  of the report that the operator has seen
  /// Failure: NotFound: there is no recovery of that server; WrongVersion: the situation has changed, or nothing is
  /// missing; RetryLater: not all servers that live have said what they have; as Journal::commit.
  runtime::Task<Status> acceptLoss(ServerId dead, uint64_t token);

  // TabletOperations
  runtime::Task<bool> endAll(TableId table) override;

 private:
  struct Recovery {
    Recovery(const Parts& parts, ServerId dead) : log(parts, dead) {}
    DeadLog log;
    int64_t not_before_ns = 0;  ///< when the next attempt may begin
    /// Pause between a failed attempt and the next.
    runtime::DoublingPause attempt_pause{50 * runtime::kNanosPerMilli, 5 * runtime::kNanosPerSecond};
    int64_t detected_ns = 0;
    int64_t first_back_ns = 0;
    int64_t last_back_ns = 0;
    size_t tablets_back = 0;
    std::string text;
    std::string told;  ///< the text that was last traced
  };
  /// What is left to do for a dead server.
  struct Work {
    bool any = false;
    std::vector<TabletId> open;  ///< tablets to be recovered that no server is at work on
  };

  /// Tablets that one order can cover.
  struct Order {
    ServerId master;
    ServerId second;  ///< the other dead server, in whose log their contents are as well; or none
    bool is_survivor = false;
    auto operator<=>(const Order&) const = default;
  };
  struct Part {
    std::vector<Tablet> tablets;
    std::optional<LogPlan> second;
  };
  using Given = std::map<Order, Part>;

  void onMembers();
  void onBack(ServerId dead, size_t tablets);
  void onFailed(ServerId dead, bool for_places);
  Work workOf(ServerId dead) const;
  ServerId inRecoveryOf(const Tablet& tablet) const;
  ServerId otherDead(const Tablet& tablet, ServerId dead) const;
  ServerId survivorOf(const Tablet& tablet) const;
  runtime::Task<void> run(ServerId dead);
  runtime::Task<int64_t> recover(ServerId dead, Recovery& recovery);
  std::optional<int64_t> awaitLog(ServerId dead, Recovery& recovery);
  std::optional<int64_t> awaitOtherLogs(ServerId dead, Recovery& recovery);
  std::vector<TabletId> assignable(ServerId dead) const;
  runtime::Task<void> fence(ServerId dead, ServerId backup);
  void review(ServerId dead, Recovery& recovery);
  void say(ServerId dead, Recovery& recovery, std::string text);
  runtime::Task<bool> assign(ServerId dead, LogPlan plan, LogPlan for_survivor);
  bool hasSurvivor(ServerId dead) const;
  void begin(const LogPlan& plan, const Order& order, const Part& part);
  bool mayFetchFrom(ServerId other) const;
  runtime::Task<bool> storeAssigned(ServerId dead, const std::vector<TabletId>& ids, MasterLoads& loads, Given& given);
  runtime::Task<bool> storeRecovered(ServerId dead, Recovery& recovery);

  const Parts parts_;
  RecoveryAttempts attempts_;
  RecoveryTurns turns_;
  runtime::Signal changed_;  // notified of members, answers and attempts
  std::map<ServerId, Recovery> recoveries_;
  uint64_t servers_finished_ = 0;
  uint64_t tablets_finished_ = 0;
  int64_t members_changed_ns_ = 0;
  bool is_running_ = false;
};

}  // namespace ramcore::coordinator
