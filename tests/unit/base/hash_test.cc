#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace ramcore {
namespace {

// Key hashes decide where an object lies on every server, so these values never change.
TEST(Hash, GoldenValues) {
  EXPECT_EQ(fingerprint(asBytes("")), 0x2D06800538D394C2u);
  EXPECT_EQ(hashKey(TableId(0), asBytes("")), 0x2D06800538D394C2u);
  EXPECT_EQ(hashKey(TableId(1), asBytes("a")), 0xD2F6D0996F37A720u);
  EXPECT_EQ(hashKey(TableId(1), asBytes("user:4711")), 0xF01D50FFC29E38u);
  EXPECT_EQ(hashKey(TableId(2), asBytes("user:4711")), 0x6276C75F7046E944u);
  EXPECT_EQ(hashKey(TableId(7), asBytes(std::string(300, 'x'))), 0x65AFA05E0F083A41u);
}

// (Keys of up to three bytes may share a hash with those of another table: XXH3 only adds the seed to them.)
TEST(Hash, TableAndKeyBothCount) {
  std::set<KeyHash> seen;
  for (uint32_t table = 1; table <= 20; ++table) {
    for (int key = 0; key < 50; ++key) seen.insert(hashKey(TableId(table), asBytes("key-" + std::to_string(key))));
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(Hash, SpreadsOverTheWholeRange) {
  int counts[16] = {};
  for (int key = 0; key < 16'000; ++key) ++counts[hashKey(TableId(1), asBytes(std::to_string(key))) >> 60];
  for (const int count : counts) {
    EXPECT_GT(count, 800);
    EXPECT_LT(count, 1200);
  }
}

TEST(Hash, FingerprintsDependOnTheSeed) {
  EXPECT_EQ(fingerprint(asBytes("text"), 1), fingerprint(asBytes("text"), 1));
  EXPECT_NE(fingerprint(asBytes("text"), 1), fingerprint(asBytes("text"), 2));
}

}  // namespace
}  // namespace ramcore
