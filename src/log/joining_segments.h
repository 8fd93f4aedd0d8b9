#pragma once

#include <span>
#include <vector>

#include "log/memory/log_lock.h"
#include "log/memory/segment.h"

namespace ramcore::log {

/// Knows the segments of side logs that join the log with a new head, and the requests for such heads. The segments can
/// be taken back before that head is open.
///
/// Thread: any, under the lock of the log.
class JoiningSegments {
 public:
  explicit JoiningSegments(uint32_t slot_count) {
    segments_.reserve(slot_count);  // so that they take no memory under the lock
  }

  /// Notes a request for a head, and forgets those that `head` has satisfied.
  /// @param head  the head; none before the first one is open
  void noteRoll(SegmentId request, SegmentId head) RC_REQUIRES(kLogLock);
  void forgetRoll(SegmentId request) RC_REQUIRES(kLogLock);
  /// The log rolls until the head's id is at least this, with a small head where places are short.
  SegmentId wantedRoll() const RC_REQUIRES(kLogLock) { return wanted_roll_; }

  /// The segments join with the head that was requested, or with an earlier one.
  void add(std::span<Segment* const> joining, SegmentId request) RC_REQUIRES(kLogLock);
  /// What takeBack() has to know of the heads.
  struct NextHead {
    SegmentId head;             ///< the present head; none before the first one is open
    SegmentId unopened;         ///< the next one, if it is not open yet; or none
    bool is_preparing = false;  ///< another next head is being prepared, whose digest may list the segments
  };
  enum class TakenBack : uint8_t {
    Yes,   ///< the segments are private again
    Wait,  ///< a next head that lists them, or may list them, has to be withdrawn first. No further one is prepared
    Late,  ///< a head that lists them is open, or the cleaner may have begun with them
  };
  /// Undoes add(). A next head that lists the segments must not become open, and no head that lists them may follow it.
  /// A head that was being prepared when the segments joined may list them although its id is lower than the one that
  /// they asked for.
  /// The cleaner may have given the slot of a segment to another segment since. Then it is too late, because the
  /// segment has joined. The state tells: the new user of a slot sets it last, so only a segment in state Closed is
  /// looked at further.
  TakenBack takeBack(std::span<Segment* const> joining, SegmentId request, const NextHead& next) RC_REQUIRES(kLogLock);
  /// Whether no next head may be prepared, because a side log is being taken back.
  bool isHeld() const RC_REQUIRES(kLogLock) { return held_by_ != nullptr; }

  /// The digest of `next` lists all joining segments.
  void noteListed(const Segment& next) RC_REQUIRES(kLogLock);
  /// The next head is open. Segments that have a first head are not joining any more: their first head is this one,
  /// which cannot be withdrawn any more.
  void noteOpened() RC_REQUIRES(kLogLock);
  /// The next head does not exist any more.
  void noteWithdrawn(SegmentId next) RC_REQUIRES(kLogLock);
  /// The segment is given up; does nothing if it is not joining.
  void remove(Segment& segment) RC_REQUIRES(kLogLock);

 private:
  std::vector<Segment*> segments_ RC_GUARDED_BY(kLogLock);  ///< no open head lists them yet
  std::vector<SegmentId> rolls_ RC_GUARDED_BY(kLogLock);    ///< requests that no head has satisfied yet
  SegmentId wanted_roll_ RC_GUARDED_BY(kLogLock);           ///< the highest of rolls_, or a request that is satisfied
  /// While this is set no further next head is prepared, because a side log is being taken back: it identifies that
  /// side log by the address of its list of segments.
  const void* held_by_ RC_GUARDED_BY(kLogLock) = nullptr;
};

}  // namespace ramcore::log
