#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "master/replication/replica_manager.h"
#include "sim/cluster/sim_cluster.h"

namespace ramcore::sim {

/// Which machine may lose what it has not flushed, so that no log loses more than the promise allows: of each open
/// segment one process that has all of it still has it, or has left it in the page cache of its machine. Looks at every
/// log that may be needed: those of servers that run, as they are, and those of servers that were killed, as they were.
///
/// A master reports only what all replicas have that it lists as certified. So one of these is enough, whatever the
/// master, its successor and the other holders do from then on.
///
/// A machine whose disk owes flushes loses with its power also what was closed there, and what had been flushed before
/// in frames that were written to since. It counts as one that has nothing left.
class PowerWatch {
 public:
  /// @param rotten  the machine whose disk flips bits: where other disks lie about flushes, it is not relied on alone
  PowerWatch(SimCluster& cluster, size_t rotten) : cluster_(cluster), rotten_(rotten) {}

  /// Before the process on a machine is killed.
  void noteKill(size_t index);
  /// The machine loses now what it has not flushed, or a part of what it has.
  void noteLoss(size_t index);
  /// Whether the machine may lose its power now.
  bool mayLose(size_t index);
  /// Whether bytes may rot there, also of closed segments: each segment has a copy on another machine, and
  /// every server needs another one for what it writes from then on.
  bool mayRot(size_t index);
  /// Whether the machine may go for good: each segment has a replica on another machine that reads back what was
  /// written. A recovery may still have to wait for this machine if the other replicas have lost their power since.
  bool mayVanish(size_t index);
  /// Whether all machines may lose their power at once, where nothing was acknowledged before a flush of it was
  /// reported.
  bool mayLoseAll();
  /// Whether all machines but this one may lose their power at once, if the server that runs there, and has its own log
  /// in its memory, is left alone until hasCopies().
  bool mayLoseAllBut(size_t index);
  /// Whether a server that runs goes on with a single replica: it may leave its other replicas behind at any moment.
  bool isOneEnough();
  /// Whether everything that the server on this machine has reported durable is on other machines, too.
  bool hasCopies(size_t index);

 private:
  struct Log {
    std::vector<master::ReplicaManager::Known> replicas;
    bool is_known = true;        ///< each segment in which something was reported is in `replicas`
    bool is_one_enough = false;  ///< its server goes on with one copy, whichever that is
  };

  void noteProcesses();
  void forgetReleased();
  static Log logOf(const SimServer& server);
  bool survivesWithout(size_t index, const Log& log) const;
  template <typename Keeps>
  static bool isSafe(const Log& log, Keeps keeps);
  bool isFlushedSomewhere(const Log& log) const;
  bool isOpenable(size_t index) const;
  template <typename Survives>
  bool allLogs(Survives survives, std::optional<size_t> except = std::nullopt);

  SimCluster& cluster_;
  const size_t rotten_;
  std::map<ServerId, size_t> machines_;  // of all processes
  std::set<ServerId> lost_;              // processes of which bytes that were not flushed are gone
  std::set<ServerId> deceived_;          // of them, those of which also others are
  std::map<ServerId, Log> dead_;         // whose processes were killed, and which may be needed
};

}  // namespace ramcore::sim
