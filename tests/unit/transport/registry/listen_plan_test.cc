#include "transport/registry/listen_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ramcore::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ListenMeans everything() {
  ListenMeans means;
  means.shm = {.is_there = true, .why_not = ""};
  means.shm_path = "/run/x/s";
  means.verbs = {.is_there = true, .why_not = ""};
  means.dpdk = {.is_there = true, .why_not = ""};
  means.has_secret = true;
  return means;
}

ListenPlan planOf(const std::vector<std::string>& texts, const ListenMeans& means) {
  std::vector<ListenWish> wishes;
  for (const std::string& text : texts) {
    auto wish = ListenWish::parse(text);
    EXPECT_TRUE(wish.ok()) << text << ": " << wish.error().message;
    wishes.push_back(std::move(wish).value());
  }
  return planListening(wishes, means);
}

// Locators, with '?' in front of those that may fail.
std::vector<std::string> placesOf(const ListenPlan& plan) {
  std::vector<std::string> places;
  for (const ListenPlan::Place& place : plan.places) {
    places.push_back((place.is_must ? "" : "?") + place.locator.toString());
  }
  return places;
}

std::vector<std::string> linesOf(const ListenPlan& plan) {
  std::vector<std::string> lines;
  for (const ListenPlan::LeftOut& left_out : plan.left_out) lines.push_back(left_out.line);
  return lines;
}

TEST(ListenPlan, AllIsWhatThereIs) {
  const ListenPlan plan = planOf({"all://10.0.0.1:11200"}, everything());
  EXPECT_THAT(placesOf(plan),
              ElementsAre("tcp://10.0.0.1:11200", "?shm:///run/x/s", "?verbs://10.0.0.1:0", "?dpdk://any@0"));
  EXPECT_THAT(plan.left_out, IsEmpty());
}

TEST(ListenPlan, WhatIsNotThereIsLeftOutAndSaysWhy) {
  ListenMeans means;
  means.shm.why_not = "no folder";
  means.verbs.why_not = "no device";
  means.dpdk.why_not = "no port";
  means.dpdk.level = TraceLevel::Debug;
  const ListenPlan plan = planOf({"all://127.0.0.1:0"}, means);
  EXPECT_THAT(placesOf(plan), ElementsAre("tcp://127.0.0.1:0"));
  EXPECT_THAT(linesOf(plan), ElementsAre("not listening over shm: no folder", "not listening over verbs: no device",
                                         "not listening over dpdk: no port"));
  EXPECT_EQ(plan.left_out[1].level, TraceLevel::Info);
  EXPECT_EQ(plan.left_out[2].level, TraceLevel::Debug);
}

TEST(ListenPlan, WhatHasBeenToldIsNotToldAgain) {
  ListenMeans means = everything();
  means.verbs = {.is_there = false, .why_not = ""};
  const ListenPlan plan = planOf({"all://127.0.0.1:0"}, means);
  EXPECT_THAT(placesOf(plan), ElementsAre("tcp://127.0.0.1:0", "?shm:///run/x/s", "?dpdk://any@0"));
  EXPECT_THAT(plan.left_out, IsEmpty());
}

TEST(ListenPlan, WithoutASecretNothingThatOthersReach) {
  ListenMeans means = everything();
  means.has_secret = false;
  const ListenPlan plan = planOf({"all://[::1]:0"}, means);
  EXPECT_THAT(placesOf(plan), ElementsAre("tcp://[::1]:0", "?shm:///run/x/s", "?verbs://[::1]:0"));
  EXPECT_THAT(linesOf(plan), ElementsAre(HasSubstr("not listening over dpdk: ")));
  EXPECT_EQ(plan.left_out[0].level, TraceLevel::Info);
}

TEST(ListenPlan, NamedLocatorsMeanWhatTheySay) {
  const std::vector<std::string> named = {"tcp://127.0.0.1:0", "tcp://127.0.0.1:0", "shm:///a",
                                          "verbs://10.0.0.1:1?device=rxe0", "dpdk://any@7"};
  const ListenPlan plan = planOf(named, everything());
  EXPECT_EQ(placesOf(plan), named);
  EXPECT_THAT(plan.left_out, IsEmpty());
  EXPECT_THAT(placesOf(planOf({}, everything())), IsEmpty());
}

TEST(ListenPlan, AllAddsNothingToWhatIsNamed) {
  EXPECT_THAT(placesOf(planOf({"all://127.0.0.1:5", "shm:///a", "tcp://127.0.0.1:5", "dpdk://any@7"}, everything())),
              ElementsAre("tcp://127.0.0.1:5", "shm:///a", "dpdk://any@7", "?verbs://127.0.0.1:0"));
  // The same holds if a transport that is named is not there: that is an error of its own.
  EXPECT_THAT(placesOf(planOf({"verbs://10.0.0.1:0", "all://127.0.0.1:5"}, ListenMeans{})),
              ElementsAre("tcp://127.0.0.1:5", "verbs://10.0.0.1:0"));
}

TEST(ListenPlan, TcpComesFirstAndTheRestAsWritten) {
  EXPECT_THAT(placesOf(planOf({"shm:///x", "all://127.0.0.1:0"}, everything())),
              ElementsAre("tcp://127.0.0.1:0", "shm:///x", "?verbs://127.0.0.1:0", "?dpdk://any@0"));
  EXPECT_THAT(placesOf(planOf({"verbs://10.0.0.1:1", "tcp://10.0.0.2:2", "shm:///x", "tcp://10.0.0.1:1"}, {})),
              ElementsAre("tcp://10.0.0.2:2", "tcp://10.0.0.1:1", "verbs://10.0.0.1:1", "shm:///x"));
}

TEST(ListenPlan, SeveralAddressesShareTheRest) {
  const ListenPlan plan = planOf({"all://10.0.0.1:0", "all://10.0.0.2:0", "all://10.0.0.1:0"}, everything());
  EXPECT_THAT(placesOf(plan), ElementsAre("tcp://10.0.0.1:0", "tcp://10.0.0.2:0", "?shm:///run/x/s",
                                          "?verbs://10.0.0.1:0", "?dpdk://any@0"));
}

TEST(ListenWish, RefusesWhatMeansNothing) {
  for (const std::string text : {"all", "all:", "all:127.0.0.1:0", "all://", "all://127.0.0.1", "all:///run/x",
                                 "all://127.0.0.1:65536", "all://:0", "all://[::1]", "all://127.0.0.1:0?device=rxe0"}) {
    const auto wish = ListenWish::parse(text);
    ASSERT_FALSE(wish.ok()) << text;
    EXPECT_EQ(wish.error().status, Status::BadConfig);
    EXPECT_THAT(wish.error().message, HasSubstr("bad locator '" + text + "'"));
    EXPECT_THAT(wish.error().message, HasSubstr("write e.g. all://"));
  }
}

TEST(ListenWish, SaysWhatIsWrongAndWhatWouldBeRight) {
  const auto why = [](const std::string& text) {
    const auto wish = ListenWish::parse(text);
    return wish.ok() ? "" : wish.error().message;
  };
  for (const std::string port : {"65536", "99999", "-1", "http", ""}) {
    EXPECT_THAT(why("all://127.0.0.1:" + port), HasSubstr("'" + port + "' is no port: 1 to 65535, or 0 for any"));
    EXPECT_THAT(why("all://[::1]:" + port), HasSubstr("'" + port + "' is no port"));
  }
  EXPECT_THAT(why("all://[::1]"), HasSubstr("all wants a host and a port"));
  EXPECT_THAT(why("all:///run/x"), HasSubstr("all wants a host and a port"));
  EXPECT_THAT(why("all://127.0.0.1:0?device=rxe0"), HasSubstr("all takes no options"));
  for (const std::string text : {"al://127.0.0.1:0", "everything", "shm://x", "ALL://127.0.0.1:0"}) {
    EXPECT_THAT(why(text), HasSubstr("write e.g. tcp://")) << text;
    EXPECT_THAT(why(text), HasSubstr("or all://127.0.0.1:0 for every transport")) << text;
  }
}

// Whom to connect to is said by a transport's own locator.
TEST(ListenWish, IsNoLocator) {
  const auto parsed = Locator::parse("all://127.0.0.1:0");
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.error().message, HasSubstr("--listen"));
}

}  // namespace
}  // namespace ramcore::transport
