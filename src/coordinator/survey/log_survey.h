#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "coordinator/state/records.h"
#include "wire/replica_messages.h"

namespace ramcore::coordinator {

/// What a fenced backup has of one segment of a dead server's log.
struct Replica {
  SegmentId segment;
  uint64_t epoch = 0;
  bool is_closed = false;
  bool has_digest = false;   ///< it is or was a head
  bool maybe_short = false;  ///< it came through a loss of power: its end may be missing, if it is open
  uint32_t length_bytes = 0;
  SegmentId previous_head;         ///< the previous head in the digest
  std::vector<SegmentId> members;  ///< of the digest; for open replicas, and for the highest head that a backup has

  wire::ReplicaVersion version() const {
    return {.epoch = epoch, .length_bytes = length_bytes, .closed = static_cast<uint8_t>(is_closed)};
  }
};

/// One member of the log that is to be replayed, and the servers that can be asked for it.
struct SurveyedSegment {
  SegmentId id;
  std::vector<uint32_t> holders;  ///< indexes of LogSurvey::holders, ascending
  /// For each of these: the replica that counts. A holder that shows another one later has lost this one.
  std::vector<wire::ReplicaVersion> replicas;
  /// True for an end of the log of which only what it held when it was opened counts: digest and safe version. Nothing
  /// that was appended to it is replayed.
  bool is_cut = false;
};

/// A segment whose end is known only from replicas that may have lost it.
struct DoubtfulSegment {
  SegmentId id;
  std::vector<ServerId> held_by;  ///< all of these have it, ascending
};

/// What fenced backups together have of a dead server's log.
struct LogSurvey {
  SegmentId head;                 ///< none: no end of the log was found
  std::vector<ServerId> holders;  ///< ascending
  std::vector<SurveyedSegment>
      segments;                    ///< all members of the head's digest, ascending; those missing without holders
  std::vector<SegmentId> missing;  ///< ascending
  /// Ascending. For these, `segments` names the holders of the longest replica.
  std::vector<DoubtfulSegment> doubtful;

  /// True if everything that was ever acknowledged is in `segments`, and each of them can be read.
  bool isComplete() const { return head != SegmentId() && missing.empty() && doubtful.empty(); }
};

/// What else decides whether a replica that may be short is the end of the log.
struct SurveyFacts {
  /// Every server that could have a replica has answered.
  bool nobody_is_away = false;
  /// What survivors have read of the log: Server::read.
  std::span<const ReadSegment> read = {};
  /// A survivor reads no further than it has to: where the predecessor of the end is proved to be the end as well, it
  /// is taken.
  bool is_for_survivor = false;
};

/// The proof that a log can be recovered. docs/recovery.md says why the answers of some of the backups are enough.
///
/// The end of the log is the highest segment with an open replica that has a digest and is at or above the floor. The
/// members are those of that digest and nothing else. Each member needs a closed replica, and where there are closed
/// ones only these are read. For the end itself, and for its direct predecessor among the heads, an open replica at or
/// above the floor is enough as well. But if the predecessor is found open only, what was appended to the end is cut
/// off: none of it was acknowledged, and it may follow on something that this replica of the predecessor does not have.
///
/// An open replica that may be short proves which segment it belongs to, but not where that segment ends. Open replicas
/// that may be short are not read if there is another one. If there is none, the longest is the end when no longer one
/// can turn up; otherwise the log is not complete.
/// After a survivor has read the log, no open replica counts that has less than was read, and the end that was read
/// stays the end.
/// @param floor    of the dead server, as it was when its verdict was stored
/// @param answers  of servers that take nothing from the dead server any more, and that live
LogSurvey surveyLog(const ReplicaFloor& floor, const std::map<ServerId, std::vector<Replica>>& answers,
                    const SurveyFacts& facts);

/// Narrows a complete survey for a survivor, so that all holders of a segment give it the same: where open replicas are
/// read, only the shortest ones are left. Another reading may need them, and longer ones have what shorter ones have.
/// @return what is to be stored before the survivor is told to read: Server::read
std::vector<ReadSegment> narrowForSurvivor(SegmentId end, std::vector<SurveyedSegment>& segments);

}  // namespace ramcore::coordinator
