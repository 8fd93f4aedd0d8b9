#include "store/lost_keys.h"

#include <gtest/gtest.h>

namespace ramcore::store {
namespace {

TEST(LostKeys, AreThoseThatWereAddedAndNotRemoved) {
  LostKeys lost;
  EXPECT_TRUE(lost.isEmpty());
  EXPECT_FALSE(lost.has(7));
  EXPECT_TRUE(lost.add(7, "seven"));
  EXPECT_TRUE(lost.add(7, "seven"));
  EXPECT_TRUE(lost.add(7, "sieben"));
  EXPECT_TRUE(lost.add(900, "nine hundred"));
  EXPECT_EQ(lost.size(), 3u);
  EXPECT_TRUE(lost.has(7));
  EXPECT_FALSE(lost.has(8));
  EXPECT_TRUE(lost.hasAny({8, 900}));
  EXPECT_FALSE(lost.hasAny({8, 899}));
  EXPECT_FALSE(lost.hasAny({901, ~KeyHash{0}}));
  lost.remove(7, "seven");
  EXPECT_TRUE(lost.has(7)) << "another key has the hash";
  lost.remove(7, "sieben");
  EXPECT_FALSE(lost.has(7));
  lost.remove(900, "another key");
  EXPECT_TRUE(lost.has(900));
}

TEST(LostKeys, AreListedByHash) {
  LostKeys lost;
  for (const KeyHash hash : {5, 1, 9, 7}) EXPECT_TRUE(lost.add(hash, "a"));
  EXPECT_TRUE(lost.add(5, "b"));
  EXPECT_EQ(lost.hashesAfter(std::nullopt, 3), (std::vector<KeyHash>{1, 5, 7}));
  EXPECT_EQ(lost.hashesAfter(7, 3), (std::vector<KeyHash>{9}));
  EXPECT_TRUE(lost.hashesAfter(9, 3).empty());
}

/// The server that has them was asked about these hashes.
TEST(LostKeys, ThoseThatAreNotLostAnyMoreGo) {
  LostKeys lost;
  for (const KeyHash hash : {1, 5, 9}) EXPECT_TRUE(lost.add(hash, "a"));
  EXPECT_TRUE(lost.add(5, "b"));
  lost.keep({1, 5}, {{5, "b"}});
  EXPECT_FALSE(lost.has(1));
  EXPECT_TRUE(lost.has(9)) << "it was not asked about";
  EXPECT_EQ(lost.size(), 2u);
  lost.remove(5, "b");
  EXPECT_FALSE(lost.has(5));
}

TEST(LostKeys, AreNotWithoutBound) {
  LostKeys lost;
  for (KeyHash hash = 0; hash < LostKeys::kMost; ++hash) EXPECT_TRUE(lost.add(hash, "a"));
  EXPECT_FALSE(lost.add(LostKeys::kMost, "a"));
  EXPECT_TRUE(lost.add(0, "a")) << "it is there already";
}

}  // namespace
}  // namespace ramcore::store
