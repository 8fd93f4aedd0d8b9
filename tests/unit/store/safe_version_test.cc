#include "store/safe_version.h"

#include <gtest/gtest.h>

namespace ramcore::store {
namespace {

TEST(SafeVersionTest, IsAboveAllThatWereHandedOut) {
  SafeVersion versions;
  EXPECT_EQ(versions.now(), 1u);
  EXPECT_EQ(versions.take(), 1u);
  EXPECT_EQ(versions.take(), 2u);
  EXPECT_EQ(versions.now(), 3u);
}

TEST(SafeVersionTest, IsRaisedAndNeverLowered) {
  SafeVersion versions;
  versions.raise(10);
  EXPECT_EQ(versions.now(), 11u);
  versions.raise(5);
  EXPECT_EQ(versions.now(), 11u);
  versions.raise(11);
  EXPECT_EQ(versions.take(), 12u);
}

}  // namespace
}  // namespace ramcore::store
