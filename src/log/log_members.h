#pragma once

#include <span>
#include <vector>

#include "log/format/digest_members.h"
#include "log/joining_segments.h"
#include "log/live_counts.h"
#include "log/segment_reclaimer.h"
#include "log/segment_settling.h"

namespace ramcore::log {

/// Knows which segments are in the log: those that the next digest lists, those that leave with it, and those that are
/// in no digest any more that a recovery could choose. The last are unlinked here.
///
/// Threads: any, under the lock of the log; nextDigest() on the thread that maintains the heads.
class LogMembers {
 public:
  /// Everything passed by reference outlives this object.
  LogMembers(SegmentPool& pool, LiveCounts& counts, SegmentSettling& settling, JoiningSegments& joining,
             SegmentReclaimer& reclaimer, LogLock& lock);
  LogMembers(const LogMembers&) = delete;
  LogMembers& operator=(const LogMembers&) = delete;

  /// From the next digest on, `joining` (in state Closed) are in the log and `leaving` are not. Both changes are made
  /// by one digest.
  void exchange(std::span<Segment* const> joining, std::span<Segment* const> leaving) RC_EXCLUDES(kLogLock);
  /// Whether the digest of the head lists the segment, or a later digest will.
  bool isListed(const Segment& segment) const RC_EXCLUDES(kLogLock);

  // For the other parts of the log.

  /// From the next digest on the segments (in state Closed) are in the log.
  void list(std::span<Segment* const> joining) RC_REQUIRES(kLogLock);
  /// Takes back a list() that no digest has followed.
  void unlist(std::span<Segment* const> joining) RC_REQUIRES(kLogLock);
  /// Decides what the digest of `next` lists: all segments that are listed and not leaving, and `next`.
  void listForDigest(Segment& next) RC_REQUIRES(kLogLock);
  /// The segments that the digest lists for which listForDigest() was called last. Valid until the next call.
  std::span<const SegmentId> nextDigest() { return digest_members_.apply(taken_changes_); }
  /// Unlinks the segments that neither the head's digest nor a later one lists. The head's predecessor is closed, so no
  /// recovery can choose a digest older than the head's.
  /// @param freed  the segments whose replicas can go are added to it
  void unlinkLeft(SegmentId head, std::vector<SegmentId>& freed) RC_REQUIRES(kLogLock);
  /// Gives up a segment that is in no digest that a recovery could choose, or whose copy has taken its place.
  void unlink(Segment& segment) RC_REQUIRES(kLogLock);
  /// The copy, which is Open, takes the place of the original, which is in the log. The original is unlinked.
  void replace(Segment& original, Segment& copy) RC_REQUIRES(kLogLock);

 private:
  SegmentPool& pool_;
  LiveCounts& counts_;
  SegmentSettling& settling_;
  JoiningSegments& joining_;
  SegmentReclaimer& reclaimer_;
  LogLock& lock_;
  // Changes and members are kept as lists: a search through all slots would let appends wait for the lock.
  MemberChanges member_changes_ RC_GUARDED_BY(kLogLock);
  MemberChanges taken_changes_;                            ///< used only by the thread that maintains; empty between
                                                           ///< two heads
  DigestMembers digest_members_;                           ///< used only by the thread that maintains
  std::vector<Segment*> leaving_ RC_GUARDED_BY(kLogLock);  ///< in state Leaving
};

}  // namespace ramcore::log
