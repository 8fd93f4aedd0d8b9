#pragma once

#include <atomic>
#include <cstdint>

namespace ramcore::master {

/// Counters of a ReplicaManager, for metrics. Written on the dispatch thread, read on any thread.
struct ReplicationStats {
  std::atomic<uint64_t> writes{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> flushes{0};  ///< flushes that were asked for because a request waited
  std::atomic<uint64_t> replicas_lost{0};
  std::atomic<uint64_t> floors_raised{0};
  std::atomic<uint64_t> repairs{0};    ///< replicas of closed segments made again
  std::atomic<uint32_t> least{0};      ///< as in ReplicaCounts, when segments or their replicas last changed
  std::atomic<uint32_t> repairing{0};  ///< as in ReplicaCounts
};

}  // namespace ramcore::master
