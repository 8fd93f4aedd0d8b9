#include "store/crowded_hashes.h"

#include <gtest/gtest.h>

namespace ramcore::store {
namespace {

constexpr KeyHash kLastHash = ~uint64_t{0};

TEST(CrowdedHashes, AreListedByTableAndRange) {
  CrowdedHashes crowded;
  crowded.add(TableId(2), 500);
  crowded.add(TableId(2), 100);
  crowded.add(TableId(2), kLastHash);
  crowded.add(TableId(2), 100);
  crowded.add(TableId(1), 300);
  crowded.add(TableId(3), 0);
  EXPECT_EQ(crowded.list(TableId(2), {0, kLastHash}).hashes, (std::vector<KeyHash>{100, 500, kLastHash}));
  EXPECT_EQ(crowded.list(TableId(2), {101, 500}).hashes, (std::vector<KeyHash>{500}));
  EXPECT_TRUE(crowded.list(TableId(4), {0, kLastHash}).hashes.empty());
  EXPECT_FALSE(crowded.list(TableId(2), {0, kLastHash}).are_all);
}

TEST(CrowdedHashes, TooManyAreAll) {
  CrowdedHashes crowded;
  for (KeyHash hash = 0; hash < CrowdedHashes::kMost; ++hash) crowded.add(TableId(1), hash);
  EXPECT_FALSE(crowded.list(TableId(1), {0, kLastHash}).are_all);
  crowded.add(TableId(1), CrowdedHashes::kMost);
  EXPECT_TRUE(crowded.list(TableId(1), {0, kLastHash}).are_all);
  EXPECT_TRUE(crowded.list(TableId(7), {0, 0}).are_all) << "it is not known of which table the others are";
}

}  // namespace
}  // namespace ramcore::store
