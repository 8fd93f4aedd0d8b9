#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/task.h"
#include "sim/cluster/sim_cluster.h"

namespace ramcore::sim {

/// Compares a replica of a segment that was compacted in memory. The replica may hold more than memory: what was alive
/// when it was made. A closed one has to hold all that is in memory, in the same order. One that was read before it was
/// closed may end sooner: by the time it is compared the segment may have been closed and compacted. What only the
/// replica holds must be of no use to a recovery.
///
/// @param bytes      of the replica, up to its certified end
/// @param is_closed  whether its certificate closes it
/// @return the difference; empty if there is none
std::string compareCompacted(const master::Master& master, const log::Segment& segment,
                             std::span<const std::byte> bytes, bool is_closed);

/// Proves that masters and backups agree: of every segment of a live master, each replica that it takes for certified
/// on a live backup can be loaded there, verifies, is as long as it was said to be, and holds the bytes that the master
/// has in memory.
///
/// The backups read in simulated time, while everything goes on. Outlives the cluster.
class ReplicaCheck {
 public:
  /// Between two events. Nothing is said of replicas on machine `rotten`, whose disk turns bits over.
  void start(SimCluster& cluster, size_t rotten);
  /// No process that lives is being asked.
  bool isIdle(const SimCluster& cluster) const;
  /// Before the cluster goes: what is still being read is not looked at.
  void stop() { stopped_ = true; }
  uint64_t comparedCount() const { return compared_; }
  /// Of them, of segments that were compacted in memory.
  uint64_t compactedCount() const { return compacted_compared_; }
  /// One line for each difference.
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  struct Wanted {
    size_t master;  ///< places among the servers
    size_t backup;
    ServerId master_id;
    ServerId backup_id;
    SegmentId segment;
    uint32_t certified_bytes;
    bool is_closed;
    uint64_t replicas_lost;  ///< by the master, of all segments, when the check began
  };
  struct Begin;

  runtime::Task<void> check(SimCluster& cluster, SimServer& server, std::vector<Wanted> wanted);
  void compare(SimCluster& cluster, const Wanted& wanted, const Result<log::Certificate>& loaded,
               std::span<const std::byte> bytes);

  bool stopped_ = false;
  std::map<const SimServer*, uint32_t> running_;  // never iterated
  uint64_t compared_ = 0;
  uint64_t compacted_compared_ = 0;
  std::vector<std::string> failures_;
};

}  // namespace ramcore::sim
