#pragma once

#include <span>
#include <vector>

#include "log/memory/log_lock.h"
#include "log/memory/segment.h"

namespace ramcore::log {

/// What comes from other servers and joins the log with a new head: the segments of side logs, which can be taken back
/// before that head is open, and the requests for such heads.
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
  /// Roll until the head's id is at least this, with a small head where places are short.
  SegmentId wantedRoll() const RC_REQUIRES(kLogLock) { return wanted_roll_; }

  /// The segments join with the head that was requested, or with an earlier one.
  void add(std::span<Segment* const> joining, SegmentId request) RC_REQUIRES(kLogLock);
  /// The next head, as takeBack() has to know it.
  struct NextHead {
    SegmentId head;             ///< the present head; none before the first one is open
    SegmentId unopened;         ///< the next one, if it is not open yet; or none
    bool is_preparing = false;  ///< it is decided, or about to be, what the digest of another one lists
  };
  enum class TakenBack : uint8_t {
    Yes,   ///< the segments are private again
    Wait,  ///< a next head that lists them, or may list them, has to be withdrawn first. No further one is prepared
    Late,  ///< a head that lists them is open, or the cleaner may have begun with them
  };
  /// Undoes add(): a next head that lists them may not be opened any more, and none may follow on it that does. One
  /// that was being prepared when they joined may list them although it is older than what they asked for. The cleaner
  /// may have given the memory of one to another segment since: then it has joined, in that one's place, and only its
  /// state is looked at here, which whoever has the memory now sets last.
  TakenBack takeBack(std::span<Segment* const> joining, SegmentId request, const NextHead& next) RC_REQUIRES(kLogLock);
  /// Whether no next head may be prepared, because a side log is being taken back.
  bool isHeld() const RC_REQUIRES(kLogLock) { return held_by_ != nullptr; }

  /// The digest of `next` lists all of them.
  void noteListed(const Segment& next) RC_REQUIRES(kLogLock);
  /// The next head is open. For segments that have a first head, this is it. They are not joining any more, because it
  /// cannot be withdrawn any more.
  void noteOpened() RC_REQUIRES(kLogLock);
  /// The next head does not exist any more.
  void noteWithdrawn(SegmentId next) RC_REQUIRES(kLogLock);
  /// The segment is given up; does nothing if it is not joining.
  void remove(Segment& segment) RC_REQUIRES(kLogLock);

 private:
  std::vector<Segment*> segments_ RC_GUARDED_BY(kLogLock);  ///< no open head lists them yet
  std::vector<SegmentId> rolls_ RC_GUARDED_BY(kLogLock);    ///< requests that no head has satisfied yet
  SegmentId wanted_roll_ RC_GUARDED_BY(kLogLock);           ///< the highest of them; or one that is satisfied
  /// While this is set no further next head is prepared, because a side log is being taken back: it identifies that
  /// side log by the address of its list of segments.
  const void* held_by_ RC_GUARDED_BY(kLogLock) = nullptr;
};

}  // namespace ramcore::log
