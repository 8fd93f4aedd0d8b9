#pragma once

#include <atomic>
#include <deque>
#include <span>
#include <vector>

#include "log/format/entry_view.h"
#include "rpc/caller.h"
#include "runtime/task.h"
#include "wire/replica_messages.h"

namespace ramcore::master {

/// One entry of a dead server's log that belongs to a wanted range.
struct RecoveredEntry {
  log::EntryView entry;  ///< verified
  uint32_t range = 0;    ///< which of ReplicaReader::Segment::ranges
};

/// The entries of one segment that a recovery wants: all from one replica, so that no group is torn apart by two
/// replicas of different lengths.
struct SegmentContents {
  std::deque<std::vector<std::byte>> pages;  ///< what `entries` point into
  /// Newest first: then most dead entries are already known to be dead when they come.
  std::vector<RecoveredEntry> entries;
  Version safe_version = 0;
};

/// Reads segments of a dead server's log from the backups that hold replicas of them. Their answers are not trusted: an
/// entry is taken only if its checksum is right and it belongs to what was asked for; otherwise the holder is not asked
/// again.
///
/// On one executor.
class ReplicaReader {
 public:
  struct Holder {
    rpc::PeerAddress address;
    /// True: it did not answer the last time. Others are asked first, or each segment would wait for it.
    bool is_silent = false;
  };
  struct Source {
    Holder* holder = nullptr;
    wire::ReplicaVersion replica;  ///< the one that was chosen; no other one of this holder will do
  };
  struct Segment {
    ServerId dead;
    SegmentId id;
    std::vector<Source> sources;                       ///< in the order they are asked; at least one
    std::span<const wire::ReadReplica::Range> ranges;  ///< ascending by table and hash, without overlaps
  };

  ReplicaReader(rpc::Caller& caller, runtime::Executor& executor) : caller_(caller), executor_(executor) {}

  /// Asks one holder after the other until one has given everything. A holder that sends nonsense is not asked again;
  /// the others are asked again until TabletIntake::kPatienceNs is over. Everything passed outlives the call.
  /// @return Ok; Cancelled soon after `cancelled` was set; or what the last holder said (NotFound also from a holder
  ///         whose replica is shorter than the one that was chosen)
  /// Memory: what the segment holds of the ranges, and 24 bytes for each entry.
  runtime::Task<Status> read(const Segment& segment, const std::atomic<bool>& cancelled, SegmentContents& contents);

 private:
  struct Page;
  struct Patience;

  /// @param has_others  holders that are not known to be silent are still to be asked: this one is not waited for long
  runtime::Task<Status> readFrom(const Source& source, bool has_others, const Segment& segment,
                                 const std::atomic<bool>& cancelled, SegmentContents& contents);
  runtime::Task<Status> readPage(const Source& source, Patience patience, const Segment& segment,
                                 std::span<const wire::ReadReplica::Range> ranges, uint32_t offset_bytes, Page& page);
  static Status takeEntries(const Segment& segment, const Page& page, SegmentContents& contents);

  rpc::Caller& caller_;
  runtime::Executor& executor_;
};

}  // namespace ramcore::master
