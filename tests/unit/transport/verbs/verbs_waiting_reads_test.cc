#include "transport/verbs/waiting_reads.h"

#include <gtest/gtest.h>

namespace ramcore::transport::verbs {
namespace {

constexpr SessionId kServer{.index = 1, .generation = 1};
constexpr SessionId kClient{.index = 2, .generation = 1};
constexpr SessionId kOtherClient{.index = 3, .generation = 1};

TEST(VerbsWaitingReads, ClientsStandBehindTheOthers) {
  WaitingReads reads;
  EXPECT_TRUE(reads.empty());
  reads.add(kClient, 4, true, 100);
  reads.add(kOtherClient, 5, true, 100);
  reads.add(kServer, 6, false, 100);
  reads.add(kServer, 7, false, 100);
  for (const uint16_t slot : {6, 7, 4, 5}) {
    ASSERT_FALSE(reads.empty());
    EXPECT_EQ(reads.first().slot, slot);
    EXPECT_EQ(reads.first().is_bounded, slot < 6);
    EXPECT_FALSE(reads.first().refused_since_ns.has_value());
    reads.removeFirst(100);
  }
  EXPECT_TRUE(reads.empty());
}

TEST(VerbsWaitingReads, AnEndedSessionLeavesTheLine) {
  WaitingReads reads;
  reads.forget(kClient);
  reads.add(kClient, 1, true, 100);
  reads.add(kOtherClient, 2, true, 100);
  reads.add(kClient, 3, true, 100);
  reads.forget(kClient);
  ASSERT_FALSE(reads.empty());
  EXPECT_EQ(reads.first().session, kOtherClient);
  reads.forget(kOtherClient);
  EXPECT_TRUE(reads.empty());
}

TEST(VerbsWaitingReads, TheFirstWaitsSinceItIsTheFirst) {
  WaitingReads reads;
  EXPECT_FALSE(reads.isOverdue(1000, 50));
  reads.add(kClient, 1, true, 1000);
  reads.add(kClient, 2, true, 1040);
  EXPECT_FALSE(reads.isOverdue(1049, 50));
  EXPECT_TRUE(reads.isOverdue(1050, 50));
  EXPECT_FALSE(reads.isOverdue(1051, 50)) << "it waits anew";
  reads.removeFirst(1090);
  EXPECT_FALSE(reads.isOverdue(1139, 50)) << "another one is the first";
  EXPECT_TRUE(reads.isOverdue(1140, 50));
}

}  // namespace
}  // namespace ramcore::transport::verbs
