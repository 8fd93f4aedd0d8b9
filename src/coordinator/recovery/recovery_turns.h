#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/recovery/missing_places.h"
#include "coordinator/recovery/recovery_attempts.h"
#include "coordinator/tablets/parts.h"

namespace ramcore::coordinator {

/// The turns of recoveries while replicas of what is recovered find no storage frames.
///
/// What is brought back takes storage frames for its replicas before it gives any back, and the storages may be full of
/// what is to be recovered. Then each of several recovery masters may hold some storage frames, and none enough. So
/// when an attempt has been given up for want of storage frames, one dead server is recovered at a time, by one server,
/// the one with the shortest log first (docs/recovery.md, tests/models/scarce_places_model.py); and reports say what
/// has to be added.
/// Thread: one executor.
class RecoveryTurns {
 public:
  /// What is asked of the recovery of a dead server. The functions change nothing.
  struct Facts {
    std::function<bool(ServerId dead)> may_begin;  ///< its log could be fetched now
    std::function<bool(ServerId dead)> has_work;   ///< something is left to do for it
    std::function<bool(ServerId dead)> has_open;   ///< it has tablets that a server could be given now
  };
  RecoveryTurns(const Parts& parts, const RecoveryAttempts& attempts, Facts facts)
      : parts_(parts), attempts_(attempts), facts_(std::move(facts)) {}

  // A recovery is added when it begins, and removed at its end. All other functions are for recoveries that were added.
  void add(ServerId dead) { waits_.try_emplace(dead); }
  void remove(ServerId dead);

  /// Notes how many segments the log has.
  void noteLength(ServerId dead, uint64_t segment_count) { waits_.at(dead).segment_count = segment_count; }
  /// Notes that replicas of what is fetched find no storage frames. Has no effect for other servers.
  void noteLacking(ServerId dead);
  /// Notes that an attempt has failed.
  /// @param for_places  because its replicas found no storage frames
  void noteFailed(ServerId dead, bool for_places);
  /// Notes that tablets have come back.
  void noteBack(ServerId dead);
  /// True while replicas of what is fetched find no storage frames.
  bool isLacking(ServerId dead) const { return isLacking(waits_.at(dead)); }
  /// Called while isLacking(): if the attempt is stuck, finds out what has to be added, for the reports.
  runtime::Task<void> noteStuck(ServerId dead);

  /// True if recoveries run one at a time.
  bool areOn() const { return places_are_scarce_; }
  /// True if the next attempt may be one for `dead`.
  bool hasTurn(ServerId dead) const;
  /// Gives `dead` the turn until leave() or attemptBegun().
  /// @return true if askPlaces() has to be called before an attempt
  bool take(ServerId dead);
  void leave(ServerId dead);
  /// Asks the servers how many storage frames they have.
  runtime::Task<void> askPlaces();
  /// Called before an attempt is stored: notes whether it runs alone.
  void attemptBegins(ServerId dead) { waits_.at(dead).is_in_turn = places_are_scarce_; }
  /// Ends the turn.
  /// @param is_begun  false: there was no server, or it could not be stored
  void attemptBegun(ServerId dead, bool is_begun);
  /// The only server that is to recover the tablets of `dead`; none: all together.
  ServerId chooseMaster(ServerId dead);

  // For reports.
  std::string textOfFetching(ServerId dead);
  std::string textOfWaiting(ServerId dead);
  /// One of these texts as it would be now, if it says that replicas find no storage frames: what has to be added may
  /// be known by now, and a report is not to name the numbers without the words.
  std::string textNow(const std::string& text) const;
  /// True if an attempt was given up, or is stuck, for want of storage frames, and no tablet has come back since.
  bool wasGivenUp(ServerId dead) const { return waits_.at(dead).was_given_up; }
  /// What to add while its replicas find no storage frames; with that they certainly find them.
  MissingPlaces missingPlacesNow(ServerId dead) const;
  /// Attempts given up because replicas found no storage frames, since this process started. An attempt with many
  /// tablets counts several times.
  uint64_t givenUpCount() const { return given_up_count_; }

 private:
  struct Wait {
    uint64_t segment_count = 0;    // segments of its log, when it was last known
    int64_t lacking_ns = 0;        // time of the last report that replicas find no storage frames
    int64_t lacking_since_ns = 0;  // time of the first such report, without a pause since
    // An attempt was given up, or is stuck, for want of storage frames, and no tablet has come back since.
    bool was_given_up = false;
    bool is_in_turn = false;    // the present attempt began when recoveries ran one at a time
    uint32_t failed_count = 0;  // failed attempts of that kind
    // Servers that were the only recovery master and failed, since all were last tried together.
    std::set<ServerId> tried;
    ServerId only_master;  // master of the present attempt of that kind; none: all together
  };

  bool isLacking(const Wait& wait) const;
  std::string sayWhatLacks();
  std::string whatLacks() const;
  void endFailure();
  void endTurns();

  const Parts parts_;
  const RecoveryAttempts& attempts_;
  const Facts facts_;
  std::map<ServerId, Wait> waits_;  // by dead server
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
  uint64_t given_up_count_ = 0;
};

}  // namespace ramcore::coordinator
