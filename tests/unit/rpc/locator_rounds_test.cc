#include "rpc/locator_rounds.h"

#include <gtest/gtest.h>

#include "runtime/clock.h"

namespace ramcore::rpc {
namespace {

std::vector<transport::Locator> locatorsOf(std::initializer_list<const char*> schemes) {
  std::vector<transport::Locator> locators;
  for (const char* scheme : schemes) locators.emplace_back().scheme = scheme;
  return locators;
}

TEST(LocatorRounds, EachIsTriedOnce) {
  const auto locators = locatorsOf({"verbs", "tcp"});
  LocatorRounds rounds(locators);
  EXPECT_TRUE(rounds.isAtBeginning());
  EXPECT_EQ(rounds.next(1), &locators[0]);
  EXPECT_FALSE(rounds.isAtBeginning());
  EXPECT_EQ(rounds.next(1), &locators[1]);
  EXPECT_EQ(&rounds.current(), &locators[1]);
  EXPECT_EQ(rounds.next(1), nullptr);
  rounds.restart();
  EXPECT_EQ(rounds.next(1), &locators[0]);
  rounds.repeat();
  EXPECT_EQ(rounds.next(1), &locators[0]);
}

TEST(LocatorRounds, AnAvoidedOneIsTriedLastForAWhile) {
  const auto locators = locatorsOf({"verbs", "tcp"});
  LocatorRounds rounds(locators);
  ASSERT_EQ(rounds.next(1), &locators[0]);
  rounds.avoid(1, silentTrace());
  rounds.restart();
  EXPECT_EQ(rounds.next(2), &locators[1]);
  EXPECT_EQ(rounds.next(2), &locators[0]) << "when no other one is left";
  EXPECT_EQ(rounds.next(2), nullptr);
  rounds.restart();
  EXPECT_EQ(rounds.next(31 * runtime::kNanosPerSecond), &locators[0]) << "the time is over";
}

TEST(LocatorRounds, OfNoneThereIsNoNext) {
  const std::vector<transport::Locator> locators;
  LocatorRounds rounds(locators);
  EXPECT_EQ(rounds.next(1), nullptr);
  EXPECT_FALSE(rounds.hasOthers());
}

}  // namespace
}  // namespace ramcore::rpc
