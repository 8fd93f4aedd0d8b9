#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "coordinator/survey/log_survey.h"

namespace ramcore::coordinator {

/// Where the list of a log's members comes from when its recovery goes on without some of them.
enum class LogEnd : uint8_t {
  Known = 1,      ///< an open head that counts: its digest is the list, nothing acknowledged lies behind it
  OldDigest = 2,  ///< the end is lost, or may be: the newest digest that there is, and whatever is newer
  NoDigest = 3,   ///< not even that: all there is, also what was freed long ago
};

/// What can be brought back of a log that is not complete, and what is given up.
struct LogSalvage {
  LogEnd end = LogEnd::NoDigest;
  SegmentId list;                         ///< whose digest; none without one
  std::vector<ServerId> holders;          ///< ascending
  std::vector<SurveyedSegment> segments;  ///< that somebody has, ascending; nothing is cut
  std::vector<SegmentId> whole;           ///< of these, as they were acknowledged
  std::vector<SegmentId> in_part;         ///< of these, from the beginning to wherever the replica that is left ends
  std::vector<SegmentId> missing;         ///< known members of which there is nothing, ascending

  /// For as long as it is the same, nothing has come back and no more is gone. Never 0.
  /// @param away  servers that keep replicas and have not said which
  uint64_t token(ServerId dead, const std::vector<ServerId>& away) const;
};

/// The plan for a log that surveyLog() finds incomplete. Its promise is small: each key has a value that it once had,
/// and each replayed segment is read from one replica. Where the list is not the last one, or a segment with a removal
/// is missing, what was removed or overwritten may come back.
///
/// Of a segment with closed replicas those are read; otherwise the longest open ones, which have all that shorter ones
/// have, because all replicas of a segment are beginnings of the same bytes. Behind the list's own segment everything
/// counts, not heads alone: a survivor may have what the members that it replaced had.
/// Arguments as those of surveyLog().
LogSalvage salvageLog(const ReplicaFloor& floor, const std::map<ServerId, std::vector<Replica>>& answers,
                      const SurveyFacts& facts);

/// Whether nothing more would be lost now than was accepted: each segment that was to be brought back still is, as
/// whole as before, or turns out to be no member of the log.
bool covers(const AcceptedLoss& accepted, const LogSalvage& now);

}  // namespace ramcore::coordinator
