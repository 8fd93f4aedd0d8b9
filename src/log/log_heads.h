#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "log/commit_ring.h"
#include "log/entry_owner.h"
#include "log/joining_segments.h"
#include "log/log_durability.h"
#include "log/log_members.h"
#include "log/own_entries.h"
#include "log/roll_requests.h"

namespace ramcore::log {

/// The heads of a log: the present one, the next one, and the former one until it is closed. Opens, closes and gives up
/// heads, as they are needed and as the replicator reports.
///
/// A head is opened ahead of need with the digest of all segments that will be in the log when it takes over; it takes
/// over when it is open on all replicas, and only then is the old head closed. Nothing in the new head counts as
/// durable before the old one is closed everywhere, and only then are the segments that left the digest given up.
///
/// Threads: any. The heads are guarded by the lock of the log. Replicator, owner and waiters are called without locks.
class LogHeads {
 public:
  /// The parts of the log that heads deal with. They outlive this object.
  struct Parts {
    EntryOwner& owner;
    Replicator& replicator;
    SegmentPool& pool;
    LogStats& stats;
    LogDurability& durability;
    SegmentSettling& settling;
    JoiningSegments& joining;
    LogMembers& members;
    const OwnEntries& own_entries;
    LogLock& lock;
  };
  explicit LogHeads(const Parts& parts) : parts_(parts), lock_(parts.lock) {}
  LogHeads(const LogHeads&) = delete;
  LogHeads& operator=(const LogHeads&) = delete;

  /// As Log::maintain().
  void maintain() RC_EXCLUDES(kLogLock);
  /// The head, or none before the first one is open.
  SegmentId headId() const { return SegmentId(head_id_.load(std::memory_order_acquire)); }
  /// Where the head ends now.
  LogPosition end() const RC_EXCLUDES(kLogLock);
  /// The bytes that writers can append before memory has to come back: the rest of the head and of the next one, unless
  /// they are small heads, and what is free for other heads.
  uint64_t writableBytes() const RC_EXCLUDES(kLogLock);
  /// Whether no segment is being closed, given up or waited for. Then the memory that can be gained at all is free, or
  /// in segments that can be cleaned.
  bool isSettled() const RC_EXCLUDES(kLogLock);

  // Requests for heads.

  /// The id for a segment that is about to be opened.
  SegmentId takeId() RC_EXCLUDES(kLogLock);
  /// As Log::requestRoll().
  SegmentId requestRoll() RC_EXCLUDES(kLogLock);
  /// As Log::requestHeadToJoin() and Log::cancelHeadToJoin().
  SegmentId requestHeadToJoin() RC_EXCLUDES(kLogLock);
  void cancelHeadToJoin(SegmentId request) RC_EXCLUDES(kLogLock);
  /// Makes segments of a side log (in state Closed) members of the log. They join with a new head, which is requested
  /// here and may be a small one as for requestHeadToJoin().
  /// @return the request, for Log::isRolled()
  SegmentId addToJoin(std::span<Segment* const> joining) RC_EXCLUDES(kLogLock);
  /// Undoes addToJoin(); the places on backups that the requested head has taken are given back. The call is to be
  /// repeated until it returns true, or until Log::isRolled(roll).
  /// @return true: the segments are private again. False: not yet; or too late, because a head that lists them is open
  ///         or the cleaner may have begun with them: then it stays false
  bool takeBack(std::span<Segment* const> joining, SegmentId roll) RC_EXCLUDES(kLogLock);
  /// Notes that a pass of the cleaner begins. While a pass runs, removes and joins take no further small heads, because
  /// the roll that ends the pass needs one.
  /// @return false: the next head is just being prepared, which may take a small head, and no pass begins before that
  ///         is done
  bool tryBeginPass() RC_EXCLUDES(kLogLock);
  void endPass() RC_EXCLUDES(kLogLock);
  /// As requestRoll(), for the end of a pass: the head may be the last small head. A pass begins only if two small
  /// heads are free, or if one is free and the pass gives another one back (Cleaner::canEnd).
  SegmentId requestRollForPass() RC_EXCLUDES(kLogLock);

  // What the replicator reports.

  void noteOpened(SegmentId id) RC_EXCLUDES(kLogLock);
  void noteWithdrawn(SegmentId id) RC_EXCLUDES(kLogLock);
  void noteDurable(SegmentId id, uint32_t bytes) RC_EXCLUDES(kLogLock);
  void noteFlushed(SegmentId id, uint32_t bytes) RC_EXCLUDES(kLogLock);
  /// A segment, a head or another one, is closed everywhere.
  void noteClosed(Segment& segment) RC_EXCLUDES(kLogLock);

  // For appends: inline, because every append calls them.

  Segment* head() const RC_REQUIRES(kLogLock) { return head_; }
  /// The parts of the head that are reserved and not filled yet. The head does not change while there are any.
  CommitRing& ring() RC_REQUIRES(kLogLock) { return ring_; }
  /// Notes that an append did not fit: the next head takes over as soon as possible.
  void noteFull() RC_REQUIRES(kLogLock) { head_full_ = true; }
  /// Notes that a remove did not fit: the next head may be a small one.
  void noteRemoveBlocked() RC_REQUIRES(kLogLock) { remove_blocked_ = true; }
  /// Commits the head up to `offset`.
  void commit(uint32_t offset) RC_REQUIRES(kLogLock) {
    head_->commit(offset);
    if (parts_.durability.isAtOnce()) parts_.durability.noteCommitted(*head_, offset, closing_ == nullptr);
  }
  void refreshDurable(DurableWaiters& ready) RC_REQUIRES(kLogLock) {
    parts_.durability.refresh(head_, closing_, ready);
  }
  /// Whether another head may soon take what the present one refuses.
  bool isOtherOnItsWay() const RC_REQUIRES(kLogLock) {
    return !ring_.empty() || next_ != nullptr || next_preparing_ || closing_ != nullptr;
  }
  /// Whether maintain() has to be called for the next head.
  bool isPrepareDue() const RC_REQUIRES(kLogLock) {
    if (next_ != nullptr || parts_.joining.isHeld()) return false;
    if (head_ != nullptr && (next_preparing_ || closing_ != nullptr)) return false;
    return isNextWanted();
  }

 private:
  bool isRollWanted() const RC_REQUIRES(kLogLock) {
    return head_->id() < std::max(rolls_.wanted(), parts_.joining.wantedRoll());
  }
  bool isSwitchWanted() const RC_REQUIRES(kLogLock) {
    return head_ == nullptr || head_full_ || isRollWanted() || head_->kind() == SegmentKind::SmallHead;
  }
  bool isNextWanted() const RC_REQUIRES(kLogLock) {
    if (isSwitchWanted()) return true;
    return head_->cursor().offset >= uint64_t{head_->capacityBytes()} * parts_.pool.config().prepare_head_percent / 100;
  }
  bool mayUseSmallHead(bool is_short) const RC_REQUIRES(kLogLock);
  bool isHeadUntouched() const RC_REQUIRES(kLogLock);
  bool hasNewer(SegmentId head, SegmentId next) const;
  SegmentId noteJoinRoll() RC_REQUIRES(kLogLock);
  Segment* openHead(SegmentId id) const RC_REQUIRES(kLogLock);
  void trySwitch() RC_EXCLUDES(kLogLock);
  void prepareNext() RC_EXCLUDES(kLogLock);
  Segment* allocateNext(bool may_use_small_head, bool is_short) RC_EXCLUDES(kLogLock);
  void writeDigest(Segment& next) RC_EXCLUDES(kLogLock);
  void withdrawNext() RC_EXCLUDES(kLogLock);

  const Parts parts_;
  LogLock& lock_;
  RollRequests rolls_ RC_GUARDED_BY(kLogLock);
  CommitRing ring_ RC_GUARDED_BY(kLogLock);
  Segment* head_ RC_GUARDED_BY(kLogLock) = nullptr;
  Segment* next_ RC_GUARDED_BY(kLogLock) = nullptr;     ///< the next head, opened ahead of need
  Segment* closing_ RC_GUARDED_BY(kLogLock) = nullptr;  ///< the former head until it is closed everywhere
  bool next_opened_ RC_GUARDED_BY(kLogLock) = false;
  bool next_preparing_ RC_GUARDED_BY(kLogLock) = false;
  bool next_withdrawn_ RC_GUARDED_BY(kLogLock) = false;  ///< the replicator was told to withdraw the next head
  bool head_full_ RC_GUARDED_BY(kLogLock) = false;       ///< an append did not fit: the next head takes over as soon as
                                                         ///< possible
  bool remove_blocked_ RC_GUARDED_BY(kLogLock) = false;  ///< a remove did not fit: a small head may be taken
  bool pass_running_ RC_GUARDED_BY(kLogLock) = false;
  SegmentId unwanted_next_ RC_GUARDED_BY(kLogLock);  ///< the next head to be withdrawn, if it is not open
  std::atomic<uint64_t> head_id_{0};
  std::atomic<uint32_t> maintain_requests_{0};
};

}  // namespace ramcore::log
