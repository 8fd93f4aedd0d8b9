#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "coordinator/survey/log_survey.h"

namespace ramcore::coordinator {

/// Where the list of a log's members comes from when its recovery continues without some of them.
enum class LogEnd : uint8_t {
  Known = 1,      ///< an open head that counts: its digest is the list, and nothing acknowledged is after it
  OldDigest = 2,  ///< the end is lost, or may be: the newest digest found, and every newer segment
  NoDigest = 3,   ///< no digest was found: all segments that there are, also those that were freed long ago
};

/// What can be brought back of a log that is not complete, and what is given up.
struct LogSalvage {
  LogEnd end = LogEnd::NoDigest;
  SegmentId list;                         ///< the segment whose digest is the list; none without a digest
  std::vector<ServerId> holders;          ///< ascending
  std::vector<SurveyedSegment> segments;  ///< segments that a server has, ascending; none is cut
  std::vector<SegmentId> whole;           ///< segments of these that are as they were acknowledged
  std::vector<SegmentId> in_part;  ///< segments of these from the beginning to where the replica that is left ends
  std::vector<SegmentId> missing;  ///< known members of which nothing is left, ascending

  /// A fingerprint. While it is the same, nothing has come back and no more is gone. Never 0.
  /// @param away  servers that keep replicas and have not said which
  uint64_t token(ServerId dead, const std::vector<ServerId>& away) const;
};

/// The plan for a log that surveyLog() finds incomplete. It promises little: each key has a value that it once had, and
/// each replayed segment is read from one replica. If the list is not the last one, or a segment with a removal is
/// missing, what was removed or overwritten may come back.
///
/// If a segment has closed replicas, these are read. Otherwise the longest open ones are, which have all that shorter
/// ones have, because all replicas of a segment are beginnings of the same bytes. Every segment after the list's own
/// one counts, not heads alone: a survivor may have what the members that it replaced had. Arguments as those of
/// surveyLog().
LogSalvage salvageLog(const ReplicaFloor& floor, const std::map<ServerId, std::vector<Replica>>& answers,
                      const SurveyFacts& facts);

/// Whether nothing more would be lost now than was accepted: each segment that was to be brought back still is, as
/// whole as before, or turns out not to be a member of the log.
bool covers(const AcceptedLoss& accepted, const LogSalvage& now);

}  // namespace ramcore::coordinator
