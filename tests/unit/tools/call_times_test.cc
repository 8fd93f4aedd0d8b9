// Tests how long calls took between two looks at a server's counts.
#include "tools/rcmigrate/call_times.h"

#include <gtest/gtest.h>

#include "base/histogram.h"

namespace ramcore::rcmigrate {
namespace {

constexpr ServerId kServer{1};
constexpr uint64_t kMicro = 1'000;

CallCounts countsOf(std::initializer_list<std::pair<uint64_t, uint64_t>> calls) {
  CallCounts counts;
  for (const auto& [ns, count] : calls) counts[LogLinearHistogram::bucketOf(ns)] += count;
  return counts;
}

// A bucket is a sixteenth wide.
void expectNear(uint64_t ns, uint64_t wanted_ns) {
  EXPECT_GE(ns, wanted_ns);
  EXPECT_LE(ns, wanted_ns + wanted_ns / 16);
}

TEST(CallTimes, AreThoseOfTheCallsBetweenTwoLooks) {
  const CallCounts earlier = countsOf({{10 * kMicro, 1'000'000}, {900 * kMicro, 5}});
  const CallCounts later = countsOf({{10 * kMicro, 1'000'600}, {900 * kMicro, 405}, {7'000 * kMicro, 2}});
  const CallTimes times = callTimesSince(earlier, later);
  EXPECT_EQ(times.calls, 1002U);
  expectNear(times.p50_ns, 10 * kMicro);
  expectNear(times.p999_ns, 7'000 * kMicro);
}

TEST(CallTimes, OneCallInAThousandIsTheLastThatIsLeftOut) {
  expectNear(callTimesSince({}, countsOf({{10 * kMicro, 999}, {500 * kMicro, 1}})).p999_ns, 10 * kMicro);
  expectNear(callTimesSince({}, countsOf({{10 * kMicro, 998}, {500 * kMicro, 2}})).p999_ns, 500 * kMicro);
  expectNear(callTimesSince({}, countsOf({{10 * kMicro, 1}})).p999_ns, 10 * kMicro);
  EXPECT_EQ(callTimesSince(countsOf({{5, 7}}), countsOf({{5, 7}})).calls, 0U);
}

TEST(CallTimes, OfAServerThatWasStartedBetweenAreAllThatItHasCounted) {
  const CallCounts later = countsOf({{20 * kMicro, 3}});
  EXPECT_EQ(callTimesSince(countsOf({{20 * kMicro, 4}}), later).calls, 3U);
  EXPECT_EQ(callTimesSince(countsOf({{30 * kMicro, 1}}), later).calls, 3U);
}

TEST(CallTimes, AreToldInMicrosecondsAndMilliseconds) {
  EXPECT_EQ(textOf({}), "no calls");
  EXPECT_EQ(textOf({.calls = 1, .p50_ns = 12'400, .p999_ns = 1'240'000}), "p50 12 us, p99.9 1.2 ms");
}

TEST(CallHistory, TellsWhatWasBeforeTheMovesAndWhatIsNow) {
  CallHistory history;
  history.note(kServer, countsOf({{10 * kMicro, 100}}));
  history.note(kServer, countsOf({{10 * kMicro, 150}}));
  history.markBegin();
  EXPECT_EQ(history.before(kServer).calls, 50U);
  EXPECT_EQ(history.sinceBegin(kServer).calls, 0U);
  history.note(kServer, countsOf({{10 * kMicro, 150}, {400 * kMicro, 10}}));
  history.note(kServer, countsOf({{10 * kMicro, 150}, {400 * kMicro, 30}}));
  EXPECT_EQ(history.before(kServer).calls, 50U);
  EXPECT_EQ(history.lately(kServer).calls, 20U);
  EXPECT_EQ(history.sinceBegin(kServer).calls, 30U);
  expectNear(history.sinceBegin(kServer).p50_ns, 400 * kMicro);
}

TEST(CallHistory, OfAServerThatWasNotHeardOfBeforeHasNothingBefore) {
  CallHistory history;
  EXPECT_EQ(history.before(kServer).calls, 0U);
  history.markBegin();
  history.note(kServer, countsOf({{10 * kMicro, 100}}));
  EXPECT_EQ(history.before(kServer).calls, 0U);
  EXPECT_EQ(history.lately(kServer).calls, 0U);
  EXPECT_EQ(history.sinceBegin(kServer).calls, 0U);
}

}  // namespace
}  // namespace ramcore::rcmigrate
