#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "log/format/segment_format.h"
#include "log/memory/log_lock.h"

namespace ramcore::log {

/// Gives segments their ids, and knows up to which id a head was asked for. A request names the next id: the head that
/// satisfies it is newer than every segment that exists now.
///
/// Thread: any, under the lock of the log.
class RollRequests {
 public:
  SegmentId takeId() RC_REQUIRES(kLogLock) {
    RC_CHECK(next_id_ <= kSegmentIdMax);
    return SegmentId(next_id_++);
  }
  /// The id that is taken next.
  SegmentId next() const RC_REQUIRES(kLogLock) { return SegmentId(next_id_); }

  SegmentId request() RC_REQUIRES(kLogLock) {
    wanted_ = std::max(wanted_, next());
    return next();
  }
  /// As request(), for a pass of the cleaner.
  SegmentId requestForPass() RC_REQUIRES(kLogLock) {
    // Both requests name the same head. If they were noted one after the other and another id were taken in between,
    // the head that may be a small one would not be the one that the pass waits for, and a full memory has no other.
    wanted_for_pass_ = next();
    return request();
  }
  /// The log rolls until the head's id is at least this.
  SegmentId wanted() const RC_REQUIRES(kLogLock) { return wanted_; }
  /// As wanted(), but the head may be the last small one.
  SegmentId wantedForPass() const RC_REQUIRES(kLogLock) { return wanted_for_pass_; }

 private:
  uint64_t next_id_ RC_GUARDED_BY(kLogLock) = 1;
  SegmentId wanted_ RC_GUARDED_BY(kLogLock);
  SegmentId wanted_for_pass_ RC_GUARDED_BY(kLogLock);
};

}  // namespace ramcore::log
