#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "coordinator/calls/master_calls.h"
#include "coordinator/recovery/recovery_attempts.h"

namespace ramcore::coordinator {

/// Servers that keep to the contract of the messages, and check that at any time at most one of them answers for a
/// tablet's mutations. A tablet's content is a number: each mutation adds one. Calls take simulated time, their answers
/// and themselves get lost, and copies of them arrive later.
class FakeCluster {
 public:
  struct Held {
    Tablet tablet;
    bool frozen = false;
    bool lent = false;      ///< answers nothing
    bool pulling = false;   ///< answers nothing
    bool pulled = false;    ///< of a move: it is ready; else: everything is there
    bool adopted = false;   ///< of a move
    bool arriving = false;  ///< answers, and the rest of the content is at `source`
    bool has_all = false;   ///< everything has arrived
    bool joined = false;    ///< and is in its log
    ServerId source{};
    uint64_t content = 0;        ///< the part that is its own
    uint64_t arrived = 0;        ///< the part of the source
    TabletEpoch intake_epoch{};  ///< of what a survivor fetches for it; none: nothing
    uint64_t intake = 0;         ///< what that is
    TabletEpoch return_epoch{};  ///< of one that is lent: it gets ready to have it back under this epoch
    ServerId returns_from{};
    TabletEpoch return_given_up{};  ///< of one that arrives: no freezing for this epoch any more
  };
  using Intakes = std::vector<RecoveryAttempts::Intake>;
  struct Machine {
    /// What it fetches, and does not answer for.
    Intakes intakes() const {
      Intakes all;
      for (const auto& [tablet, held] : tablets) {
        if (held.pulling) all.push_back({tablet, held.tablet.epoch});
      }
      return all;
    }
    bool up = true;
    std::map<TabletId, Held> tablets;
    std::map<TabletId, TabletEpoch> dropped;
    int64_t pull_polls = 0;
    Status drop_failure = Status::Ok;
    Status pull_failure = Status::Ok;
    int refusals_left = 0;                              ///< of tablets, because its log has no head yet
    bool stalls = false;                                ///< recoveries here go on for ever
    std::map<ServerId, std::vector<Replica>> replicas;  ///< of others' logs
    std::set<ServerId> fenced;
    uint64_t fence_count = 0;
    uint64_t recovery_count = 0;  ///< that began here
    uint64_t places_free = 0;     ///< of kPlaces
  };
  static constexpr Version kVersionCeiling = 77;
  static constexpr uint32_t kCopies = 3;
  static constexpr uint64_t kPlaces = 64;
  static constexpr uint64_t kPlaceBytes = uint64_t{8} << 20;
  /// This many recovery masters at a time find places for all their replicas. If there are more, they wait for each
  /// other and then fail, each after a while of its own.
  size_t masters_with_places = SIZE_MAX;
  bool masters_give_up = true;        ///< false: they wait for ever
  uint64_t given_up_count = 0;        ///< recoveries, for that reason
  bool arrivals_lack_places = false;  ///< survivors wait for places before they begin
  uint64_t state_count = 0;           ///< answers about the state of a server
  ServerId fails_for;                 ///< server whose recoveries fail for another reason

  Machine& machine(ServerId id) { return machines_[id]; }
  std::map<ServerId, Machine>& machines() { return machines_; }

  Status take(ServerId server, const Tablet& tablet, bool created_empty);
  Status drop(ServerId server, TabletId tablet, TabletEpoch epoch);
  Status giveUpIntake(ServerId server, TabletId tablet, TabletEpoch epoch);
  Status split(ServerId server, TabletId id, const Tablet& lower, const Tablet& upper);
  Status freeze(ServerId server, TabletId id, TabletEpoch epoch, bool frozen, TabletEpoch new_epoch);
  Status freezeArriving(ServerId server, TabletId id, TabletEpoch epoch, TabletEpoch return_epoch);
  Status thaw(ServerId server, TabletId id, TabletEpoch epoch, TabletEpoch return_epoch);
  Status lend(ServerId server, TabletId id, TabletEpoch epoch);
  Status adopt(ServerId server, TabletId id, TabletEpoch epoch, Version version_ceiling);
  Status takeArriving(ServerId server, const Tablet& tablet);
  Status pull(ServerId server, const Tablet& tablet, TabletEpoch source_epoch, ServerId source);
  Status pullBack(ServerId server, const Tablet& tablet, ServerId source);
  PullResult progress(ServerId server, TabletId id, TabletEpoch epoch, SegmentId segment);

  PullResult progressOfMove(Machine& at, Held& held);

  /// A log of three segments, all of it on each of these. The last is its open head.
  void keepLog(ServerId master, const std::vector<ServerId>& backups, uint64_t epoch = 1) {
    for (const ServerId backup : backups) {
      machines_[backup].replicas[master] = {closedReplica(1), closedReplica(2), openReplica(3, epoch, {1, 2, 3})};
    }
  }
  static Replica closedReplica(uint64_t segment) {
    return {.segment = SegmentId(segment), .epoch = 1, .is_closed = true, .previous_head = {}, .members = {}};
  }
  static Replica openReplica(uint64_t segment, uint64_t epoch, const std::vector<uint64_t>& members);
  /// Servers that fetch something.
  size_t mastersAtWork() const;
  std::vector<Replica> fence(ServerId backup, ServerId dead);
  Status recover(ServerId server, const RecoveryOrder& order);
  /// A survivor keeps what it has.
  Status recoverOver(Machine& at, const RecoveryOrder& order);

  /// Does what a client does to one tablet by the map's word: adds one where owner and epoch agree. True if it did.
  bool mutate(const Tablet& known) {
    Machine& at = machines_[known.owner];
    const auto found = at.tablets.find(known.id);
    if (!at.up || found == at.tablets.end()) return false;
    Held& held = found->second;
    if (held.tablet.epoch != known.epoch || held.frozen || held.lent || held.pulling) return false;
    ++held.content;
    return true;
  }
  std::optional<uint64_t> read(const Tablet& known);

  Status pull_failure = Status::Ok;   ///< of moves that are not handed over, and of recoveries
  std::vector<RecoveryOrder> orders;  ///< that servers took

 private:
  // The part of the tablet's content that is in a server's log: all of it is durable.
  // @param is_all  false: the other log has what has arrived from there, or was replayed from it, as well
  uint64_t logged(ServerId server, const Tablet& tablet, bool is_all);
  // Whether another server still needs what was lent to it.
  bool isNeeded(TabletId tablet) const;
  static bool isOld(const Machine& at, const Tablet& tablet) {
    const auto floor = at.dropped.find(tablet.id);
    return floor != at.dropped.end() && tablet.epoch <= floor->second;
  }
  std::map<ServerId, Machine> machines_;
};

}  // namespace ramcore::coordinator
