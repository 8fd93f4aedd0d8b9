#include "base/status.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace ramcore {
namespace {

TEST(Status, EveryNumberInUseHasANameOfItsOwn) {
  // Numbers are wire format; a new one is added here and in name().
  const std::set<uint16_t> used = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 20, 21, 22, 30, 31, 32, 33, 34,
                                   35, 36, 40, 41, 42, 43, 44, 45, 46, 60, 61, 62, 80, 81, 82, 83, 84, 85, 99};
  std::set<std::string> names;
  for (uint32_t number = 0; number < 0x10000; ++number) {
    const std::string text(name(static_cast<Status>(number)));
    ASSERT_FALSE(text.empty());
    if (used.contains(static_cast<uint16_t>(number))) {
      EXPECT_NE(text, "Unknown") << number;
      EXPECT_TRUE(names.insert(text).second) << text;
    } else {
      ASSERT_EQ(text, "Unknown") << number;
    }
  }
}

TEST(Status, NumbersOfTheWireStay) {
  EXPECT_EQ(static_cast<int>(Status::NotFound), 1);
  EXPECT_EQ(static_cast<int>(Status::WrongVersion), 3);
  EXPECT_EQ(static_cast<int>(Status::BadRequest), 8);
  EXPECT_EQ(static_cast<int>(Status::OutcomeUnknown), 9);
  EXPECT_EQ(static_cast<int>(Status::WrongServer), 20);
  EXPECT_EQ(static_cast<int>(Status::RetryLater), 30);
  EXPECT_EQ(static_cast<int>(Status::SessionLost), 40);
  EXPECT_EQ(static_cast<int>(Status::StaleSequence), 60);
  EXPECT_EQ(static_cast<int>(Status::Fenced), 62);
  EXPECT_EQ(static_cast<int>(Status::Corrupt), 80);
}

TEST(Status, OnlyTryElsewhereAndTryAgainAreRetryable) {
  std::set<Status> retryable;
  for (uint16_t number = 0; number < 200; ++number) {
    const auto status = static_cast<Status>(number);
    if (isRetryable(status) && name(status) != "Unknown") retryable.insert(status);
  }
  EXPECT_EQ(retryable, (std::set<Status>{Status::WrongServer, Status::StaleEpoch, Status::WrongServerId,
                                         Status::RetryLater, Status::NoSpace, Status::LeaseUnknown, Status::NotLeader,
                                         Status::TooFewReplicas, Status::CoordinatorFull, Status::StateBehind}));
}

}  // namespace
}  // namespace ramcore
