#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/recovery/missing_places.h"
#include "coordinator/recovery/recovery_attempts.h"
#include "coordinator/survey/log_salvage.h"
#include "coordinator/tablets/parts.h"

namespace ramcore::coordinator {

/// How far the recovery of a dead server is, for a person.
struct RecoveryReport {
  ServerId server;
  size_t tablets_left = 0;
  std::vector<SegmentId> missing;  ///< segments of its log that nobody offers, or nobody all of
  std::vector<ServerId> away;      ///< servers that may have them
  std::string text;
  uint64_t loss_token = 0;       ///< for acceptLoss(); 0: there is nothing to accept now
  bool loss_accepted = false;    ///< and nothing more would be lost now
  LogSalvage salvage;            ///< what an acceptance would bring back; only with a token
  MissingPlaces missing_places;  ///< its copies find no places; with so much more they certainly do
};

/// Brings the tablets of dead servers back from the replicas of their logs.
///
/// For each server that is dead and not recovered: have all who keep replicas fence it and say what they have; prove
/// that this is all of its log (log_survey.h), or wait and ask again; give each of its tablets to a server that lives,
/// which fetches the contents (recovery_attempts.h). The states of a tablet on this way:
///
///   Normal       the owner is dead: unavailable
///   Recovering   stored before anything is sent: the recovery master, and an epoch for this attempt alone. If the
///                attempt fails, another one follows under another epoch
///   Taking       the grant: the recovery master is the owner, from its own log on. Stored when the contents are
///   durable
///                there and the dead one's lease is over
///   Normal       it has been heard to answer for it
///
/// Tablets that move or are split are left to those who do that, until they end; dropped ones to the drop.
/// A log that stays incomplete is given up only when an operator says so, for exactly what is missing (acceptLoss);
/// then what is there is fetched as usual (log_salvage.h). A server of which nothing is left is stored as recovered:
/// its replicas are free, its record may be forgotten.
///
/// What is brought back takes places for its copies before it gives any back, and the storages may be full of what is
/// to be recovered. Then each of several recovery masters may hold some places, and none enough. So when an attempt has
/// been given up for want of places, one dead server is recovered at a time, by one server, the one with the shortest
/// log first (docs/recovery.md, tests/models/scarce_places_model.py); and it is said what has to be added.
/// Thread: one executor.
class RecoveryManager final : public TabletOperations {
 public:
  explicit RecoveryManager(const Parts& parts);

  /// Checks what is stored of recoveries under way; after membership, tables, moves and splits. Failure: Corrupt.
  runtime::Task<Status> load();
  void resume();
  /// After Journal::stop().
  void stop();

  /// What came to its end since this process started.
  struct Finished {
    uint64_t servers = 0;  ///< of which there were tablets to bring back
    uint64_t tablets = 0;
    uint64_t given_up = 0;  ///< attempts, because copies found no places; those of many tablets count several times
  };
  const Finished& finished() const { return finished_; }

  /// Of all servers whose tablets are not back, in the order of ids.
  std::vector<RecoveryReport> reports() const;

  /// Has the recovery of a dead server go on without what is missing of its log; stored before anything is done.
  /// @param token  of the report that the operator has seen
  /// Failure: NotFound: there is no recovery of it; WrongVersion: the situation is another one, or nothing is missing;
  /// RetryLater: not all servers that live have said what they have; as Journal::commit.
  runtime::Task<Status> acceptLoss(ServerId dead, uint64_t token);

  // TabletOperations
  runtime::Task<bool> endAll(TableId table) override;

 private:
  /// What became of the question to one backup.
  struct Asked {
    bool is_under_way = false;
    bool is_answered = false;
    int64_t again_ns = 0;  ///< not before
  };
  struct Recovery {
    std::map<ServerId, Asked> asked;
    std::map<ServerId, std::vector<Replica>> answers;
    LogSurvey survey;
    LogSalvage salvage;         ///< while the survey is not complete
    uint64_t loss_token = 0;    ///< of the salvage; 0: not all have answered that might
    int64_t asked_ns = 0;       ///< the first question since the answers were cleared
    int64_t not_before_ns = 0;  ///< of the next attempt
    int64_t attempt_pause_ns = 0;
    int64_t detected_ns = 0;
    int64_t first_back_ns = 0;
    int64_t last_back_ns = 0;
    size_t tablets_back = 0;
    uint64_t segment_count = 0;    ///< of its log, when it was known last
    int64_t lacking_ns = 0;        ///< when copies found no places, the last time that was told
    int64_t lacking_since_ns = 0;  ///< and when it was first, of those without a pause
    bool was_given_up = false;     ///< or stuck, for want of places, and nothing came back since
    bool is_in_turn = false;       ///< the present attempt began when there was one at a time
    uint32_t failed_count = 0;     ///< attempts in turn
    std::set<ServerId> tried;      ///< as the only recovery master, and failed; since all were tried together
    ServerId only_master;          ///< of the present attempt in turn; none: all together
    std::string text;
    std::string told;  ///< of these, what was traced
  };
  /// What is left to do for a dead server.
  struct Work {
    bool any = false;
    std::vector<TabletId> open;  ///< to be recovered, and nobody is at work on it
  };

  /// What recovery masters are to read.
  struct LogPlan {
    std::vector<ServerId> holders;
    std::vector<SurveyedSegment> segments;
    bool is_salvage = false;
  };
  static LogPlan planOf(const Recovery& recovery);

  using Loads = std::set<std::pair<size_t, ServerId>>;
  using Given = std::map<ServerId, std::vector<Tablet>>;

  void onMembers();
  void onBack(ServerId dead, size_t tablets);
  void onFailed(ServerId dead, bool for_places);
  Work workOf(ServerId dead) const;
  runtime::Task<void> run(ServerId dead);
  runtime::Task<int64_t> recover(ServerId dead, Recovery& recovery);
  bool askBackups(ServerId dead, Recovery& recovery);
  runtime::Task<void> fence(ServerId dead, ServerId backup);
  void review(ServerId dead, Recovery& recovery);
  void say(ServerId dead, Recovery& recovery, std::string text);
  std::string whatIsMissing(ServerId dead, const Recovery& recovery) const;
  std::string whatIsDoubtful(const DoubtfulSegment& doubtful) const;
  std::vector<ServerId> awayFrom(ServerId dead, const Recovery& recovery) const;
  bool haveAllAnswered(const Recovery& recovery) const;
  bool mayLose(ServerId dead, const Recovery& recovery) const;
  runtime::Task<bool> assign(ServerId dead, LogPlan plan);
  Loads loadsNow() const;
  runtime::Task<bool> storeAssigned(const std::vector<TabletId>& ids, Loads& loads, Given& given);
  runtime::Task<bool> storeRecovered(ServerId dead, Recovery& recovery);

  // When places are scarce: recovery_turns.cc.
  void onLacking(ServerId dead);
  void noteAttemptFailed(Recovery& recovery, bool for_places);
  bool hasTurn(ServerId dead) const;
  bool mayBegin(ServerId dead, const Recovery& recovery) const;
  runtime::Task<void> askPlaces();
  Loads loadsInTurn(Recovery& recovery) const;
  bool isLacking(const Recovery& recovery) const;
  runtime::Task<void> noteStuck(Recovery& recovery);
  std::string textOfFetching(const Recovery& recovery);
  std::string textOfWaiting(const Recovery& recovery);
  MissingPlaces missingPlacesNow(const Recovery& recovery) const;
  std::string sayWhatLacks();
  void noteTabletsBack();
  void endTurns();

  const Parts parts_;
  RecoveryAttempts attempts_;
  runtime::Signal changed_;  // members, answers, attempts
  std::map<ServerId, Recovery> recoveries_;
  Finished finished_;
  int64_t members_changed_ns_ = 0;
  bool places_are_scarce_ = false;  // one at a time
  bool turn_has_failed_ = false;    // one alone, or that is stuck, has found no places, and none is back since
  bool places_are_asked_ = false;   // since the last attempt
  int64_t places_asked_ns_ = 0;
  ServerId turn_;  // who is about to begin
  std::vector<BackupPlaces> places_;
  MissingPlaces missing_places_;
  int64_t lack_told_ns_ = 0;  // when what lacks was traced
  bool is_running_ = false;
};

}  // namespace ramcore::coordinator
