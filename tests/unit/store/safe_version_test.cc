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

// A key that is overwritten again and again gets higher versions than any new key.
TEST(SafeVersionTest, TheCeilingIsAboveOverwrittenKeysToo) {
  SafeVersion versions;
  EXPECT_EQ(versions.ceiling(), 1u);
  EXPECT_EQ(versions.take(), 1u);
  for (Version version = 2; version <= 20; ++version) versions.noteOverwrite(version);
  EXPECT_EQ(versions.now(), 2u) << "new keys are not affected";
  EXPECT_EQ(versions.ceiling(), 21u);
  versions.noteOverwrite(5);
  EXPECT_EQ(versions.ceiling(), 21u);
  versions.raise(30);
  EXPECT_EQ(versions.ceiling(), 31u);
}

}  // namespace
}  // namespace ramcore::store
