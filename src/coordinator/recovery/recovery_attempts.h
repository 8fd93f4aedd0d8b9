#pragma once

#include <functional>
#include <map>
#include <vector>

#include "coordinator/tablets/parts.h"

namespace ramcore::coordinator {

/// Recovery masters at work: each attempt has one server fetch some tablets of a dead one, grants them to it when they
/// are there and the dead one's lease is over, and has it take them. An attempt is of tablets that are stored as
/// Recovering with that server and an epoch of their own; it stays with it while the records say so.
///
/// Whatever is known here is asked or sent again by the next coordinator: attempts are made from the stored tablets.
/// Thread: one executor.
class RecoveryAttempts {
 public:
  /// Told of tablets of a dead server. They run on the coordinator's executor and may look at everything.
  struct Listener {
    std::function<void(ServerId dead, size_t tablets)> on_back;  ///< their new owner answers
    /// Some are at work with nobody now, and need another attempt.
    /// @param for_places  because their copies found no places; those that it had it has given back
    std::function<void(ServerId dead, bool for_places)> on_failed;
    /// Copies of what is fetched find no places now; again and again while that is so.
    std::function<void(ServerId dead)> on_lacking;
  };
  RecoveryAttempts(const Parts& parts, Listener listener) : parts_(parts), listener_(std::move(listener)) {}

  /// Has `master` fetch tablets that are stored as its own to recover.
  void begin(ServerId master, RecoveryOrder order);
  /// The same for tablets that an earlier coordinator gave it: if the server does not know of them, they have failed.
  void carryOn(ServerId dead, ServerId master, std::vector<Tablet> tablets);
  /// Has `owner` answer for tablets that were granted to it.
  /// @param dead  whose they were; none if that is not known any more
  void take(ServerId dead, ServerId owner, std::vector<TabletId> tablets);
  /// Has a server forget what it fetched under `epoch`, and returns when it has, or is dead. False if the coordinator
  /// stops before.
  runtime::Task<bool> forget(ServerId master, TabletId tablet, TabletEpoch epoch);

  /// Somebody is fetching it.
  bool isAtWork(TabletId tablet) const { return at_work_.contains(tablet); }
  /// Tablets that were granted and are not answered for yet.
  bool isTakingFrom(ServerId dead) const { return taking_.contains(dead); }
  /// Nobody is fetching anything.
  bool isIdle() const { return at_work_.empty(); }

 private:
  struct Pending {
    TabletId id;
    TabletEpoch epoch;
    bool is_done = false;
    SegmentId first_segment;  ///< when done: of the master's log
  };
  struct Attempt {
    ServerId dead;
    ServerId master;
    std::vector<Pending> pending;
    int64_t heard_ns = 0;
  };
  static Attempt attemptOf(ServerId dead, ServerId master, const std::vector<Tablet>& tablets);
  void note(const Attempt& attempt);
  // Tablets that are not fetched yet.
  static size_t openCount(const Attempt& attempt);

  runtime::Task<void> send(Attempt attempt, RecoveryOrder order);
  runtime::Task<bool> clear(const Attempt& attempt);
  runtime::Task<void> watch(Attempt attempt);
  runtime::Task<void> poll(Attempt& attempt);
  runtime::Task<bool> grant(Attempt& attempt);
  void fail(const Attempt& attempt, const std::vector<Pending>& failed, bool for_places = false);
  void leaveOut(Attempt& attempt);
  runtime::Task<void> forgetDetached(ServerId master, TabletId tablet, TabletEpoch epoch);
  runtime::Task<void> runTake(ServerId dead, ServerId owner, std::vector<TabletId> tablets);
  runtime::Task<std::vector<TabletId>> takeSome(ServerId owner, const std::vector<TabletId>& tablets, bool& refused);
  runtime::Task<bool> storeTaken(ServerId owner, const std::vector<TabletId>& tablets);
  const Tablet* ours(const Attempt& attempt, const Pending& pending) const;
  const Tablet* granted(ServerId owner, TabletId tablet) const;
  bool goesOn(const Attempt& attempt) const;

  const Parts parts_;
  const Listener listener_;
  std::map<TabletId, TabletEpoch> at_work_;
  std::map<ServerId, size_t> taking_;  // by dead server; none with 0
};

}  // namespace ramcore::coordinator
