#include "transport/verbs/regions.h"

#include <gtest/gtest.h>

namespace ramcore::transport::verbs {
namespace {

TEST(VerbsRegions, MemoryThatCannotBeRegisteredUsesItsNumberUp) {
  Regions regions;
  regions.addUnregistered();
  EXPECT_EQ(regions.count(), 1u);
  const std::byte bytes[64] = {};
  uint32_t key = 0;
  EXPECT_FALSE(regions.findKey(Chunk{.address = bytes, .bytes = sizeof bytes, .region = 1}, key));
  EXPECT_FALSE(regions.findKey(Chunk{.address = nullptr, .bytes = 0, .region = 2}, key));
}

}  // namespace
}  // namespace ramcore::transport::verbs
