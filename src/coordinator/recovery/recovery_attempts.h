#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "coordinator/tablets/parts.h"

namespace ramcore::coordinator {

/// The work with recovery masters. Each attempt has one server fetch some tablets of a dead one, grants them to it when
/// they are there and the dead server's lease is over, and has it take them. An attempt covers tablets that are stored
/// as Recovering with that server and an epoch of their own; it keeps a tablet while the tablet's record says so.
///
/// The state of attempts is not stored: the next coordinator makes them anew from the stored tablets, and asks and
/// sends again. It does not know of those that were given up and whose server has not heard of that; servers say what
/// they are fetching (reviewIntakes).
/// Thread: one executor.
class RecoveryAttempts {
 public:
  /// Is told of tablets of a dead server. The functions run on the coordinator's executor and may look at everything.
  struct Listener {
    /// The new owner answers for this many tablets. Called with 0 when an owner has no more of them to take.
    std::function<void(ServerId dead, size_t tablets)> on_back;
    /// No server is at work on some tablets any more, and they need another attempt.
    /// @param for_places  because their replicas found no storage frames; the server has given back those that it had
    std::function<void(ServerId dead, bool for_places)> on_failed;
    /// Replicas of what is fetched find no storage frames now; called again and again while that is so.
    std::function<void(ServerId dead)> on_lacking;
  };
  RecoveryAttempts(const Parts& parts, Listener listener) : parts_(parts), listener_(std::move(listener)) {}

  /// Has `master` fetch tablets that are stored as its own to recover.
  void begin(ServerId master, RecoveryOrder order);
  /// As begin(), for tablets that an earlier coordinator gave to `master`: those that this server does not know of have
  /// failed.
  void carryOn(ServerId dead, ServerId master, bool is_survivor, std::vector<Tablet> tablets);
  /// Has `owner` answer for tablets that were granted to it.
  /// @param dead  the server that had owned them; none if that is not known any more
  void take(ServerId dead, ServerId owner, std::vector<TabletId> tablets);
  /// Has a server forget what it fetched under `epoch`. Returns when it has, or is dead. False if the coordinator stops
  /// before.
  /// @param keeps_tablet  it is a survivor, and keeps the tablet that it held before
  runtime::Task<bool> forget(ServerId master, TabletId tablet, TabletEpoch epoch, bool keeps_tablet);

  struct Intake {
    TabletId tablet;
    TabletEpoch epoch;
  };
  /// Called with what a server is fetching: has it forget those tablets that it was told to fetch under an older epoch
  /// than the latest, or that are no more. They would take its memory for ever. It keeps a tablet of which its log
  /// holds a part that counts.
  void reviewIntakes(ServerId server, const std::vector<Intake>& intakes);

  /// True if a server is fetching the tablet.
  bool isAtWork(TabletId tablet) const { return at_work_.contains(tablet); }
  /// True if tablets of the dead server were granted and are not answered for yet.
  bool isTakingFrom(ServerId dead) const { return taking_.contains(dead); }
  /// True if no server is fetching anything.
  bool isIdle() const { return at_work_.empty(); }

 private:
  struct Pending {
    TabletId id;
    TabletEpoch epoch;
    bool is_done = false;
    SegmentId first_segment;  ///< when done: of the recovery master's log
  };
  struct Attempt {
    ServerId dead;
    ServerId master;
    bool is_survivor = false;  ///< as RecoveryOrder::is_survivor
    std::vector<Pending> pending;
    int64_t heard_ns = 0;
  };
  static Attempt attemptOf(ServerId dead, ServerId master, bool is_survivor, const std::vector<Tablet>& tablets);
  void note(const Attempt& attempt);
  // Number of tablets that are not fetched yet.
  static size_t openCount(const Attempt& attempt);

  runtime::Task<void> send(Attempt attempt, RecoveryOrder order);
  runtime::Task<bool> clear(const Attempt& attempt);
  runtime::Task<void> watch(Attempt attempt);
  runtime::Task<void> poll(Attempt& attempt);
  runtime::Task<bool> grant(Attempt& attempt);
  void fail(const Attempt& attempt, const std::vector<Pending>& failed, bool for_places = false);
  void leaveOut(Attempt& attempt);
  static bool holdsPart(const Tablet& tablet, ServerId server);
  runtime::Task<void> forgetOld(ServerId server, Intake intake);
  runtime::Task<void> forgetDetached(ServerId master, TabletId tablet, TabletEpoch epoch, bool keeps_tablet);
  bool mayGrant(const Attempt& attempt) const;
  runtime::Task<void> runTake(ServerId dead, ServerId owner, std::vector<TabletId> tablets);
  runtime::Task<std::vector<TabletId>> takeSome(ServerId owner, const std::vector<TabletId>& tablets, bool& refused);
  runtime::Task<bool> storeTaken(ServerId owner, const std::vector<TabletId>& tablets);
  const Tablet* ours(const Attempt& attempt, const Pending& pending) const;
  const Tablet* granted(ServerId owner, TabletId tablet) const;
  bool goesOn(const Attempt& attempt) const;

  const Parts parts_;
  const Listener listener_;
  std::map<TabletId, TabletEpoch> at_work_;
  std::map<ServerId, size_t> taking_;  // by dead server: granted tablets that are not answered for yet; no entry is 0
  std::map<ServerId, std::set<TabletId>> forgetting_;  // forgetOld() is under way; no entry is empty
};

}  // namespace ramcore::coordinator
