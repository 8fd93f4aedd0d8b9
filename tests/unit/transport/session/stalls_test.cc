#include "transport/session/stalls.h"

#include <gtest/gtest.h>

namespace ramcore::transport {
namespace {

constexpr StallLimits kLimits{.copy_ns = 20, .close_ns = 1000, .borrowed_ns_max = 100};

TEST(Stalls, OnePeerFromTheFirstMessageThatWaitsToTheEnd) {
  Stall stall{.progress_ns = 5000, .waits_since_ns = 5000, .oldest_borrowed_ns = 5000};
  EXPECT_EQ(nextStep(stall, kLimits, 5019), StallStep::Wait);
  EXPECT_EQ(nextStepNs(stall, kLimits), 5020);
  EXPECT_EQ(nextStep(stall, kLimits, 5020), StallStep::CopyAll);
  stall.is_copied_out = true;
  stall.oldest_borrowed_ns = runtime::kNever;
  EXPECT_EQ(nextStep(stall, kLimits, 5999), StallStep::Wait);
  EXPECT_EQ(nextStepNs(stall, kLimits), 6000);
  EXPECT_EQ(nextStep(stall, kLimits, 6000), StallStep::Close);
}

TEST(Stalls, OnePeerThatGetsOnSlowly) {
  // Bytes that were borrowed too long ago are copied, although the first message that waits is a young one.
  const Stall stall{.progress_ns = 5095, .waits_since_ns = 5095, .oldest_borrowed_ns = 5000};
  EXPECT_EQ(nextStep(stall, kLimits, 5099), StallStep::Wait);
  EXPECT_EQ(nextStepNs(stall, kLimits), 5100);
  EXPECT_EQ(nextStep(stall, kLimits, 5100), StallStep::CopyOverdue);
}

TEST(Stalls, NothingIsCopiedWhereNothingIsBorrowed) {
  const Stall stall{.progress_ns = 5000, .waits_since_ns = 5990, .is_copied_out = true};
  EXPECT_EQ(nextStep(stall, kLimits, 5999), StallStep::Wait);
  EXPECT_EQ(nextStepNs(stall, kLimits), 6000);
}

TEST(LargestHolder, IsTheFirstOfThoseForWhichMostIsHeld) {
  LargestHolder<int> largest;
  int a = 1;
  int b = 2;
  int c = 3;
  largest.consider(a, 0);
  EXPECT_EQ(largest.session(), nullptr) << "it would free nothing";
  largest.consider(a, 5);
  largest.consider(b, 9);
  largest.consider(c, 9);
  EXPECT_EQ(largest.session(), &b);
  EXPECT_EQ(largest.bytes(), 9u);
}

}  // namespace
}  // namespace ramcore::transport
