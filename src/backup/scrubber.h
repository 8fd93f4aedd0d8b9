#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "backup/replica_checker.h"
#include "backup/replica_judge.h"
#include "base/trace.h"
#include "runtime/await.h"

namespace ramcore::backup {

struct ScrubOptions {
  /// Rate at which replicas are read again, averaged over one segment and the pause behind it. 0: never. With a higher
  /// rate the disk is busy for a shorter time, and more so.
  uint64_t bytes_per_second = 0;
  /// Time from the beginning of one pass over the storage to that of the next, unless the pass takes longer.
  int64_t pass_ns = 24 * 3600 * runtime::kNanosPerSecond;
};

/// Reads the closed replicas of this life again, one pass over the storage after the other, and verifies them: bytes
/// rot on disks, and a recovery is the worst time to learn of it. A replica that is not what it was is noted, and its
/// master is told, which makes another replica from its memory. Replicas of former lives are left alone: no living
/// master counts on them, and the recovery of a dead master verifies what it reads.
///
/// Thread: the store's executor; reading and verifying on another one, at low priority.
class Scrubber {
 public:
  /// Borrowed; they outlive it.
  struct Parts {
    ReplicaChecker& checker;
    runtime::Executor& executor;  ///< the store's
    runtime::Executor& reader;
    ReplicaJudge& judge;
    Trace& trace;
  };
  Scrubber(const Parts& parts, const ScrubOptions& options);
  Scrubber(const Scrubber&) = delete;
  Scrubber& operator=(const Scrubber&) = delete;
  /// stopped() is true (checked).
  ~Scrubber();

  /// Begins the first pass, if the rate is not 0. Once, when the store has begun.
  void start();
  /// Ends everything that runs; watch stopped().
  void stop();
  bool stopped() const { return !running_; }

 private:
  runtime::Task<void> run();
  runtime::Task<void> pass();
  runtime::Task<void> waitUntil(int64_t until_ns);
  void noteLost(const log::Certificate& certificate, uint32_t frame, Status why);
  runtime::Task<void> tellMasters();
  int64_t nowNs() const { return parts_.executor.clock().nowNs(); }

  const Parts parts_;
  const ScrubOptions options_;
  // By master: the lost replicas that it has not been told of yet.
  std::map<ServerId, std::vector<ReplicaJudge::Lost>> untold_;
  int64_t tell_at_ns_ = 0;
  std::vector<std::byte> bytes_;
  runtime::Signal stopping_;
  bool running_ = false;
  bool stop_ = false;
};

}  // namespace ramcore::backup
