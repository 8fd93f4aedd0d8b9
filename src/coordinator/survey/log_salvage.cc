#include "coordinator/survey/log_salvage.h"

#include <algorithm>
#include <set>

#include "base/hash.h"

namespace ramcore::coordinator {
namespace {

using Answers = std::map<ServerId, std::vector<Replica>>;

using Readable = std::map<ServerId, wire::ReplicaVersion>;

// The replicas that there are of one segment.
struct Found {
  Readable closed;
  Readable open;  // the longest ones
  uint32_t open_bytes = 0;

  const Readable& readable() const { return closed.empty() ? open : closed; }
};

std::map<SegmentId, Found> findAll(const Answers& answers) {
  std::map<SegmentId, Found> all;
  for (const auto& [server, replicas] : answers) {
    for (const Replica& replica : replicas) {
      if (replica.segment == SegmentId()) continue;
      Found& found = all[replica.segment];
      if (replica.is_closed) {
        found.closed.emplace(server, replica.version());
        continue;
      }
      if (replica.length_bytes > found.open_bytes) found.open.clear();
      if (replica.length_bytes < found.open_bytes) continue;
      found.open_bytes = replica.length_bytes;
      found.open.emplace(server, replica.version());
    }
  }
  return all;
}

// The newest replica that lists members, whether it counts or not.
const Replica* findList(const Answers& answers) {
  const Replica* newest = nullptr;
  for (const auto& [server, replicas] : answers) {
    for (const Replica& replica : replicas) {
      if (replica.segment == SegmentId() || replica.members.empty()) continue;
      const bool is_newer = newest == nullptr || replica.segment > newest->segment ||
                            (replica.segment == newest->segment && replica.epoch > newest->epoch);
      if (is_newer) newest = &replica;
    }
  }
  return newest;
}

bool contains(const std::vector<SegmentId>& sorted, SegmentId segment) {
  return std::binary_search(sorted.begin(), sorted.end(), segment);
}

}  // namespace

LogSalvage salvageLog(const ReplicaFloor& floor, const Answers& answers, const SurveyFacts& facts) {
  LogSalvage salvage;
  const LogSurvey survey = surveyLog(floor, answers, facts);
  const std::map<SegmentId, Found> all = findAll(answers);
  std::set<SegmentId> wanted;
  std::set<SegmentId> proved;  // segments that need no closed replica
  if (survey.head != SegmentId() && survey.doubtful.empty()) {
    salvage.end = LogEnd::Known;
    salvage.list = survey.head;
    for (const SurveyedSegment& segment : survey.segments) {
      wanted.insert(segment.id);
      if (!segment.holders.empty()) proved.insert(segment.id);
    }
  } else if (const Replica* list = findList(answers)) {
    salvage.end = LogEnd::OldDigest;
    salvage.list = list->segment;
    wanted.insert(list->members.begin(), list->members.end());
    for (auto at = all.lower_bound(list->segment); at != all.end(); ++at) wanted.insert(at->first);
  } else {
    for (const auto& [segment, found] : all) wanted.insert(segment);
  }

  std::set<ServerId> holders;
  for (const SegmentId segment : wanted) {
    const auto found = all.find(segment);
    if (found == all.end()) {
      salvage.missing.push_back(segment);
      continue;
    }
    const bool is_whole = !found->second.closed.empty() || proved.contains(segment);
    (is_whole ? salvage.whole : salvage.in_part).push_back(segment);
    for (const auto& [server, version] : found->second.readable()) holders.insert(server);
  }
  salvage.holders.assign(holders.begin(), holders.end());
  for (const SegmentId segment : wanted) {
    const auto found = all.find(segment);
    if (found == all.end()) continue;
    SurveyedSegment& to = salvage.segments.emplace_back(SurveyedSegment{.id = segment, .holders = {}, .replicas = {}});
    for (const auto& [server, version] : found->second.readable()) {
      const auto place = std::lower_bound(salvage.holders.begin(), salvage.holders.end(), server);
      to.holders.push_back(static_cast<uint32_t>(place - salvage.holders.begin()));
      to.replicas.push_back(version);
    }
  }
  return salvage;
}

uint64_t LogSalvage::token(ServerId dead, const std::vector<ServerId>& away) const {
  std::vector<uint64_t> numbers = {dead.value, static_cast<uint64_t>(end), list.value};
  const auto add = [&numbers](const auto& ids) {
    numbers.push_back(ids.size());
    for (const auto id : ids) numbers.push_back(id.value);
  };
  add(whole);
  add(in_part);
  add(missing);
  add(away);
  return std::max<uint64_t>(1, fingerprint(std::as_bytes(std::span(numbers))));
}

bool covers(const AcceptedLoss& accepted, const LogSalvage& now) {
  // If the list is newer than the accepted one, a segment that it leaves out was freed.
  const auto is_freed = [&](SegmentId segment) {
    return now.list > accepted.list && segment <= now.list && !contains(now.whole, segment) &&
           !contains(now.in_part, segment) && !contains(now.missing, segment);
  };
  const auto is_left = [&](SegmentId segment) { return contains(now.whole, segment) || is_freed(segment); };
  return std::all_of(accepted.whole.begin(), accepted.whole.end(), is_left) &&
         std::all_of(accepted.in_part.begin(), accepted.in_part.end(),
                     [&](SegmentId segment) { return contains(now.in_part, segment) || is_left(segment); });
}

}  // namespace ramcore::coordinator
