#pragma once

#include <atomic>

#include "log/memory/segment.h"
#include "runtime/epoch.h"

namespace ramcore::log {

/// Knows with which segments of a log something still has to be done, and which grace periods are waited for: those of
/// segments that were sealed, and of deaths that the cleaner relies on.
///
/// Threads: any. A segment of the log is sealed, and its state changed, under the lock of the log; a private one by its
/// one writer, without a lock.
class SegmentSettling {
 public:
  /// `rcu` outlives this object.
  explicit SegmentSettling(runtime::Rcu& rcu) : rcu_(rcu) {}

  /// A ticket for a grace period that begins now. A writer sets the state byte of an entry that dies before it updates
  /// the references of the owner. So the cleaner, which relies on state bytes, takes a ticket when it has found entries
  /// dead: when the grace period is over, every writer that had killed an entry before has updated those references.
  runtime::GraceTicket graceTicket() const { return rcu_.ticket(); }
  bool isOver(runtime::GraceTicket ticket) const;

  /// Notes that nothing is appended to the segment any more, and takes a ticket. The call comes after the last append:
  /// when the grace period is over, every writer has told the owner where its entry lies. Private segments are sealed
  /// without the log's lock, hence the compare and exchange.
  void seal(Segment& segment);
  /// Whether the owner knows where all entries of a sealed segment lie.
  bool isKnownToOwner(const Segment& sealed) const;

  /// @param state  Closing, Leaving or Unlinked: something still has to be done with the segment
  void setUnsettled(Segment& segment, SegmentState state);
  /// A segment in state Closing is Closed from now on.
  void setClosed(Segment& segment);
  /// The memory of a segment in state Unlinked was given back.
  void noteReleased() { unsettled_count_.fetch_sub(1, std::memory_order_release); }
  /// Whether no segment is being closed or given up, and the owner knows where all entries of sealed segments lie.
  bool isSettled() const;

 private:
  runtime::Rcu& rcu_;
  std::atomic<uint32_t> unsettled_count_{0};  ///< segments in states Closing, Leaving and Unlinked
  std::atomic<uint64_t> last_sealed_{0};      ///< the latest ticket of a segment that was sealed
};

}  // namespace ramcore::log
