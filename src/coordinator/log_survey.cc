#include "coordinator/log_survey.h"

#include <set>

#include "base/mutation.h"

namespace ramcore::coordinator {
namespace {

using Answers = std::map<ServerId, std::vector<Replica>>;

// As a head that may not be closed everywhere.
bool countsOpen(const ReplicaFloor& floor, const Replica& replica) {
  if (RC_MUTATION("ignore-the-floor")) return !replica.is_closed && replica.has_digest;
  return !replica.is_closed && replica.has_digest && ReplicaFloor{replica.segment, replica.epoch} >= floor;
}

// The replica whose digest is the list of members: of several of one segment, which have the same digest, the newest.
const Replica* findEnd(const ReplicaFloor& floor, const Answers& answers) {
  const Replica* end = nullptr;
  for (const auto& [server, replicas] : answers) {
    for (const Replica& replica : replicas) {
      if (replica.segment == SegmentId() || !countsOpen(floor, replica)) continue;
      const bool is_newer = end == nullptr || replica.segment > end->segment ||
                            (replica.segment == end->segment && replica.epoch > end->epoch);
      if (is_newer) end = &replica;
    }
  }
  return end;
}

}  // namespace

LogSurvey surveyLog(const ReplicaFloor& floor, const Answers& answers) {
  LogSurvey survey;
  const Replica* end = findEnd(floor, answers);
  if (end == nullptr) return survey;
  survey.head = end->segment;
  std::map<SegmentId, std::set<ServerId>> holders;
  std::set<SegmentId> closed;
  for (const auto& [server, replicas] : answers) {
    for (const Replica& replica : replicas) {
      if (replica.is_closed) closed.insert(replica.segment);
    }
  }
  for (const SegmentId member : end->members) holders[member];
  holders[end->segment];
  std::set<ServerId> all;
  for (const auto& [server, replicas] : answers) {
    for (const Replica& replica : replicas) {
      const auto member = holders.find(replica.segment);
      const bool may_be_open = replica.segment == end->segment || replica.segment == end->previous_head;
      if (member == holders.end() || !(replica.is_closed || (may_be_open && countsOpen(floor, replica)))) continue;
      if (!replica.is_closed && replica.segment != end->segment && closed.contains(replica.segment)) continue;
      member->second.insert(server);
      all.insert(server);
    }
  }
  survey.holders.assign(all.begin(), all.end());
  std::map<ServerId, uint32_t> places;
  for (const ServerId server : survey.holders) places.emplace(server, static_cast<uint32_t>(places.size()));
  for (const auto& [segment, servers] : holders) {
    SurveyedSegment& to = survey.segments.emplace_back(SurveyedSegment{.id = segment, .holders = {}});
    to.is_cut = segment == end->segment && holders.contains(end->previous_head) && !closed.contains(end->previous_head);
    if (RC_MUTATION("keep-end-behind-open-predecessor")) to.is_cut = false;
    for (const ServerId server : servers) to.holders.push_back(places.at(server));
    if (servers.empty()) survey.missing.push_back(segment);
  }
  return survey;
}

}  // namespace ramcore::coordinator
