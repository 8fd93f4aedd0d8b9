// The proof that a log is complete: cases by hand, and a comparison with the rule written down in another way.
#include "coordinator/survey/log_survey.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "runtime/random.h"

namespace ramcore::coordinator {
namespace {

using Answers = std::map<ServerId, std::vector<Replica>>;

Replica closedSegment(uint64_t segment, uint64_t epoch = 1) {
  return {.segment = SegmentId(segment), .epoch = epoch, .is_closed = true, .previous_head = {}, .members = {}};
}
// A head that was closed: it says so, but lists nothing.
Replica closedHead(uint64_t segment, uint64_t epoch = 1) {
  Replica replica = closedSegment(segment, epoch);
  replica.has_digest = true;
  return replica;
}
Replica openHead(uint64_t segment, uint64_t previous, const std::vector<uint64_t>& members, uint64_t epoch = 1) {
  Replica replica{.segment = SegmentId(segment),
                  .epoch = epoch,
                  .has_digest = true,
                  .previous_head = SegmentId(previous),
                  .members = {}};
  for (const uint64_t member : members) replica.members.emplace_back(member);
  return replica;
}
// An open replica of a segment of a survivor or a side log.
Replica openSegment(uint64_t segment, uint64_t epoch = 1) {
  return {.segment = SegmentId(segment), .epoch = epoch, .previous_head = {}, .members = {}};
}
Answers answersOf(const std::vector<std::vector<Replica>>& all) {
  Answers answers;
  for (size_t i = 0; i < all.size(); ++i) answers[ServerId(i + 1)] = all[i];
  return answers;
}

struct Case {
  const char* name;
  ReplicaFloor floor;
  std::vector<std::vector<Replica>> answers;  // of servers 1, 2, ...
  uint64_t head;
  std::vector<uint64_t> missing;
};

const std::vector<Case> kCases = {
    {"NobodyAnswers", {SegmentId(1), 1}, {}, 0, {}},
    {"NobodyHasAnything", {SegmentId(1), 1}, {{}, {}}, 0, {}},
    {"OneHead", {SegmentId(1), 1}, {{openHead(1, 0, {1})}}, 1, {}},
    {"NoFloorWasEverRaised", {}, {{openHead(1, 0, {1}, 0)}}, 1, {}},
    {"AllClosedButNoEnd", {SegmentId(1), 1}, {{closedHead(1), closedHead(2)}}, 0, {}},
    {"AnOpenSurvivorIsNoEnd", {SegmentId(1), 1}, {{closedHead(1), openSegment(2)}}, 0, {}},
    {"StaleEpochOfTheHead", {SegmentId(5), 2}, {{openHead(5, 0, {5}, 1)}}, 0, {}},
    {"StaleSegment", {SegmentId(5), 1}, {{openHead(4, 0, {4}, 9)}}, 0, {}},
    {"AtTheFloor", {SegmentId(5), 2}, {{openHead(5, 0, {5}, 2)}}, 5, {}},
    {"AboveTheFloorInEpoch", {SegmentId(5), 2}, {{openHead(5, 0, {5}, 3)}}, 5, {}},
    {"AboveTheFloorInSegmentBelowInEpoch", {SegmentId(5), 7}, {{openHead(6, 5, {6}, 1)}}, 6, {}},
    {"StaleOneBesideAGoodOne", {SegmentId(5), 2}, {{openHead(5, 0, {5}, 1)}, {openHead(5, 0, {5}, 2)}}, 5, {}},
    {"HighestHeadWins", {SegmentId(1), 1}, {{openHead(1, 0, {1})}, {openHead(2, 1, {1, 2}), closedHead(1)}}, 2, {}},
    {"PredecessorMayBeOpen", {SegmentId(1), 1}, {{openHead(1, 0, {1}), openHead(2, 1, {1, 2})}}, 2, {}},
    {"PredecessorBelowTheFloor", {SegmentId(2), 1}, {{openHead(1, 0, {1}), openHead(2, 1, {1, 2})}}, 2, {1}},
    {"PredecessorStaleInEpoch", {SegmentId(1), 2}, {{openHead(1, 0, {1}, 1), openHead(2, 1, {1, 2}, 1)}}, 2, {1}},
    {"PredecessorClosedBelowTheFloor", {SegmentId(2), 1}, {{closedHead(1), openHead(2, 1, {1, 2})}}, 2, {}},
    {"ThePredecessorOfThePredecessorIsOpen",
     {SegmentId(1), 1},
     {{openHead(1, 0, {1}), openHead(2, 1, {1, 2}), openHead(3, 2, {1, 2, 3})}},
     3,
     {1}},
    {"SurvivorNeedsToBeClosed", {SegmentId(1), 1}, {{openSegment(2, 9), openHead(3, 1, {2, 3})}}, 3, {2}},
    {"SurvivorClosedElsewhere",
     {SegmentId(1), 1},
     {{openSegment(2), openHead(3, 1, {2, 3})}, {closedSegment(2)}},
     3,
     {}},
    {"PredecessorThatIsNoMemberIsNotAskedFor",
     {SegmentId(1), 1},
     {{openHead(3, 1, {2, 3})}, {closedSegment(2)}},
     3,
     {}},
    {"SomeAreMissing", {SegmentId(1), 1}, {{closedSegment(2), openHead(9, 8, {2, 4, 6, 8, 9})}}, 9, {4, 6, 8}},
    {"WhatIsNotListedIsNotReplayed",
     {SegmentId(1), 1},
     {{closedSegment(1), closedSegment(2), closedHead(7), openHead(5, 4, {2, 5})}},
     5,
     {}},
    {"TheHeadCountsAlthoughItDoesNotListItself", {SegmentId(1), 1}, {{openHead(5, 4, {2}), closedSegment(2)}}, 5, {}},
    {"ListedTwice", {SegmentId(1), 1}, {{openHead(5, 4, {2, 5, 2, 5}), closedSegment(2)}}, 5, {}},
    {"SegmentNone", {SegmentId(0), 0}, {{openHead(0, 0, {0})}}, 0, {}},
    {"MembersAreSpreadOut",
     {SegmentId(1), 1},
     {{closedSegment(1)}, {closedSegment(2)}, {closedSegment(3)}, {openHead(4, 3, {1, 2, 3, 4})}},
     4,
     {}},
};

TEST(LogSurvey, Cases) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    const LogSurvey survey = surveyLog(test.floor, answersOf(test.answers), {});
    EXPECT_EQ(survey.head, SegmentId(test.head));
    std::vector<SegmentId> missing;
    for (const uint64_t segment : test.missing) missing.emplace_back(segment);
    EXPECT_EQ(survey.missing, missing);
    EXPECT_EQ(survey.isComplete(), test.head != 0 && test.missing.empty());
  }
}

TEST(LogSurvey, HoldersAreThoseWhoseReplicasCount) {
  const LogSurvey survey = surveyLog({SegmentId(2), 2},
                                     answersOf({{closedSegment(1), openHead(3, 2, {1, 2, 3}, 1)},
                                                {openHead(2, 1, {1, 2}, 1), closedSegment(9)},
                                                {openHead(2, 1, {1, 2}, 2), openSegment(1)},
                                                {closedHead(2), closedHead(3)}}),
                                     {});
  EXPECT_TRUE(survey.isComplete());
  EXPECT_EQ(survey.holders, (std::vector<ServerId>{ServerId(1), ServerId(4)}));
  ASSERT_EQ(survey.segments.size(), 3u);
  EXPECT_EQ(survey.segments[0].holders, (std::vector<uint32_t>{0}));
  EXPECT_EQ(survey.segments[1].holders, (std::vector<uint32_t>{1}));
  EXPECT_EQ(survey.segments[2].holders, (std::vector<uint32_t>{0, 1}));
}

// What was appended to the end may follow on something that only a longer replica of the predecessor has.
TEST(LogSurvey, BehindAnOpenPredecessorTheEndIsCut) {
  const auto survey = [](const std::vector<std::vector<Replica>>& answers) {
    return surveyLog({SegmentId(1), 1}, answersOf(answers), {});
  };
  const LogSurvey open = survey({{openHead(2, 1, {2}), openHead(3, 2, {2, 3})}});
  ASSERT_TRUE(open.isComplete());
  EXPECT_FALSE(open.segments[0].is_cut);
  EXPECT_TRUE(open.segments[1].is_cut);
  const LogSurvey closed = survey({{openHead(2, 1, {2}), openHead(3, 2, {2, 3})}, {closedHead(2)}});
  ASSERT_TRUE(closed.isComplete());
  EXPECT_FALSE(closed.segments[1].is_cut);
  const LogSurvey first = survey({{openHead(2, 0, {2})}});
  EXPECT_FALSE(first.segments[0].is_cut);
}

TEST(LogSurvey, AnOpenPredecessorIsNotReadWhereThereIsAClosedOne) {
  const LogSurvey survey =
      surveyLog({SegmentId(1), 1},
                answersOf({{openHead(2, 1, {2}), openHead(3, 2, {2, 3})}, {closedHead(2)}, {closedHead(3)}}), {});
  EXPECT_EQ(survey.holders, (std::vector<ServerId>{ServerId(1), ServerId(2), ServerId(3)}));
  EXPECT_EQ(survey.segments[0].holders, (std::vector<uint32_t>{1}));
  EXPECT_EQ(survey.segments[1].holders, (std::vector<uint32_t>{0, 2}));
}

TEST(LogSurvey, SaysOfEachHolderWhichReplicaIsMeant) {
  const auto sized = [](Replica replica, uint32_t bytes, uint64_t epoch = 1) {
    replica.length_bytes = bytes;
    replica.epoch = epoch;
    return replica;
  };
  using Versions = std::vector<wire::ReplicaVersion>;
  // The closed replicas of the first segment are chosen, of which one was made after a compaction. For the end those
  // are chosen that are not short, whatever their lengths.
  Replica doubtful = sized(openHead(2, 1, {1, 2}), 100);
  doubtful.maybe_short = true;
  const LogSurvey survey = surveyLog({SegmentId(1), 1},
                                     answersOf({{sized(openHead(1, 0, {1}), 300), sized(openHead(2, 1, {1, 2}), 700)},
                                                {sized(closedHead(1), 800, 3), sized(openHead(2, 1, {1, 2}), 600)},
                                                {sized(closedHead(1), 200, 4), doubtful}}),
                                     {});
  ASSERT_TRUE(survey.isComplete());
  ASSERT_EQ(survey.segments.size(), 2u);
  EXPECT_EQ(survey.segments[0].holders, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(survey.segments[0].replicas, (Versions{{3, 800, 1}, {4, 200, 1}}));
  EXPECT_EQ(survey.segments[1].holders, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(survey.segments[1].replicas, (Versions{{1, 700, 0}, {1, 600, 0}}));
  const LogSurvey alone =
      surveyLog({SegmentId(1), 1}, answersOf({{sized(closedHead(1), 800), doubtful}}), {.nobody_is_away = true});
  ASSERT_TRUE(alone.isComplete());
  EXPECT_EQ(alone.segments[1].replicas, (Versions{{1, 100, 0}}));
}

TEST(LogSurvey, TheDigestIsThatOfTheNewestReplicaOfTheEnd) {
  const LogSurvey survey =
      surveyLog({SegmentId(1), 1}, answersOf({{openHead(3, 2, {3}, 1)}, {openHead(3, 2, {2, 3}, 2)}}), {});
  EXPECT_EQ(survey.missing, std::vector<SegmentId>{SegmentId(2)});
}

// ---- what a survivor has read

Replica ofLength(uint32_t length_bytes, Replica replica) {
  replica.length_bytes = length_bytes;
  return replica;
}
LogSurvey afterReading(const std::vector<ReadSegment>& read, const std::vector<std::vector<Replica>>& answers) {
  return surveyLog({SegmentId(1), 1}, answersOf(answers), {.nobody_is_away = false, .read = read});
}
LogSurvey forSurvivor(const std::vector<std::vector<Replica>>& answers) {
  return surveyLog({SegmentId(1), 1}, answersOf(answers), {.is_for_survivor = true});
}
Replica doubtfulOne(Replica replica) {
  replica.maybe_short = true;
  return replica;
}

TEST(LogSurvey, NoLessIsReadThanASurvivorHasRead) {
  const std::vector<ReadSegment> read{{SegmentId(2), 500}};
  const auto end = [](uint32_t length) { return ofLength(length, openHead(2, 1, {2})); };
  const LogSurvey both = afterReading(read, {{end(499)}, {end(500)}, {end(600)}});
  ASSERT_TRUE(both.isComplete());
  EXPECT_EQ(both.holders, (std::vector<ServerId>{ServerId(2), ServerId(3)}));
  const LogSurvey shorter = afterReading(read, {{end(499)}});
  EXPECT_EQ(shorter.missing, std::vector<SegmentId>{SegmentId(2)}) << "though nobody is away";
  EXPECT_TRUE(afterReading({}, {{end(499)}}).isComplete());
  EXPECT_TRUE(afterReading(read, {{end(499)}, {ofLength(300, closedHead(2))}}).isComplete()) << "a closed one has all";
  EXPECT_FALSE(afterReading(read, {{doubtfulOne(end(499))}}).isComplete());
  EXPECT_TRUE(afterReading(read, {{doubtfulOne(end(500))}}).isComplete()) << "nothing was acknowledged behind that";
  EXPECT_TRUE(afterReading(read, {{doubtfulOne(end(600))}, {end(499)}}).isComplete());
}

// A later end may list less: survivors of the cleaner in the place of what they were made from.
TEST(LogSurvey, TheEndThatASurvivorHasReadStaysTheEnd) {
  const std::vector<std::vector<Replica>> both{
      {closedSegment(1), ofLength(600, openHead(2, 0, {1, 2}))},
      {closedHead(2), closedSegment(4), ofLength(200, openHead(3, 2, {2, 3, 4}))}};
  EXPECT_EQ(afterReading({}, both).head, SegmentId(3));
  const LogSurvey again = afterReading({{SegmentId(2), 600}}, both);
  EXPECT_EQ(again.head, SegmentId(2));
  ASSERT_TRUE(again.isComplete());
  EXPECT_EQ(again.segments.front().id, SegmentId(1));
  EXPECT_EQ(afterReading({{SegmentId(2), 601}}, both).head, SegmentId(2)) << "it says where the log ends";
  EXPECT_EQ(afterReading({{SegmentId(3), 200}}, {both[0]}).head, SegmentId()) << "an earlier one has less";
  const std::vector<ReadSegment> cut{{SegmentId(2), 500}, {SegmentId(3), ReadSegment::kCut}};
  const LogSurvey predecessor = afterReading(cut, {both[0]});
  EXPECT_EQ(predecessor.head, SegmentId(2)) << "all that was replayed is there";
  EXPECT_TRUE(predecessor.isComplete());
}

TEST(LogSurvey, ASurvivorIsToldTheEarliestEnd) {
  const std::vector<Replica> end{closedHead(2), openHead(3, 2, {2, 3})};
  const Replica earlier = ofLength(600, openHead(2, 0, {2}));
  EXPECT_EQ(forSurvivor({end, {earlier}}).head, SegmentId(2));
  EXPECT_EQ(forSurvivor({end, {doubtfulOne(earlier)}}).head, SegmentId(3)) << "it may not be all of it";
  EXPECT_EQ(forSurvivor({end}).head, SegmentId(3));
  EXPECT_EQ(surveyLog({SegmentId(1), 1}, answersOf({end, {earlier}}), {}).head, SegmentId(3));
}

TEST(LogSurvey, AnEndThatWasReplayedIsNotCut) {
  const auto answers = [](uint32_t predecessor) {
    return std::vector<std::vector<Replica>>{
        {ofLength(predecessor, openHead(2, 1, {2})), ofLength(200, openHead(3, 2, {2, 3}))}};
  };
  EXPECT_EQ(afterReading({{SegmentId(3), 200}}, answers(900)).missing, std::vector<SegmentId>{SegmentId(2)});
  const std::vector<ReadSegment> cut{{SegmentId(2), 400}, {SegmentId(3), ReadSegment::kCut}};
  const LogSurvey longer = afterReading(cut, answers(400));
  ASSERT_TRUE(longer.isComplete());
  EXPECT_TRUE(longer.segments[1].is_cut);
  EXPECT_EQ(afterReading(cut, answers(399)).missing, std::vector<SegmentId>{SegmentId(2)});
}

TEST(LogSurvey, ASurvivorReadsTheShortestOfOpenReplicas) {
  LogSurvey survey = afterReading({}, {{closedHead(2), ofLength(700, openHead(3, 2, {2, 3}))},
                                       {closedHead(2), ofLength(600, openHead(3, 2, {2, 3}))},
                                       {ofLength(650, closedHead(3))},
                                       {ofLength(600, openHead(3, 2, {2, 3}))}});
  EXPECT_EQ(narrowForSurvivor(survey.head, survey.segments), (std::vector<ReadSegment>{{SegmentId(3), 600}}));
  EXPECT_EQ(survey.segments[0].holders, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(survey.segments[1].holders, (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(survey.segments[1].replicas, (std::vector<wire::ReplicaVersion>{{1, 600, 0}, {1, 600, 0}}));
  LogSurvey cut = afterReading({}, {{ofLength(300, openHead(2, 1, {2})), ofLength(160, openHead(3, 2, {2, 3}))},
                                    {ofLength(200, openHead(2, 1, {2})), ofLength(900, openHead(3, 2, {2, 3}))}});
  EXPECT_EQ(narrowForSurvivor(cut.head, cut.segments),
            (std::vector<ReadSegment>{{SegmentId(2), 200}, {SegmentId(3), ReadSegment::kCut}}));
  EXPECT_EQ(cut.segments[0].holders, std::vector<uint32_t>{1});
  EXPECT_EQ(cut.segments[1].holders, (std::vector<uint32_t>{0, 1}));
  const Replica doubtful = doubtfulOne(ofLength(100, openHead(3, 2, {3})));
  LogSurvey closed = surveyLog({SegmentId(1), 1}, answersOf({{doubtful}, {closedHead(3)}}), {.nobody_is_away = true});
  ASSERT_TRUE(closed.isComplete());
  EXPECT_EQ(narrowForSurvivor(closed.head, closed.segments),
            (std::vector<ReadSegment>{{SegmentId(3), ReadSegment::kClosed}}));
  EXPECT_TRUE(afterReading({{SegmentId(3), ReadSegment::kClosed}}, {{doubtful}, {closedHead(3)}}).isComplete());
  EXPECT_FALSE(afterReading({{SegmentId(3), ReadSegment::kClosed}}, {{doubtful}}).isComplete());
}

// ---- replicas that came through a loss of power

Replica shortened(Replica replica, uint32_t length_bytes) {
  replica.maybe_short = true;
  replica.length_bytes = length_bytes;
  return replica;
}
Replica withLength(Replica replica, uint32_t length_bytes) {
  replica.length_bytes = length_bytes;
  return replica;
}

struct ShortCase {
  const char* name;
  std::vector<std::vector<Replica>> answers;  // of servers 1, 2, ...; the floor is (2, 1)
  std::vector<uint64_t> doubtful;             // with no facts
  std::vector<uint64_t> end_holders;          // once it is complete: servers that are asked for the end
};

const std::vector<ShortCase> kShortCases = {
    {"OnlyAShortEnd", {{shortened(openHead(2, 1, {2}), 100)}}, {2}, {1}},
    {"TheLongestOfShortOnes",
     {{shortened(openHead(2, 1, {2}), 100)},
      {shortened(openHead(2, 1, {2}), 300)},
      {shortened(openHead(2, 1, {2}), 200)},
      {shortened(openHead(2, 1, {2}), 300)}},
     {2},
     {2, 4}},
    {"TheLongestMayBeOfALowerEpoch",
     {{shortened(openHead(2, 1, {2}, 1), 300)}, {shortened(openHead(2, 1, {2}, 2), 200)}},
     {2},
     {1}},
    {"OneThatKeptItsPowerIsEnough",
     {{shortened(openHead(2, 1, {2}), 500)}, {withLength(openHead(2, 1, {2}), 400)}},
     {},
     {2}},
    {"OneThatKeptItsPowerBelowTheFloorIsNone",
     {{shortened(openHead(2, 1, {2}), 100)}, {withLength(openHead(2, 1, {2}, 0), 400)}},
     {2},
     {1}},
    {"OneThatKeptItsPowerOfAnEarlierHeadIsNotTheEnd",
     {{shortened(openHead(3, 2, {3}), 100)}, {withLength(openHead(2, 1, {2}), 400)}},
     {3},
     {1}},
    {"AClosedEndIsWholeAndPerhapsNotTheEnd",
     {{shortened(openHead(2, 1, {2}), 100)}, {closedHead(2)}, {shortened(closedHead(2), 900)}},
     {2},
     {2, 3}},
    {"AClosedEndThatIsOpenWhereTheDiskKeptItsPower",
     {{withLength(openHead(2, 1, {2}), 100)}, {closedHead(2)}},
     {},
     {1, 2}},
    {"AShortEndBehindAClosedPredecessor",
     {{shortened(openHead(3, 2, {2, 3}), 100), shortened(closedHead(2), 900)}},
     {3},
     {1}},
    {"OfAnEndThatIsCutOnlyWhatWasFlushedCounts",
     {{shortened(openHead(3, 2, {2, 3}), 100)}, {withLength(openHead(2, 1, {2}), 400)}},
     {},
     {1}},
    {"AShortPredecessor", {{withLength(openHead(3, 2, {2, 3}), 100), shortened(openHead(2, 1, {2}), 400)}}, {2}, {1}},
    {"AShortPredecessorOfAShortEnd",
     {{shortened(openHead(3, 2, {2, 3}), 100), shortened(openHead(2, 1, {2}), 400)}},
     {2},
     {1}},
    {"AShortPredecessorThatIsClosedElsewhere",
     {{withLength(openHead(3, 2, {2, 3}), 100), shortened(openHead(2, 1, {2}), 400)}, {closedHead(2)}},
     {},
     {1}},
};

std::vector<uint64_t> holdersOf(const LogSurvey& survey, SegmentId id) {
  std::vector<uint64_t> servers;
  for (const SurveyedSegment& segment : survey.segments) {
    if (segment.id != id) continue;
    for (const uint32_t holder : segment.holders) servers.push_back(survey.holders.at(holder).value);
  }
  return servers;
}

TEST(LogSurvey, ReplicasThatCameThroughALossOfPower) {
  for (const ShortCase& test : kShortCases) {
    SCOPED_TRACE(test.name);
    const ReplicaFloor floor{SegmentId(2), 1};
    const LogSurvey survey = surveyLog(floor, answersOf(test.answers), {});
    std::vector<uint64_t> doubtful;
    for (const DoubtfulSegment& segment : survey.doubtful) {
      doubtful.push_back(segment.id.value);
      EXPECT_FALSE(segment.held_by.empty());
    }
    EXPECT_EQ(doubtful, test.doubtful);
    EXPECT_EQ(survey.isComplete(), test.doubtful.empty());
    const LogSurvey complete = surveyLog(floor, answersOf(test.answers), {.nobody_is_away = true});
    EXPECT_TRUE(complete.isComplete());
    EXPECT_EQ(complete.head, survey.head);
    EXPECT_EQ(holdersOf(complete, complete.head), test.end_holders);
  }
}

TEST(LogSurvey, OfAShortPredecessorTheLongestIsReadAndTheEndIsCut) {
  const LogSurvey survey = surveyLog({SegmentId(2), 1},
                                     answersOf({{shortened(openHead(3, 2, {2, 3}), 100)},
                                                {shortened(openHead(2, 1, {2}), 400)},
                                                {shortened(openHead(2, 1, {2}), 500)}}),
                                     {.nobody_is_away = true});
  ASSERT_TRUE(survey.isComplete());
  EXPECT_EQ(holdersOf(survey, SegmentId(2)), std::vector<uint64_t>{3});
  EXPECT_TRUE(survey.segments[1].is_cut);
}

// The rule, word by word and without any cleverness.
bool isCompleteByTheRule(const ReplicaFloor& floor, const Answers& answers, const SurveyFacts& facts) {
  const auto exists = [&](const auto& holds) {
    return std::any_of(answers.begin(), answers.end(), [&](const auto& answer) {
      return std::any_of(answer.second.begin(), answer.second.end(), holds);
    });
  };
  const auto is_good_head = [&](const Replica& replica) {
    if (replica.is_closed || !replica.has_digest) return false;
    if (replica.segment != floor.segment) return replica.segment > floor.segment;
    return replica.epoch >= floor.replica_epoch;
  };
  // The head: a good one so that no other good one is of a higher segment.
  std::optional<Replica> head;
  for (const auto& [server, replicas] : answers) {
    for (const Replica& replica : replicas) {
      if (!is_good_head(replica)) continue;
      const bool is_topped = exists([&](const Replica& other) {
        return is_good_head(other) &&
               (other.segment > replica.segment || (other.segment == replica.segment && other.epoch > replica.epoch));
      });
      if (!is_topped && !head) head = replica;
    }
  }
  if (!head) return false;
  const auto is_closed_somewhere = [&](SegmentId segment) {
    return exists([&](const Replica& replica) { return replica.segment == segment && replica.is_closed; });
  };
  const auto is_open_somewhere = [&](SegmentId segment, bool whole) {
    return exists([&](const Replica& replica) {
      return replica.segment == segment && is_good_head(replica) && (!whole || !replica.maybe_short);
    });
  };
  // Where the log ends depends on one open segment: the predecessor if it is found open only, else the head. If no
  // replica of it is known to be whole, all servers have to be heard: otherwise nobody would notice that bytes are
  // missing at its end.
  const bool has_predecessor =
      std::find(head->members.begin(), head->members.end(), head->previous_head) != head->members.end();
  const bool decides = has_predecessor && !is_closed_somewhere(head->previous_head);
  const SegmentId last = decides ? head->previous_head : head->segment;
  // A head that is closed somewhere had a successor, and one that may be short may have been closed, too.
  const bool is_certain = is_open_somewhere(last, true);
  if (!is_certain && !facts.nobody_is_away) return false;
  return std::all_of(head->members.begin(), head->members.end(), [&](SegmentId member) {
    return member == head->segment || exists([&](const Replica& replica) {
             if (replica.segment != member) return false;
             return replica.is_closed || (member == head->previous_head && is_good_head(replica));
           });
  });
}

TEST(LogSurvey, SaysWhatTheRuleSaysOfAnySetOfReplicas) {
  int complete = 0;
  int incomplete = 0;
  int endless = 0;
  int doubtful = 0;
  for (uint64_t seed = 1; seed <= 50'000; ++seed) {
    runtime::Random random(seed);
    const ReplicaFloor floor{SegmentId(1 + random.below(4)), random.below(3)};
    Answers answers;
    const uint64_t servers = 1 + random.below(4);
    for (uint64_t server = 1; server <= servers; ++server) {
      std::vector<Replica>& replicas = answers[ServerId(server)];
      for (uint64_t segment = 1; segment <= 5; ++segment) {
        if (random.below(3) == 0) continue;
        Replica replica{.segment = SegmentId(segment),
                        .epoch = random.below(3),
                        .is_closed = random.below(2) == 0,
                        .has_digest = random.below(4) != 0,
                        .maybe_short = random.below(2) == 0,
                        .length_bytes = static_cast<uint32_t>(random.below(4)),
                        .previous_head = SegmentId(segment - 1 - random.below(2) * (segment > 1 ? 1 : 0)),
                        .members = {}};
        // All replicas of one head have the same digest.
        if (replica.has_digest && !replica.is_closed) {
          replica.previous_head = SegmentId(segment - 1);
          for (uint64_t member = 1; member < segment; ++member) {
            if (((seed >> (member + segment)) & 1) != 0) replica.members.emplace_back(member);
          }
          replica.members.emplace_back(segment);
        }
        replicas.push_back(replica);
      }
    }
    const SurveyFacts facts{.nobody_is_away = random.below(3) == 0};
    const LogSurvey survey = surveyLog(floor, answers, facts);
    ASSERT_EQ(survey.isComplete(), isCompleteByTheRule(floor, answers, facts)) << "seed " << seed;
    doubtful += !survey.doubtful.empty() ? 1 : 0;
    complete += survey.isComplete() ? 1 : 0;
    incomplete += !survey.missing.empty() ? 1 : 0;
    endless += survey.head == SegmentId() ? 1 : 0;
    for (const SurveyedSegment& segment : survey.segments) {
      const bool is_missing =
          std::find(survey.missing.begin(), survey.missing.end(), segment.id) != survey.missing.end();
      ASSERT_EQ(is_missing, segment.holders.empty());
    }
  }
  EXPECT_GT(complete, 5'000);
  EXPECT_GT(incomplete, 5'000);
  EXPECT_GT(endless, 1'000);
  EXPECT_GT(doubtful, 1'000);
}

}  // namespace
}  // namespace ramcore::coordinator
