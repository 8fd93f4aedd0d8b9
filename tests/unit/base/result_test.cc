#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace ramcore {
namespace {

TEST(Result, HoldsAValueOrAStatus) {
  Result<int> value = 7;
  EXPECT_TRUE(value.ok());
  EXPECT_TRUE(static_cast<bool>(value));
  EXPECT_EQ(*value, 7);
  EXPECT_EQ(value.status(), Status::Ok);
  Result<int> error = Status::NotFound;
  EXPECT_FALSE(error.ok());
  EXPECT_EQ(error.error(), Status::NotFound);
  EXPECT_EQ(error.status(), Status::NotFound);
}

TEST(Result, MovesOwnership) {
  Result<std::unique_ptr<std::string>> a = std::make_unique<std::string>("text");
  Result<std::unique_ptr<std::string>> b = std::move(a);
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(**b, "text");
  const std::unique_ptr<std::string> taken = std::move(b).value();
  EXPECT_EQ(*taken, "text");
}

TEST(Result, AssignmentReplacesEitherByEither) {
  Result<std::shared_ptr<int>> held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = *held;
  held = Result<std::shared_ptr<int>>(Status::RetryLater);
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(held.error(), Status::RetryLater);
  held = Result<std::shared_ptr<int>>(std::make_shared<int>(2));
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(**held, 2);
}

TEST(Result, CopiesWhatCanBeCopied) {
  const Result<std::string> a = std::string("text");
  const Result<std::string> b = a;
  EXPECT_EQ(*a, *b);
  const Result<std::string> c = Status::NoSpace;
  const Result<std::string> d = c;
  EXPECT_EQ(d.error(), Status::NoSpace);
}

TEST(Result, AFailureCarriesALineForAPerson) {
  const Outcome<int> outcome = Failure{Status::BadConfig, "no such flag"};
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.status(), Status::BadConfig);
  EXPECT_TRUE(outcome.error() == Status::BadConfig);
  EXPECT_EQ(outcome.error().message, "no such flag");
}

using ResultDeathTest = testing::Test;

TEST(ResultDeathTest, MisuseEndsTheProcess) {
  EXPECT_DEATH(
      {
        const Result<int> error = Status::NotFound;
        static_cast<void>(error.value());
      },
      "");
  EXPECT_DEATH(
      {
        const Result<int> value = 1;
        static_cast<void>(value.error());
      },
      "");
}

}  // namespace
}  // namespace ramcore
