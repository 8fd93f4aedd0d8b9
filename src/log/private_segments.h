#pragma once

#include "log/log_heads.h"

namespace ramcore::log {

/// Opens, closes and gives up the segments to which only their opener appends: survivors of the cleaner, and side logs;
/// and anchors, to which nobody does.
///
/// Threads: any, for each segment its one writer.
class PrivateSegments {
 public:
  /// The parts of the log that private segments deal with. They outlive this object.
  struct Parts {
    Replicator& replicator;
    SegmentPool& pool;
    LogStats& stats;
    LogHeads& heads;
    LogMembers& members;
    SegmentSettling& settling;
    const OwnEntries& own_entries;
    LogLock& lock;
  };
  explicit PrivateSegments(const Parts& parts) : parts_(parts) {}

  /// Opens a segment to which only the caller appends, of the kind Survivor or Side. It holds its segment header.
  /// @param entry_bytes_max  the largest entry that a survivor will take
  /// @return nullptr: there is not enough memory, or no segment slot
  Segment* open(SegmentKind kind, uint32_t entry_bytes_max = 0, CopiesAwaited copies = CopiesAwaited::Least)
      RC_EXCLUDES(kLogLock);
  /// Ends the appends of the caller to such a segment: trims it and has it closed on all replicas. When that is done
  /// its state is Closed.
  void close(Segment& segment);
  /// Gives up a private segment to which nothing refers and that was never added to the log.
  void drop(Segment& segment) RC_EXCLUDES(kLogLock);

  /// Opens an anchor: a segment that holds nothing, has no replicas and never joins the log. A tombstone that names it
  /// is kept by the cleaner until the anchor is dropped, as if an older entry of its key lay there. That is what a
  /// tombstone is for whose older entries are in another server's log (a tablet that is being handed over). Takes the
  /// least memory that a segment can have.
  /// @return nullptr: there is not enough memory, or no segment slot
  Segment* openAnchor() RC_EXCLUDES(kLogLock);
  /// The tombstones that name it are not needed any more. Nobody appends another one.
  void dropAnchor(Segment& anchor) RC_EXCLUDES(kLogLock);

 private:
  const Parts parts_;
};

}  // namespace ramcore::log
