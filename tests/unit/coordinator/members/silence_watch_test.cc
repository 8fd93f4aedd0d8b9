// What the watch knows of servers over time. silence_test.cc tests the rules by which it judges.
#include "coordinator/members/silence_watch.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/clock.h"

namespace ramcore::coordinator {
namespace {

constexpr int64_t kWatchSecond = runtime::kNanosPerSecond;

class SilenceWatchTest : public testing::Test {
 protected:
  SilenceWatchTest() {
    watch_.hearAnew();
    for (uint64_t id = 1; id <= 5; ++id) {
      Server& server = servers_[ServerId(id)];
      server.id = ServerId(id);
      server.name = "server" + std::to_string(id);
      server.keeps_replicas = true;
      server.replicas = 3;
      server.min_replicas = 2;
      watch_.add(server);
      hear(id);
    }
  }
  void hear(uint64_t id) {
    watch_.noteHeard(ServerId(id), clock_.nowNs(), ServerRenewal{.nonce = id, .live_bytes = 1, .room_bytes = 100});
  }
  /// `seconds` pass, in which these renew their leases.
  void pass(int64_t seconds, const std::vector<uint64_t>& heard) {
    for (int64_t half = 0; half < 2 * seconds; ++half) {
      clock_.advance(kWatchSecond / 2);
      for (const uint64_t id : heard) hear(id);
      watch_.look();
    }
  }
  SilenceMeans meaningOf(uint64_t id) const {
    for (const auto& [server, means] : watch_.judge()) {
      if (server == ServerId(id)) return means;
    }
    return SilenceMeans::Nothing;
  }

  runtime::ManualClock clock_;
  SilenceWatch watch_{
      clock_,
      silentTrace(),
      {.heard_ns = kWatchSecond, .verdict_after_ns = 3 * kWatchSecond, .together_ns = 30 * kWatchSecond},
      2 * kWatchSecond};
  std::map<ServerId, Server> servers_;
};

TEST_F(SilenceWatchTest, SilenceCountsFromTheLastRenewal) {
  pass(2, {1, 2, 3, 4});
  EXPECT_EQ(watch_.silenceNs(ServerId(1)), 0);
  EXPECT_EQ(watch_.silenceNs(ServerId(5)), 2 * kWatchSecond);
  EXPECT_EQ(watch_.silentForNs(ServerId(5)), 2 * kWatchSecond);
  EXPECT_EQ(watch_.silentForNs(ServerId(6)), -1);
}

TEST_F(SilenceWatchTest, WhoWasNotHeardSinceTheStartIsNotSilentForAnyTime) {
  Server late;
  late.id = ServerId(9);
  watch_.add(late);
  pass(1, {1, 2, 3, 4, 5});
  EXPECT_EQ(watch_.silentForNs(ServerId(9)), -1);
  watch_.remove(ServerId(9));
}

TEST_F(SilenceWatchTest, WhatNobodyCouldHearProvesNothing) {
  pass(10, {1, 2, 3, 4});
  EXPECT_EQ(meaningOf(5), SilenceMeans::Death);
  watch_.hearAnew();
  EXPECT_EQ(watch_.silenceNs(ServerId(5)), 0);
  EXPECT_EQ(meaningOf(5), SilenceMeans::Nothing);
}

TEST_F(SilenceWatchTest, WhoIsLeftBehindByOthersThatWereSilentTooHasItsTimeFromThenOn) {
  pass(10, {1, 2});
  EXPECT_EQ(meaningOf(5), SilenceMeans::Together);
  pass(1, {1, 2, 3, 4});
  EXPECT_NE(meaningOf(5), SilenceMeans::Death);
  pass(40, {1, 2, 3, 4});
  EXPECT_EQ(meaningOf(5), SilenceMeans::Death);
}

TEST_F(SilenceWatchTest, TheDeadAreNotJudged) {
  servers_[ServerId(5)].alive = false;
  pass(10, {1, 2, 3, 4});
  EXPECT_EQ(watch_.judge().size(), 4u);
  EXPECT_TRUE(watch_.silentServers().empty());
}

TEST_F(SilenceWatchTest, ALateRenewalIsNothingToTell) {
  pass(1, {1, 2, 3, 4});
  EXPECT_TRUE(watch_.silentServers().empty());
  pass(2, {1, 2, 3, 4});
  ASSERT_EQ(watch_.silentServers().size(), 1u);
  EXPECT_EQ(watch_.silentServers().front().id, ServerId(5));
}

}  // namespace
}  // namespace ramcore::coordinator
