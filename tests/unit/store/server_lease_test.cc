#include "store/server_lease.h"

#include <gtest/gtest.h>

namespace ramcore::store {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(ServerLease, NothingIsGrantedAtFirst) {
  const ServerLease lease;
  EXPECT_FALSE(lease.isValid(0));
  EXPECT_FALSE(lease.isValid(kSecond));
}

TEST(ServerLease, EndsAtNineTenthsCountedFromTheQuestion) {
  ServerLease lease;
  lease.renewed(10 * kSecond, 2 * kSecond);
  EXPECT_EQ(lease.validUntilNs(), 11'800'000'000);
  EXPECT_TRUE(lease.isValid(10 * kSecond));
  EXPECT_TRUE(lease.isValid(11'800'000'000 - 1));
  EXPECT_FALSE(lease.isValid(11'800'000'000));
}

TEST(ServerLease, LateAnswersNeverShortenIt) {
  ServerLease lease;
  lease.renewed(10 * kSecond, 2 * kSecond);
  lease.renewed(9 * kSecond, 2 * kSecond);
  EXPECT_EQ(lease.validUntilNs(), 11'800'000'000);
  lease.renewed(11 * kSecond, 2 * kSecond);
  EXPECT_EQ(lease.validUntilNs(), 12'800'000'000);
}

TEST(ServerLease, ComesBackAfterItRanOut) {
  ServerLease lease;
  lease.renewed(0, kSecond);
  EXPECT_FALSE(lease.isValid(5 * kSecond));
  lease.renewed(5 * kSecond, kSecond);
  EXPECT_TRUE(lease.isValid(5 * kSecond));
}

TEST(ServerLease, WhatLapsedCountsAgainOnceItIsRenewed) {
  ServerLease lease;
  lease.renewed(10 * kSecond, 2 * kSecond);
  lease.lapse();
  EXPECT_FALSE(lease.isValid(10 * kSecond));
  lease.renewed(10 * kSecond, kSecond);
  EXPECT_TRUE(lease.isValid(10 * kSecond));
}

TEST(ServerLease, AVerdictIsFinal) {
  ServerLease lease;
  lease.renewed(0, kSecond);
  lease.end();
  EXPECT_TRUE(lease.isFenced());
  EXPECT_FALSE(lease.isValid(1));
  lease.renewed(kSecond, 100 * kSecond);
  EXPECT_FALSE(lease.isValid(kSecond));
}

}  // namespace
}  // namespace ramcore::store
