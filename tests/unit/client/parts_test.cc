// The parts of the client that need no cluster: pauses, sequences, tablet cache.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "client/call_tracker.h"
#include "client/retry_policy.h"
#include "client/tablet_cache.h"

namespace ramcore::client {
namespace {

TEST(Backoff, PausesGrowToTheirBoundAndAreNeverShorterThanAsked) {
  runtime::Random random(7);
  const RetrySettings settings{.first_ns = 1000, .longest_ns = 64'000};
  for (int round = 0; round < 200; ++round) {
    Backoff backoff(settings);
    int64_t bound_ns = settings.first_ns;
    for (int i = 0; i < 20; ++i) {
      const auto asked_us = static_cast<uint32_t>(random.below(3) == 0 ? random.below(100) : 0);
      const int64_t pause_ns = backoff.nextNs(asked_us, random);
      EXPECT_GE(pause_ns, std::max(bound_ns / 2, int64_t{asked_us} * 1000));
      EXPECT_LE(pause_ns, std::max(bound_ns, int64_t{asked_us} * 1000));
      bound_ns = std::min(bound_ns * 2, settings.longest_ns);
    }
  }
}

TEST(Backoff, AServerCannotSendTheClientToSleepForLong) {
  runtime::Random random(7);
  Backoff backoff({.first_ns = 1000, .longest_ns = 64'000});
  EXPECT_LE(backoff.nextNs(UINT32_MAX, random), 128'000);
}

TEST(RetryPolicy, OnlyAnAnswerToTheCallSettlesAMutationWhoseAnswerIsMissing) {
  for (const Status last : {Status::Ok, Status::NotFound, Status::ObjectExists, Status::WrongVersion}) {
    EXPECT_EQ(finalStatus(last, true, true), last);
  }
  for (const Status last : {Status::DeadlineExceeded, Status::Unreachable, Status::WrongServer, Status::NoSuchTable,
                            Status::Corrupt, Status::Shutdown, Status::LeaseExpired, Status::NoSpace}) {
    EXPECT_EQ(finalStatus(last, true, true), Status::OutcomeUnknown) << name(last);
    EXPECT_NE(finalStatus(last, false, true), Status::OutcomeUnknown) << name(last);
    EXPECT_NE(finalStatus(last, true, false), Status::OutcomeUnknown) << name(last);
  }
  EXPECT_EQ(finalStatus(Status::RetryLater, true, false), Status::DeadlineExceeded);
  EXPECT_EQ(finalStatus(Status::Unreachable, true, false), Status::Unreachable);
  EXPECT_EQ(finalStatus(Status::NoSpace, true, false), Status::NoSpace);
  EXPECT_EQ(finalStatus(Status::CoordinatorFull, true, false), Status::CoordinatorFull);
  EXPECT_EQ(finalStatus(Status::LimitReached, true, false), Status::LimitReached);
  EXPECT_EQ(finalStatus(Status::Cancelled, true, false), Status::DeadlineExceeded);
}

TEST(RetryPolicy, EveryRetryableStatusIsRepeated) {
  for (uint16_t n = 0; n < 100; ++n) {
    const auto status = static_cast<Status>(n);
    if (isRetryable(status) && name(status) != "Unknown")
      EXPECT_NE(reactionTo(status), Reaction::Finish) << name(status);
  }
}

// The port of a server that has left may be taken by one of another cluster before its tablets have a new owner.
TEST(RetryPolicy, WhoRefusesIsNotTheServerThatWasMeant) {
  EXPECT_EQ(reactionTo(Status::Refused), Reaction::Refresh);
  EXPECT_EQ(finalStatus(Status::Refused, false, false), Status::Refused) << "what stays so is told by its name";
  EXPECT_EQ(finalStatus(Status::Refused, true, false), Status::Refused);
}

TEST(CallTracker, AcknowledgesTheHighestSequenceBelowWhichAllAreFinished) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    runtime::Random random(seed);
    CallTracker tracker;
    std::set<uint64_t> unfinished;
    uint64_t last = 0;
    for (int step = 0; step < 2000; ++step) {
      if (unfinished.empty() || random.chance(0.52)) {
        const Sequence sequence = tracker.begin();
        ASSERT_EQ(sequence.value, last + 1);
        last = sequence.value;
        unfinished.insert(last);
      } else {
        // Mostly old ones, but some stay open for long.
        auto at = unfinished.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(random.below(unfinished.size())));
        tracker.finish(Sequence(*at));
        unfinished.erase(at);
      }
      ASSERT_EQ(tracker.acknowledged().value, unfinished.empty() ? last : *unfinished.begin() - 1);
      ASSERT_EQ(tracker.unfinishedCount(), unfinished.size());
    }
  }
}

TableMap mapOf(TableId table, const std::vector<uint64_t>& borders, uint64_t epoch) {
  TableMap map{.table = table, .name = "t", .tablets = {}, .owners = {}};
  uint64_t first = 0;
  for (size_t i = 0; i <= borders.size(); ++i) {
    const uint64_t last = i < borders.size() ? borders[i] - 1 : ~uint64_t{0};
    map.tablets.push_back({.id = TabletId(i + 1),
                           .table = table,
                           .range = {.first = first, .last = last},
                           .epoch = TabletEpoch(epoch),
                           .owner = ServerId(i % 3 + 1)});
    first = last + 1;
  }
  for (const uint64_t id : {1, 2, 3}) map.owners.push_back({.id = id, .locators = {}});
  return map;
}

TEST(TabletCache, FindsWhatAModelFinds) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    runtime::Random random(seed);
    TabletCache cache;
    std::map<uint32_t, TableMap> model;
    for (int step = 0; step < 300; ++step) {
      const TableId table(static_cast<uint32_t>(1 + random.below(4)));
      if (random.chance(0.1)) {
        std::set<uint64_t> borders;
        while (borders.size() < random.below(6)) borders.insert(1 + random.next() / 2);
        model[table.value] = mapOf(table, {borders.begin(), borders.end()}, static_cast<uint64_t>(step) + 1);
        if (random.chance(0.3)) model[table.value].tablets.erase(model[table.value].tablets.begin());
        cache.replace(model[table.value]);
      } else if (random.chance(0.02)) {
        model.erase(table.value);
        cache.forget(table);
      }
      const KeyHash hash = random.next();
      const TabletInfo* expected = nullptr;
      if (const auto known = model.find(table.value); known != model.end()) {
        for (const TabletInfo& tablet : known->second.tablets) {
          if (tablet.range.contains(hash)) expected = &tablet;
        }
      }
      const TabletCache::Entry* found = cache.find(table, hash);
      ASSERT_EQ(found != nullptr, expected != nullptr);
      if (found == nullptr) continue;
      EXPECT_EQ(found->range, expected->range);
      EXPECT_EQ(found->epoch, expected->epoch);
      EXPECT_EQ(found->owner->address.id, expected->owner.value);
      EXPECT_EQ(&cache.ownerOf(found->owner->number), found->owner);
    }
  }
}

TEST(TabletCache, ALateAnswerDoesNotReplaceANewerEpoch) {
  TabletCache cache;
  const TableId table(1);
  cache.replace(mapOf(table, {100}, 5));
  cache.replace(mapOf(table, {100}, 4));
  EXPECT_EQ(cache.find(table, 7)->epoch.value, 5u);
  cache.replace(mapOf(table, {100}, 6));
  EXPECT_EQ(cache.find(table, 7)->epoch.value, 6u);
}

TEST(TabletCache, AHintHoldsUntilTheCoordinatorSaysMore) {
  TabletCache cache;
  const TableId table(1);
  cache.replace(mapOf(table, {100}, 5));  // of servers 1 and 2
  const HashRange lower{0, 99};
  EXPECT_FALSE(cache.noteMoved(TableId(2), {TabletEpoch(6), ServerId(3), lower}, TabletEpoch(5)));
  EXPECT_FALSE(cache.noteMoved(table, {TabletEpoch(6), ServerId(4), lower}, TabletEpoch(5)))
      << "a server that is not known";
  EXPECT_FALSE(cache.noteMoved(table, {TabletEpoch(6), ServerId(2), {0, 98}}, TabletEpoch(5)))
      << "a range that is no tablet";
  EXPECT_FALSE(cache.noteMoved(table, {TabletEpoch(5), ServerId(2), lower}, TabletEpoch(5))) << "no newer epoch";
  EXPECT_TRUE(cache.noteMoved(table, {TabletEpoch(uint64_t{1} << 60), ServerId(2), lower}, TabletEpoch(5)));
  EXPECT_TRUE(cache.noteMoved(table, {TabletEpoch(6), ServerId(2), lower}, TabletEpoch(5))) << "newer is known already";
  EXPECT_FALSE(cache.noteMoved(table, {TabletEpoch(6), ServerId(2), lower}, TabletEpoch(6))) << "it was tried";
  EXPECT_EQ(cache.find(table, 7)->owner->address.id, 2u);
  EXPECT_EQ(cache.find(table, 100)->epoch.value, 5u) << "the other tablet";
  EXPECT_TRUE(cache.replace(mapOf(table, {100}, 5))) << "no server can claim a tablet for ever";
  EXPECT_EQ(cache.find(table, 7)->owner->address.id, 1u);
  EXPECT_EQ(cache.find(table, 7)->epoch.value, 5u);
}

TEST(TabletCache, AnUnavailableTabletHasNoOwner) {
  TabletCache cache;
  TableMap map = mapOf(TableId(1), {}, 1);
  map.tablets[0].is_available = false;
  cache.replace(map);
  ASSERT_NE(cache.find(TableId(1), 1), nullptr);
  EXPECT_EQ(cache.find(TableId(1), 1)->owner, nullptr);
}

}  // namespace
}  // namespace ramcore::client
