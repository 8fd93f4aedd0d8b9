#include "transport/registry/advertising.h"

#include <gtest/gtest.h>

namespace ramcore::transport {
namespace {

using Texts = std::vector<std::string>;

std::vector<Locator> parsed(const Texts& texts) {
  std::vector<Locator> locators;
  for (const std::string& text : texts) locators.push_back(Locator::parse(text).value());
  return locators;
}

Texts told(const Advertising& advertising) {
  Texts texts;
  for (const Locator& locator : advertising.locators) texts.push_back(locator.toString());
  return texts;
}

Outcome<Advertising> plan(const Texts& bound, const Texts& wanted, const Texts& own, bool is_told_to_others = true) {
  const auto locators = parseAdvertised(wanted);
  if (!locators.ok()) return locators.error();
  return planAdvertising(parsed(bound), *locators, {.own_addresses = own, .is_told_to_others = is_told_to_others});
}

Texts toldOf(const Texts& bound, const Texts& wanted, const Texts& own = {}, bool is_told_to_others = true) {
  const auto planned = plan(bound, wanted, own, is_told_to_others);
  return planned.ok() ? told(*planned) : Texts{planned.error().message};
}

TEST(Advertising, WithoutAWishIsWhereItListens) {
  const Texts bound = {"tcp://10.0.0.1:7", "shm:///run/x", "verbs://10.0.0.1:8", "dpdk://02:00:00:00:00:01@1"};
  EXPECT_EQ(toldOf(bound, {}), bound);
}

TEST(Advertising, AWishTakesThePlaceOfItsTransport) {
  EXPECT_EQ(toldOf({"tcp://10.0.0.1:7", "tcp://10.0.0.2:9", "shm:///run/x"}, {"tcp://a.test:80", "tcp://[fd00::1]:81"}),
            (Texts{"tcp://a.test:80", "tcp://[fd00::1]:81", "shm:///run/x"}));
  EXPECT_EQ(toldOf({"tcp://10.0.0.1:7", "verbs://10.0.0.1:8"}, {"verbs://b.test:1", "tcp://a.test:80"}),
            (Texts{"tcp://a.test:80", "verbs://b.test:1"}));
}

TEST(Advertising, Port0IsTheOneThatIsListenedAt) {
  EXPECT_EQ(toldOf({"tcp://0.0.0.0:7", "verbs://0.0.0.0:8"}, {"tcp://a.test:0", "verbs://b.test:0"}),
            (Texts{"tcp://a.test:7", "verbs://b.test:8"}));
  EXPECT_NE(toldOf({"tcp://10.0.0.1:7", "tcp://10.0.0.2:9"}, {"tcp://a.test:0"})[0].find("there are several"),
            std::string::npos);
}

TEST(Advertising, AMachineIsReachedOverAllTransportsWhereItIsOverOne) {
  EXPECT_EQ(toldOf({"tcp://0.0.0.0:7", "verbs://0.0.0.0:8"}, {"tcp://a.test:0"}, {"10.0.0.1", "10.0.0.2"}),
            (Texts{"tcp://a.test:7", "verbs://a.test:8"}));
}

TEST(Advertising, EveryAddressIsTheOnlyOneOfTheMachine) {
  const auto planned = plan({"tcp://0.0.0.0:7"}, {}, {"10.0.0.1", "fd00::1"});
  ASSERT_TRUE(planned.ok());
  EXPECT_EQ(told(*planned), Texts{"tcp://10.0.0.1:7"});
  ASSERT_EQ(planned->chosen.size(), 1u);
  EXPECT_NE(planned->chosen[0].find("--advertise"), std::string::npos);
  EXPECT_EQ(toldOf({"tcp://[::]:7"}, {}, {"10.0.0.1", "fd00::1", "fd00::2"}), Texts{"tcp://10.0.0.1:7"});
  EXPECT_EQ(toldOf({"tcp://[::]:7"}, {}, {"fd00::1"}), Texts{"tcp://[fd00::1]:7"});
}

TEST(Advertising, SeveralAddressesAndNoneWantAName) {
  const auto several = plan({"tcp://0.0.0.0:7"}, {}, {"10.0.0.1", "172.17.0.1"});
  ASSERT_FALSE(several.ok());
  EXPECT_EQ(several.error().status, Status::BadConfig);
  EXPECT_NE(several.error().message.find("(10.0.0.1, 172.17.0.1)"), std::string::npos) << several.error().message;
  EXPECT_NE(several.error().message.find("--advertise tcp://10.0.0.1:0"), std::string::npos) << several.error().message;
  const auto none = plan({"tcp://0.0.0.0:7"}, {}, {"fd00::1"});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("--advertise tcp://HOST:0"), std::string::npos) << none.error().message;
}

TEST(Advertising, ACoordinatorIsToldToNobodyAndTakesAll) {
  EXPECT_EQ(toldOf({"tcp://0.0.0.0:7"}, {}, {"10.0.0.1", "172.17.0.1"}, false),
            (Texts{"tcp://10.0.0.1:7", "tcp://172.17.0.1:7"}));
  EXPECT_EQ(toldOf({"tcp://0.0.0.0:7"}, {}, {}, false), Texts{"tcp://0.0.0.0:7"});
}

TEST(Advertising, RefusesWhatNobodyCanConnectTo) {
  for (const char* text : {"tcp://0.0.0.0:1", "tcp://[::]:1", "tcp://0:1", "tcp://[::0]:1", "verbs://0.0.0.0:1",
                           "tcp://224.0.0.1:1", "tcp://255.255.255.255:1", "tcp://[ff02::1]:1", "shm:///x",
                           "dpdk://02:00:00:00:00:01@1", "sim://x", "all://10.0.0.1:1", "host:1", ""}) {
    const auto refused = parseAdvertised(Texts{text});
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_EQ(refused.error().status, Status::BadConfig);
    EXPECT_NE(refused.error().message.find("--advertise"), std::string::npos) << refused.error().message;
  }
  EXPECT_TRUE(parseAdvertised(Texts{"tcp://22.4.0.1:1", "tcp://225.example.org:1", "tcp://[fe::1]:1"}).ok());
  EXPECT_FALSE(parseAdvertised(Texts{"tcp://" + std::string(300, 'x') + ":1"}).ok());
  Texts many;
  for (int i = 0; i < 9; ++i) many.push_back("tcp://10.0.0." + std::to_string(i + 1) + ":1");
  EXPECT_FALSE(parseAdvertised(many).ok());
  EXPECT_EQ(parseAdvertised(Texts(9, "tcp://10.0.0.1:1"))->size(), 1u) << "one that is named again is no other one";
}

TEST(Advertising, RefusesATransportThatIsNotListenedAt) {
  EXPECT_NE(toldOf({"tcp://10.0.0.1:7"}, {"verbs://a.test:0"})[0].find("does not listen over verbs"),
            std::string::npos);
}

}  // namespace
}  // namespace ramcore::transport
