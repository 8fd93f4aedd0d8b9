// What the silence of servers means: tests/models/silence_verdict_model.py walks it over time, here is each rule by
// itself.
#include "coordinator/members/silence.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "unit/coordinator/coordinator_fixture.h"

namespace ramcore::coordinator {
namespace {

constexpr SilenceLimits kLimits{.heard_ns = kSecond, .verdict_after_ns = 3 * kSecond, .together_ns = 30 * kSecond};

Silence server(uint64_t id, int64_t silent_ns) {
  return {.server = ServerId(id),
          .silent_ns = silent_ns,
          .alone_ns = silent_ns,
          .left_behind_ns = 0,
          .keeps_replicas = true,
          .replicas = 3,
          .min_replicas = 2,
          .local_replica = false,
          .live_bytes = 100,
          .room_bytes = 100};
}
/// Of servers that have been silent for so long.
std::vector<Silence> cluster(std::initializer_list<int64_t> silent_ns) {
  std::vector<Silence> living;
  for (const int64_t ns : silent_ns) living.push_back(server(living.size() + 1, ns));
  return living;
}
std::vector<SilenceMeans> judge(const std::vector<Silence>& living) {
  std::vector<SilenceMeans> out(living.size());
  judgeSilences(living, kLimits, out);
  return out;
}
using Means = SilenceMeans;

TEST(Silence, OneOfManyIsDead) {
  EXPECT_EQ(judge(cluster({0, 0, 0, 3 * kSecond})),
            (std::vector{Means::Nothing, Means::Nothing, Means::Nothing, Means::Death}));
  EXPECT_EQ(judge(cluster({0, 0, 0, 3 * kSecond - 1})).back(), Means::TooShort);
  EXPECT_EQ(judge(cluster({0, 0, 0, kSecond - 1})).back(), Means::Nothing);
}

// The sum of what servers report must not overflow.
TEST(Silence, AServerThatHasRoomForEverythingHidesNobodysRoom) {
  std::vector<Silence> living = cluster({0, 0, 0, 3 * kSecond});
  for (Silence& one : living) one.room_bytes = std::numeric_limits<uint64_t>::max() / 3 + 1;
  EXPECT_EQ(judge(living).back(), Means::Death);
}

TEST(Silence, HalfOfThemWaitUntilItIsLong) {
  const std::vector half = judge(cluster({0, 0, 0, 0, 4 * kSecond, 4 * kSecond, 4 * kSecond, 4 * kSecond}));
  EXPECT_EQ(half[0], Means::Nothing);
  for (size_t i = 4; i < 8; ++i) EXPECT_EQ(half[i], Means::Together);
  for (const Means means : judge(cluster({4 * kSecond, 4 * kSecond, 4 * kSecond}))) EXPECT_EQ(means, Means::Together);
  const std::vector rack = judge(cluster({0, 0, 0, 0, 30 * kSecond, 30 * kSecond, 30 * kSecond, 30 * kSecond}));
  for (size_t i = 4; i < 8; ++i) EXPECT_EQ(rack[i], Means::Death) << "a rack that is lost";
}

TEST(Silence, WhoMissedARenewalOrTwoCountsAsSilentWithTheOthers) {
  // All were cut off at once. When the first is due, the others have not been silent for quite as long.
  const std::vector all = judge(cluster({3 * kSecond, 2'600 * kMilli, 2'700 * kMilli, 2'900 * kMilli}));
  EXPECT_EQ(all.front(), Means::Together);
}

// After a cut of ten seconds three of four are back, and the fourth will be in a moment.
TEST(Silence, WhoComesBackLaterThanTheOthersHasItsTimeFromThenOn) {
  std::vector living = cluster({0, 0, 0, 10 * kSecond});
  living.back().alone_ns = 100 * kMilli;
  EXPECT_EQ(judge(living).back(), Means::TooShort);
  living.back().alone_ns = 3 * kSecond;
  EXPECT_EQ(judge(living).back(), Means::Death);
  // A server that comes and goes, so that half of them are silent again and again, does not keep this one in the list
  // for ever.
  living.back() = server(4, 100 * kSecond);
  living.back().alone_ns = 100 * kMilli;
  living.back().left_behind_ns = 30 * kSecond - 1;
  EXPECT_EQ(judge(living).back(), Means::TooShort);
  living.back().left_behind_ns = 30 * kSecond;
  EXPECT_EQ(judge(living).back(), Means::Death);
}

TEST(Silence, NobodyIsDeadWhomNobodyCouldReplace) {
  EXPECT_EQ(judge(cluster({0, 0, 100 * kSecond})).back(), Means::Replacers) << "that takes 3, with 2 copies at least";
  std::vector living = cluster({0, 0, 100 * kSecond});
  living.back().min_replicas = 1;
  EXPECT_EQ(judge(living).back(), Means::Death);
  // Servers that keep no replicas can take tablets, but need places for their replicas on others.
  living = cluster({0, 0, 0, 100 * kSecond});
  living[0].keeps_replicas = false;
  EXPECT_EQ(judge(living).back(), Means::Death);
  living[1].keeps_replicas = false;
  EXPECT_EQ(judge(living).back(), Means::Replacers);
  // However long the silence lasts, all of them may come back.
  for (const Means means : judge(cluster({100 * kSecond, 100 * kSecond, 100 * kSecond, 100 * kSecond}))) {
    EXPECT_EQ(means, Means::Replacers);
  }
}

TEST(Silence, RoomIsNeededForWhatItHolds) {
  std::vector living = cluster({0, 0, 0, 4 * kSecond});
  living.back().live_bytes = 301;
  EXPECT_EQ(judge(living).back(), Means::Room);
  living.back().live_bytes = 300;
  EXPECT_EQ(judge(living).back(), Means::Death);
  living.back().live_bytes = {};
  EXPECT_EQ(judge(living).back(), Means::Death) << "a coordinator that has never heard it";
}

TEST(Silence, WithoutCopiesItGetsTheLongerTime) {
  for (const bool local : {false, true}) {
    std::vector living = cluster({0, 0, 0, 29 * kSecond});
    living.back().replicas = local ? 1 : 0;
    living.back().local_replica = local;
    EXPECT_EQ(judge(living).back(), Means::Replacers);
    living.back().silent_ns = living.back().alone_ns = 30 * kSecond;
    EXPECT_EQ(judge(living).back(), Means::Death);
  }
}

// ---- over time

class SilentServers : public testing::Test {
 protected:
  ServerId add(uint64_t nonce) {
    Server described = Bench::serverOf(nonce);
    described.keeps_replicas = true;
    described.min_replicas = 2;
    const Membership::Enlistment enlisted = bench_.enlist(described);
    EXPECT_EQ(enlisted.status, Status::Ok);
    bench_.cluster().machine(enlisted.id).up = true;
    return enlisted.id;
  }
  void cut(std::initializer_list<ServerId> servers) {
    for (const ServerId id : servers) bench_.cluster().machine(id).up = false;
  }
  void heal(std::initializer_list<ServerId> servers) {
    for (const ServerId id : servers) bench_.cluster().machine(id).up = true;
  }
  size_t alive() {
    size_t count = 0;
    for (const Server* one : bench_.life().membership.servers()) count += one->alive ? 1 : 0;
    return count;
  }

  Bench bench_{{.membership = {.lease_ns = 2 * kSecond, .verdict_after_ns = 3 * kSecond, .together_ns = 30 * kSecond}}};
  const ServerId a_ = add(1);
  const ServerId b_ = add(2);
  const ServerId c_ = add(3);
  const ServerId d_ = add(4);
};

TEST_F(SilentServers, ACoordinatorThatIsCutOffFromAllDeclaresNobodyDeadHoweverLong) {
  bench_.passRenewing(kSecond);
  for (const int64_t length_ns : {2 * kSecond, 4 * kSecond, 25 * kSecond, 40 * kSecond}) {
    cut({a_, b_, c_, d_});
    bench_.passRenewing(length_ns);
    heal({a_, b_, c_});
    bench_.passRenewing(2 * kSecond);  // the last server comes back later
    heal({d_});
    bench_.passRenewing(5 * kSecond);
    EXPECT_EQ(alive(), 4U) << length_ns;
    EXPECT_EQ(bench_.life().membership.verdictsBySilence(), 0U);
    EXPECT_TRUE(bench_.life().membership.silentServers().empty());
  }
}

TEST_F(SilentServers, OneThatIsSilentAloneIsDeadSoon) {
  bench_.passRenewing(kSecond);
  cut({d_});
  bench_.passRenewing(4 * kSecond);
  EXPECT_EQ(alive(), 3U);
  EXPECT_EQ(bench_.life().membership.verdictsBySilence(), 1U);
}

TEST_F(SilentServers, ALostRackWaitsForReplacersAndIsRecoveredByThem) {
  bench_.passRenewing(kSecond);
  cut({c_, d_});
  bench_.passRenewing(20 * kSecond);
  EXPECT_EQ(alive(), 4U);
  auto silent = bench_.life().membership.silentServers();
  ASSERT_EQ(silent.size(), 2U);
  EXPECT_EQ(silent[0].means, SilenceMeans::Together);
  bench_.passRenewing(20 * kSecond);
  EXPECT_EQ(alive(), 4U);
  silent = bench_.life().membership.silentServers();
  ASSERT_EQ(silent.size(), 2U);
  EXPECT_EQ(silent[0].means, SilenceMeans::Replacers);
  add(5);
  bench_.passRenewing(2 * kSecond);
  EXPECT_EQ(alive(), 5U) << "they are not half of the servers any more, and have their time from then on";
  bench_.passRenewing(2 * kSecond);
  EXPECT_EQ(alive(), 3U) << "the three that are heard";
  EXPECT_EQ(bench_.life().membership.verdictsBySilence(), 2U);
}

TEST_F(SilentServers, AProofOfDeathNeedsNoWaiting) {
  bench_.passRenewing(kSecond);
  cut({a_, b_, c_, d_});
  bench_.passRenewing(5 * kSecond);
  EXPECT_EQ(bench_.goodbye(a_), Status::Ok);
  EXPECT_FALSE(bench_.life().membership.isAlive(a_));
  EXPECT_EQ(bench_.enlist(Bench::serverOf(9), b_).status, Status::Ok);
  EXPECT_FALSE(bench_.life().membership.isAlive(b_));
}

}  // namespace
}  // namespace ramcore::coordinator
