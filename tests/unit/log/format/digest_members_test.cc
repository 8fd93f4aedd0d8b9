#include "log/format/digest_members.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace ramcore::log {
namespace {

TEST(DigestMembers, AgreesWithASet) {
  DigestMembers members;
  MemberChanges noted;
  MemberChanges taken;
  std::set<SegmentId> model;
  std::mt19937 random(3);
  for (uint64_t round = 0; round < 2000; ++round) {
    for (uint32_t i = random() % 20; i > 0; --i) {
      const SegmentId id(1 + random() % 60);
      if (random() % 2 == 0) {
        noted.add(id);
        model.insert(id);
      } else {
        noted.remove(id);
        model.erase(id);
      }
    }
    noted.swap(taken);
    // Changes that are noted from here on belong to the next digest.
    noted.add(SegmentId(1000 + round));
    ASSERT_TRUE(std::ranges::equal(members.apply(taken), model));
    ASSERT_TRUE(taken.empty());
    noted.remove(SegmentId(1000 + round));
  }
}

}  // namespace
}  // namespace ramcore::log
