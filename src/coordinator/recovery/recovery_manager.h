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
  std::vector<SegmentId> missing;  ///< segments of its log that no server offers, or none all of
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
/// Tablets that are being moved or split are left to the move or split until it ends; tablets of a table that is being
/// dropped are left to the drop. A log that stays incomplete is given up only when an operator says so, for exactly
/// what is missing (acceptLoss); then what is there is fetched as usual (log_salvage.h). A server of which nothing is
/// left is stored as recovered: its replicas are free, and its record may be forgotten.
///
/// What is brought back takes storage frames for its replicas before it gives any back, and the storages may be full of
/// what is to be recovered. Then each of several recovery masters may hold some storage frames, and none enough. So
/// when an attempt has been given up for want of storage frames, one dead server is recovered at a time, by one server,
/// the one with the shortest log first (docs/recovery.md, tests/models/scarce_places_model.py); and reports say what
/// has to be added.
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

  /// What has ended since this process started.
  struct Finished {
    uint64_t servers = 0;  ///< servers that had tablets to bring back
    uint64_t tablets = 0;
    /// Attempts given up because replicas found no storage frames. An attempt with many tablets counts several times.
    uint64_t given_up = 0;
  };
  const Finished& finished() const { return finished_; }

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
  /// What became of the question to one backup.
  struct Asked {
    bool is_under_way = false;
    bool is_answered = false;
    int64_t again_ns = 0;  ///< it is not asked again before
  };
  struct Recovery {
    std::map<ServerId, Asked> asked;
    std::map<ServerId, std::vector<Replica>> answers;
    LogSurvey survey;
    LogSalvage salvage;         ///< while the survey is not complete
    uint64_t loss_token = 0;    ///< token of the salvage; 0: not all servers that have to answer have
    int64_t asked_ns = 0;       ///< time of the first question since the answers were cleared
    int64_t not_before_ns = 0;  ///< when the next attempt may begin
    int64_t attempt_pause_ns = 0;
    int64_t detected_ns = 0;
    int64_t first_back_ns = 0;
    int64_t last_back_ns = 0;
    size_t tablets_back = 0;
    uint64_t segment_count = 0;    ///< segments of its log, when it was last known
    int64_t lacking_ns = 0;        ///< time of the last report that replicas find no storage frames
    int64_t lacking_since_ns = 0;  ///< time of the first such report, without a pause since
    /// An attempt was given up, or is stuck, for want of storage frames, and no tablet has come back since.
    bool was_given_up = false;
    bool is_in_turn = false;    ///< the present attempt began when recoveries ran one at a time
    uint32_t failed_count = 0;  ///< failed attempts of that kind
    /// Servers that were the only recovery master and failed, since all were last tried together.
    std::set<ServerId> tried;
    ServerId only_master;  ///< master of the present attempt of that kind; none: all together
    std::string text;
    std::string told;  ///< the text that was last traced
  };
  /// What is left to do for a dead server.
  struct Work {
    bool any = false;
    std::vector<TabletId> open;  ///< tablets to be recovered that no server is at work on
  };

  /// What recovery masters have to read.
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

  // While storage frames are scarce: recovery_turns.cc.
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
  runtime::Signal changed_;  // notified of members, answers and attempts
  std::map<ServerId, Recovery> recoveries_;
  Finished finished_;
  int64_t members_changed_ns_ = 0;
  bool places_are_scarce_ = false;  // recoveries run one at a time
  // A recovery that ran alone, or that is stuck, has found no storage frames, and no tablet has come back since.
  bool turn_has_failed_ = false;
  // Since the last attempt, servers have been asked how many storage frames they have.
  bool places_are_asked_ = false;
  int64_t places_asked_ns_ = 0;
  ServerId turn_;  // the dead server whose attempt is about to begin
  std::vector<BackupPlaces> places_;
  MissingPlaces missing_places_;
  int64_t lack_told_ns_ = 0;  // when it was last traced what has to be added
  bool is_running_ = false;
};

}  // namespace ramcore::coordinator
