// What is brought back of a log that is not complete, and when an acceptance still holds.
#include "coordinator/survey/log_salvage.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "runtime/random.h"

namespace ramcore::coordinator {
namespace {

using Answers = std::map<ServerId, std::vector<Replica>>;
using Ids = std::vector<SegmentId>;

Replica closedSegment(uint64_t segment) {
  return {.segment = SegmentId(segment), .epoch = 1, .is_closed = true, .previous_head = {}, .members = {}};
}
Replica openSegment(uint64_t segment, uint32_t length_bytes) {
  return {.segment = SegmentId(segment), .epoch = 1, .length_bytes = length_bytes, .previous_head = {}, .members = {}};
}
Replica head(uint64_t segment, const std::vector<uint64_t>& members, bool is_closed, uint64_t epoch = 1,
             uint32_t length_bytes = 100) {
  Replica replica{.segment = SegmentId(segment),
                  .epoch = epoch,
                  .is_closed = is_closed,
                  .has_digest = true,
                  .length_bytes = length_bytes,
                  .previous_head = SegmentId(segment - 1),
                  .members = {}};
  for (const uint64_t member : members) replica.members.emplace_back(member);
  return replica;
}
Replica openHead(uint64_t segment, const std::vector<uint64_t>& members, uint64_t epoch = 1) {
  return head(segment, members, false, epoch);
}
Answers answersOf(const std::vector<std::vector<Replica>>& all) {
  Answers answers;
  for (size_t i = 0; i < all.size(); ++i) answers[ServerId(i + 1)] = all[i];
  return answers;
}
Ids ids(const std::vector<uint64_t>& numbers) { return {numbers.begin(), numbers.end()}; }

struct Case {
  const char* name;
  ReplicaFloor floor;
  std::vector<std::vector<Replica>> answers;  // of servers 1, 2, ...
  LogEnd end;
  uint64_t list;
  std::vector<uint64_t> whole;
  std::vector<uint64_t> in_part;
  std::vector<uint64_t> missing;
};

const std::vector<Case> kCases = {
    {"NobodyAnswers", {SegmentId(1), 1}, {}, LogEnd::NoDigest, 0, {}, {}, {}},
    {"NobodyHasAnything", {SegmentId(1), 1}, {{}, {}}, LogEnd::NoDigest, 0, {}, {}, {}},
    {"TheEndIsThereAndAMemberIsNot",
     {SegmentId(1), 1},
     {{closedSegment(2), openHead(5, {2, 4, 5})}},
     LogEnd::Known,
     5,
     {2, 5},
     {},
     {4}},
    {"WithTheEndNothingElseIsReplayed",
     {SegmentId(1), 1},
     {{closedSegment(1), closedSegment(7), openHead(5, {2, 5})}},
     LogEnd::Known,
     5,
     {5},
     {},
     {2}},
    {"AnOpenPredecessorThatCountsIsWhole",
     {SegmentId(1), 1},
     {{openHead(4, {2, 4}), openHead(5, {2, 4, 5})}},
     LogEnd::Known,
     5,
     {4, 5},
     {},
     {2}},
    {"AMemberThatIsFoundOpenOnly",
     {SegmentId(5), 1},
     {{openHead(3, {2, 3}), openSegment(2, 50), openHead(5, {2, 3, 5})}},
     LogEnd::Known,
     5,
     {5},
     {2, 3},
     {}},
    {"AStaleHeadIsAnOldList",
     {SegmentId(5), 2},
     {{closedSegment(2), openHead(5, {2, 4, 5}, 1)}},
     LogEnd::OldDigest,
     5,
     {2},
     {5},
     {4}},
    {"AClosedHeadIsAnOldList",
     {SegmentId(9), 1},
     {{closedSegment(2), closedSegment(3), head(5, {2, 4, 5}, true)}},
     LogEnd::OldDigest,
     5,
     {2, 5},
     {},
     {4}},
    {"BehindAnOldListEverythingCounts",
     {SegmentId(9), 1},
     {{head(5, {2, 5}, true), closedSegment(1), closedSegment(6), openSegment(7, 10)}, {closedSegment(8)}},
     LogEnd::OldDigest,
     5,
     {5, 6, 8},
     {7},
     {2}},
    {"TheNewestOfOldLists",
     {SegmentId(9), 1},
     {{head(5, {2, 5}, true), closedSegment(2)}, {head(7, {5, 6, 7}, true)}},
     LogEnd::OldDigest,
     7,
     {5, 7},
     {},
     {6}},
    {"WithoutAnyListAllThereIs",
     {SegmentId(9), 1},
     {{closedSegment(1), closedSegment(3)}, {openSegment(4, 10)}},
     LogEnd::NoDigest,
     0,
     {1, 3},
     {4},
     {}},
};

TEST(LogSalvage, Cases) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    const LogSalvage salvage = salvageLog(test.floor, answersOf(test.answers), {});
    EXPECT_EQ(salvage.end, test.end);
    EXPECT_EQ(salvage.list, SegmentId(test.list));
    EXPECT_EQ(salvage.whole, ids(test.whole));
    EXPECT_EQ(salvage.in_part, ids(test.in_part));
    EXPECT_EQ(salvage.missing, ids(test.missing));
  }
}

TEST(LogSalvage, ClosedReplicasAreReadWhereThereAreSomeAndTheLongestOpenOnesElsewhere) {
  const LogSalvage salvage = salvageLog({SegmentId(9), 1},
                                        answersOf({{openSegment(1, 500), openSegment(2, 10)},
                                                   {closedSegment(1), openSegment(2, 30)},
                                                   {closedSegment(1), openSegment(2, 30)},
                                                   {openSegment(2, 29)}}),
                                        {});
  EXPECT_EQ(salvage.holders, (std::vector<ServerId>{ServerId(2), ServerId(3)}));
  ASSERT_EQ(salvage.segments.size(), 2u);
  EXPECT_EQ(salvage.segments[0].holders, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(salvage.segments[1].holders, (std::vector<uint32_t>{0, 1}));
  EXPECT_FALSE(salvage.segments[1].is_cut);
  EXPECT_EQ(salvage.segments[0].replicas, std::vector(2, closedSegment(1).version()));
  EXPECT_EQ(salvage.segments[1].replicas, std::vector(2, openSegment(2, 30).version()));
}

TEST(LogSalvage, AnEndThatMayBeShortIsNotTheKnownEnd) {
  Replica end = openHead(5, {4, 5});
  end.maybe_short = true;
  const std::vector<std::vector<Replica>> answers = {{closedSegment(4), end}};
  const LogSalvage doubtful = salvageLog({SegmentId(5), 1}, answersOf(answers), {});
  EXPECT_EQ(doubtful.end, LogEnd::OldDigest);
  EXPECT_EQ(doubtful.list, SegmentId(5));
  EXPECT_EQ(doubtful.whole, ids({4}));
  EXPECT_EQ(doubtful.in_part, ids({5}));
  const LogSalvage sure = salvageLog({SegmentId(5), 1}, answersOf(answers), {.nobody_is_away = true});
  EXPECT_EQ(sure.end, LogEnd::Known);
  EXPECT_EQ(sure.whole, ids({4, 5}));
}

TEST(LogSalvage, TheTokenIsThatOfOneSituation) {
  const ReplicaFloor floor{SegmentId(1), 1};
  const auto token = [&](const std::vector<std::vector<Replica>>& answers, const std::vector<ServerId>& away) {
    return salvageLog(floor, answersOf(answers), {}).token(ServerId(9), away);
  };
  const std::vector<std::vector<Replica>> answers = {{closedSegment(2), openHead(5, {2, 4, 5})}, {}};
  const uint64_t shown = token(answers, {ServerId(7)});
  EXPECT_NE(shown, 0u);
  EXPECT_EQ(token(answers, {ServerId(7)}), shown);
  // One more replica of a segment that is there changes nothing.
  EXPECT_EQ(token({{closedSegment(2), openHead(5, {2, 4, 5})}, {closedSegment(2)}}, {ServerId(7)}), shown);
  EXPECT_NE(token(answers, {}), shown);
  EXPECT_NE(token(answers, {ServerId(7), ServerId(8)}), shown);
  EXPECT_NE(token({{openHead(5, {2, 4, 5})}, {}}, {ServerId(7)}), shown);
  EXPECT_NE(token({{closedSegment(2), openHead(5, {2, 4, 5}), openSegment(4, 8)}, {}}, {ServerId(7)}), shown);
  EXPECT_NE(salvageLog(floor, answersOf(answers), {}).token(ServerId(8), {ServerId(7)}), shown);
  EXPECT_NE(token({}, {}), 0u);
}

AcceptedLoss acceptedOf(const LogSalvage& salvage) {
  return {.token = 1, .list = salvage.list, .whole = salvage.whole, .in_part = salvage.in_part};
}

TEST(LogSalvage, AnAcceptanceCoversWhatLosesNoMore) {
  const ReplicaFloor floor{SegmentId(9), 1};
  const auto salvage = [&](const std::vector<std::vector<Replica>>& answers) {
    return salvageLog(floor, answersOf(answers), {});
  };
  const AcceptedLoss accepted =
      acceptedOf(salvage({{head(5, {2, 3, 4, 5}, true), closedSegment(2), openSegment(3, 8)}}));
  ASSERT_EQ(accepted.whole, ids({2, 5}));
  ASSERT_EQ(accepted.in_part, ids({3}));
  const auto holds = [&](const std::vector<std::vector<Replica>>& answers) {
    return covers(accepted, salvage(answers));
  };
  const Replica list = head(5, {2, 3, 4, 5}, true);
  EXPECT_TRUE(holds({{list, closedSegment(2), openSegment(3, 8)}}));
  EXPECT_TRUE(holds({{list, closedSegment(2), closedSegment(3)}})) << "more came back";
  EXPECT_TRUE(holds({{list, closedSegment(2), openSegment(3, 8), closedSegment(4), closedSegment(6)}}));
  EXPECT_FALSE(holds({{list, openSegment(3, 8)}})) << "a whole one is gone";
  EXPECT_FALSE(holds({{list, openSegment(2, 8), openSegment(3, 8)}})) << "a whole one is cut short now";
  EXPECT_FALSE(holds({{list, closedSegment(2)}})) << "the beginning of one is gone";
  EXPECT_FALSE(holds({}));
  EXPECT_TRUE(holds({{head(7, {5, 7}, true), list}})) << "a newer list says that 2 and 3 were freed";
  EXPECT_FALSE(holds({{head(7, {2, 5, 7}, true), list}})) << "a newer list says that 2 is still needed";
  EXPECT_FALSE(holds({{closedSegment(2), openSegment(3, 8)}})) << "the list is gone";
}

// For any set of replicas: segments that are replayed are there, each known member is in one of the lists, and a
// complete log loses nothing.
TEST(LogSalvage, KeepsItsPromisesForAnySetOfReplicas) {
  int known = 0;
  int old = 0;
  int none = 0;
  for (uint64_t seed = 1; seed <= 20'000; ++seed) {
    runtime::Random random(seed);
    const ReplicaFloor floor{SegmentId(1 + random.below(5)), random.below(3)};
    Answers answers;
    const uint64_t servers = 1 + random.below(3);
    for (uint64_t server = 1; server <= servers; ++server) {
      std::vector<Replica>& replicas = answers[ServerId(server)];
      for (uint64_t segment = 1; segment <= 5; ++segment) {
        if (random.below(2) == 0) continue;
        std::vector<uint64_t> members;
        if (random.below(2) == 0) {
          for (uint64_t member = 1; member < segment; ++member) {
            if (((seed >> (member + segment)) & 1) != 0) members.push_back(member);
          }
          members.push_back(segment);
        }
        Replica replica =
            head(segment, members, random.below(2) == 0, random.below(3), static_cast<uint32_t>(1 + random.below(100)));
        replica.has_digest = !members.empty();
        replicas.push_back(replica);
      }
    }
    const LogSurvey survey = surveyLog(floor, answers, {});
    const LogSalvage salvage = salvageLog(floor, answers, {});
    known += salvage.end == LogEnd::Known ? 1 : 0;
    old += salvage.end == LogEnd::OldDigest ? 1 : 0;
    none += salvage.end == LogEnd::NoDigest ? 1 : 0;
    ASSERT_EQ(salvage.end == LogEnd::Known, survey.head != SegmentId()) << seed;
    Ids replayed;
    for (const SurveyedSegment& segment : salvage.segments) {
      replayed.push_back(segment.id);
      ASSERT_FALSE(segment.holders.empty()) << seed;
      for (const uint32_t holder : segment.holders) {
        const std::vector<Replica>& of = answers.at(salvage.holders.at(holder));
        ASSERT_TRUE(std::any_of(of.begin(), of.end(), [&](const Replica& one) { return one.segment == segment.id; }));
      }
    }
    Ids listed;
    std::merge(salvage.whole.begin(), salvage.whole.end(), salvage.in_part.begin(), salvage.in_part.end(),
               std::back_inserter(listed));
    ASSERT_EQ(replayed, listed) << seed;
    if (survey.isComplete()) {
      ASSERT_TRUE(salvage.missing.empty() && salvage.in_part.empty()) << seed;
    }
    if (salvage.end == LogEnd::Known) {
      Ids not_whole;
      std::merge(salvage.missing.begin(), salvage.missing.end(), salvage.in_part.begin(), salvage.in_part.end(),
                 std::back_inserter(not_whole));
      ASSERT_EQ(not_whole, survey.missing) << seed;
    }
    ASSERT_TRUE(covers(acceptedOf(salvage), salvage)) << seed;
  }
  EXPECT_GT(known, 1'000);
  EXPECT_GT(old, 1'000);
  EXPECT_GT(none, 100);
}

}  // namespace
}  // namespace ramcore::coordinator
