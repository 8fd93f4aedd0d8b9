#pragma once

#include <vector>

#include "log/live_counts.h"
#include "log/memory/log_lock.h"
#include "log/segment_settling.h"
#include "runtime/pins.h"

namespace ramcore::log {

/// Gives the memory of unlinked segments back once no thread can read it any more.
///
/// Threads: add() from any, under the lock of the log; reclaim() is the reclaimer's of the Rcu.
class SegmentReclaimer {
 public:
  /// Everything passed by reference outlives this object.
  SegmentReclaimer(SegmentPool& pool, LogStats& stats, LiveCounts& counts, SegmentSettling& settling,
                   runtime::PinRegistry& pins, LogLock& lock);
  SegmentReclaimer(const SegmentReclaimer&) = delete;
  SegmentReclaimer& operator=(const SegmentReclaimer&) = delete;

  /// Takes over a segment that is in no digest any more, and whose live bytes were counted out. It is in state Unlinked
  /// from now on.
  void add(Segment& segment) RC_REQUIRES(kLogLock);

  struct Reclaimed {
    size_t waiting_count = 0;   ///< segments that still wait
    bool has_released = false;  ///< memory came back
  };
  /// Does what can be done now for the segments that wait. To be called now and then, and in each round while segments
  /// wait.
  Reclaimed reclaim(uint64_t now_ns) RC_EXCLUDES(kLogLock);

 private:
  bool awaitGrace();
  bool isReleased(Segment& segment, std::optional<uint64_t> pin_epoch, uint64_t& pinned_bytes,
                  uint32_t& mark_bytes_left);
  bool markSlice(Segment& segment, uint32_t& bytes_left);

  SegmentPool& pool_;
  LogStats& stats_;
  LiveCounts& counts_;
  SegmentSettling& settling_;
  runtime::PinRegistry& pins_;
  LogLock& lock_;
  std::vector<Segment*> unlinked_ RC_GUARDED_BY(kLogLock);  ///< segments that the reclaimer has not taken over yet
  std::vector<Segment*> reclaiming_;                        ///< in state Unlinked; used only by the reclaimer
};

}  // namespace ramcore::log
