#pragma once

#include "log/log_members.h"
#include "log/own_entries.h"
#include "log/replicator.h"

namespace ramcore::log {

/// Moves closed segments of the log to other memory: opens copies for a compaction, and puts them in the place of their
/// originals.
///
/// Thread: the cleaner's.
class SegmentCopies {
 public:
  /// The parts of the log that copies deal with. They outlive this object.
  struct Parts {
    Replicator& replicator;
    SegmentPool& pool;
    LogStats& stats;
    LogMembers& members;
    const OwnEntries& own_entries;
    LogLock& lock;
  };
  explicit SegmentCopies(const Parts& parts) : parts_(parts) {}

  /// Opens the copy of a compaction: other memory for what is alive in `original`, which is closed and in the log. The
  /// copy is a segment with the same id, which no search finds yet. It holds the entries that the original begins with
  /// (header, digest, safe version) and has room for everything that is alive.
  /// @param entry_bytes_max  the largest entry that will come
  /// @return nullptr: there is not enough memory, or no segment slot
  Segment* open(const Segment& original, uint32_t entry_bytes_max) RC_EXCLUDES(kLogLock);
  /// Ends the appends to a copy: commits it and gives back the memory that it does not use.
  void finish(Segment& copy);
  /// Keeps both the original and the copy for good. The cleaner never takes the copy.
  void keepApart(Segment& copy);
  /// Puts the copy in the place of the original, in the log and for the replicator; the replicas stay as they are. The
  /// caller has made sure that everything alive is in the copy, and that everything that killed the rest is flushed.
  /// The original's memory comes back when no thread reads it any more.
  void replace(Segment& original, Segment& copy) RC_EXCLUDES(kLogLock);

 private:
  const Parts parts_;
};

}  // namespace ramcore::log
