#include "coordinator/survey/log_survey.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/mutation.h"

namespace ramcore::coordinator {
namespace {

using Answers = std::map<ServerId, std::vector<Replica>>;

using Read = std::span<const ReadSegment>;

const ReadSegment* findRead(const Read& read, SegmentId segment) {
  const auto known = std::ranges::find(read, segment, &ReadSegment::segment);
  return known == read.end() || RC_MUTATION("forget-what-was-read") ? nullptr : &*known;
}

// What counts as the log of a server that may have died at any moment, and which a survivor may have read since.
struct Bounds {
  const ReplicaFloor& floor;
  Read read;

  // Whether an open replica counts: that of a head which may not be closed everywhere.
  bool countsOpen(const Replica& replica) const {
    if (replica.is_closed || !replica.has_digest) return false;
    return ReplicaFloor{replica.segment, replica.epoch} >= floor || RC_MUTATION("ignore-the-floor");
  }
  // Whether it has all that was read of its segment as well.
  bool mayBeRead(const Replica& replica) const {
    const ReadSegment* known = findRead(read, replica.segment);
    return countsOpen(replica) && (known == nullptr || replica.length_bytes >= known->length_bytes);
  }
  // The end that was read stays the end: a later one may list less. It had been proved, so nothing behind it was
  // acknowledged. If it was cut, its predecessor is an end as well.
  bool mayBeEnd(const Replica& replica) const {
    if (read.empty() || RC_MUTATION("forget-what-was-read")) return countsOpen(replica);
    const bool is_predecessor =
        read.back().length_bytes == ReadSegment::kCut && replica.segment == read.front().segment;
    return countsOpen(replica) && (is_predecessor || replica.segment == read.back().segment);
  }
  // Whether something of this segment was replayed. Then it is not cut, and its predecessor was closed.
  bool wasReplayed(SegmentId segment) const {
    const ReadSegment* known = findRead(read, segment);
    return known != nullptr && known->length_bytes != ReadSegment::kCut;
  }
  // Everything that was acknowledged is in what was read.
  bool mayBeShort(const Replica& replica) const {
    if (RC_MUTATION("doubt-whole-replicas")) return !replica.is_closed;
    const bool is_proved = wasReplayed(replica.segment) && mayBeRead(replica);
    return replica.maybe_short && !is_proved && !RC_MUTATION("trust-short-replicas");
  }
};

// The replica whose digest is the list of members: of the highest segment that counts as open. All replicas of one
// segment have the same digest; this gives the newest.
const Replica* findEnd(const Bounds& bounds, const Answers& answers) {
  const Replica* end = nullptr;
  for (const auto& [server, replicas] : answers) {
    for (const Replica& replica : replicas) {
      if (replica.segment == SegmentId() || !bounds.mayBeEnd(replica)) continue;
      const bool is_newer = end == nullptr || replica.segment > end->segment ||
                            (replica.segment == end->segment && replica.epoch > end->epoch);
      if (is_newer) end = &replica;
    }
  }
  return end;
}

using Holder = std::pair<ServerId, const Replica*>;

// The replicas of one member of the log, or of its end, with their servers.
struct Holders {
  const Bounds* bounds = nullptr;
  std::vector<Holder> closed;  // whole
  std::vector<Holder> open;    // open ones that count

  bool isSure() const { return !closed.empty() || isSurelyOpen(); }
  bool isSurelyOpen() const {
    return std::any_of(open.begin(), open.end(), [this](const auto& one) { return !bounds->mayBeShort(*one.second); });
  }
  std::vector<Holder> chosen(bool is_end) const;
};

// The replicas that are to be read: of the end all that have all of it, of another segment only the closed ones if
// there are any.
std::vector<Holder> Holders::chosen(bool is_end) const {
  std::vector<Holder> replicas = closed;
  if (!closed.empty() && !is_end) return replicas;
  const bool is_sure = isSure();
  uint32_t longest = 0;
  for (const auto& [server, replica] : open) longest = std::max(longest, replica->length_bytes);
  for (const Holder& one : open) {
    if (is_sure ? !bounds->mayBeShort(*one.second) : one.second->length_bytes == longest) replicas.push_back(one);
  }
  // A server reports one replica of each segment. If it reports two, the closed one is read.
  std::ranges::sort(replicas, {}, [](const Holder& one) { return std::pair(one.first, !one.second->is_closed); });
  const auto behind = std::ranges::unique(replicas, {}, &Holder::first);
  replicas.erase(behind.begin(), behind.end());
  return replicas;
}

// The predecessor of an end, if it is proved to be the end as well: one of its open replicas is certainly not short.
const Replica* findEarlierEnd(const Bounds& bounds, const Answers& answers, const Replica& end) {
  const Replica* found = nullptr;
  for (const auto& [server, replicas] : answers) {
    for (const Replica& replica : replicas) {
      const bool is_end = replica.segment == end.previous_head && bounds.mayBeEnd(replica) &&
                          bounds.mayBeRead(replica) && !bounds.mayBeShort(replica);
      if (is_end && (found == nullptr || replica.epoch > found->epoch)) found = &replica;
    }
  }
  return found;
}

std::map<SegmentId, Holders> findHolders(const Bounds& bounds, const Answers& answers, const Replica& end) {
  const SegmentId open_predecessor = bounds.wasReplayed(end.segment) ? SegmentId() : end.previous_head;
  std::map<SegmentId, Holders> members;
  for (const SegmentId member : end.members) members[member].bounds = &bounds;
  members[end.segment].bounds = &bounds;
  for (const auto& [server, replicas] : answers) {
    for (const Replica& replica : replicas) {
      const auto member = members.find(replica.segment);
      if (member == members.end()) continue;
      const bool may_be_open = replica.segment == end.segment || replica.segment == open_predecessor ||
                               RC_MUTATION("take-members-that-are-open");
      if (replica.is_closed) {
        member->second.closed.emplace_back(server, &replica);
      } else if (may_be_open && bounds.mayBeRead(replica)) {
        member->second.open.emplace_back(server, &replica);
      }
    }
  }
  return members;
}

// Leaves the open replicas of this length.
void keepLength(uint32_t length_bytes, SurveyedSegment& segment) {
  size_t kept = 0;
  for (size_t i = 0; i < segment.holders.size(); ++i) {
    if (segment.replicas[i].closed != 0 || segment.replicas[i].length_bytes != length_bytes) continue;
    segment.holders[kept] = segment.holders[i];
    segment.replicas[kept++] = segment.replicas[i];
  }
  segment.holders.resize(kept);
  segment.replicas.resize(kept);
}

}  // namespace

LogSurvey surveyLog(const ReplicaFloor& floor, const Answers& answers, const SurveyFacts& facts) {
  LogSurvey survey;
  const Bounds bounds{floor, facts.read};
  const Replica* end = findEnd(bounds, answers);
  if (end == nullptr) return survey;
  if (const Replica* earlier = facts.is_for_survivor ? findEarlierEnd(bounds, answers, *end) : nullptr) end = earlier;
  survey.head = end->segment;
  const std::map<SegmentId, Holders> members = findHolders(bounds, answers, *end);
  std::map<SegmentId, std::vector<Holder>> chosen;
  std::set<ServerId> all;
  for (const auto& [segment, holders] : members) {
    chosen[segment] = holders.chosen(segment == end->segment);
    for (const auto& [server, replica] : chosen[segment]) all.insert(server);
  }
  survey.holders.assign(all.begin(), all.end());
  std::map<ServerId, uint32_t> places;
  for (const ServerId server : survey.holders) places.emplace(server, static_cast<uint32_t>(places.size()));
  const auto previous = members.find(end->previous_head);
  const bool is_behind_open = previous != members.end() && previous->second.closed.empty();
  for (const auto& [segment, holders] : members) {
    SurveyedSegment& to = survey.segments.emplace_back(SurveyedSegment{.id = segment, .holders = {}, .replicas = {}});
    to.is_cut = segment == end->segment && is_behind_open;
    for (const auto& [server, replica] : chosen[segment]) {
      to.holders.push_back(places.at(server));
      to.replicas.push_back(replica->version());
    }
    if (to.holders.empty()) survey.missing.push_back(segment);
    // If the end is cut, only what was flushed when it was opened counts, so nothing is in doubt. Otherwise the end
    // needs an open replica that is certainly not short, unless nobody is away. A closed one is not enough: a segment
    // that was closed had a successor, which may be away, and open replicas that came through a loss of power may have
    // lost that they were closed.
    const bool is_end = segment == end->segment && !bounds.wasReplayed(segment);
    const bool is_sure = is_end ? holders.isSurelyOpen() : holders.isSure();
    if (to.holders.empty() || to.is_cut || is_sure || facts.nobody_is_away) continue;
    DoubtfulSegment& doubtful = survey.doubtful.emplace_back(DoubtfulSegment{.id = segment, .held_by = {}});
    for (const auto& [server, replica] : holders.open) doubtful.held_by.push_back(server);
  }
  return survey;
}

std::vector<ReadSegment> narrowForSurvivor(SegmentId end, std::vector<SurveyedSegment>& segments) {
  std::vector<ReadSegment> read;
  for (SurveyedSegment& segment : segments) {
    uint32_t shortest = ReadSegment::kClosed;
    for (const wire::ReplicaVersion& replica : segment.replicas) {
      if (replica.closed == 0) shortest = std::min(shortest, replica.length_bytes);
    }
    if (segment.is_cut) {
      read.push_back({segment.id, ReadSegment::kCut});
      continue;
    }
    if (shortest != ReadSegment::kClosed) keepLength(shortest, segment);
    if (shortest != ReadSegment::kClosed || segment.id == end) read.push_back({segment.id, shortest});
  }
  return read;
}

}  // namespace ramcore::coordinator
