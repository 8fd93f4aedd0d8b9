#include "transport/session/pending_sessions.h"

#include <gtest/gtest.h>

#include <vector>

namespace ramcore::transport {
namespace {

TEST(PendingSessions, TheOldestLeaves) {
  EXPECT_EQ(chooseWhoLeaves(std::vector<PendingSession>{{"a", 5, true}}), 0u);
  EXPECT_EQ(chooseWhoLeaves(std::vector<PendingSession>{{"a", 5, true}, {"a", 3, true}, {"a", 4, true}}), 1u);
}

TEST(PendingSessions, ThoseWhoSaidSomethingStayLonger) {
  EXPECT_EQ(chooseWhoLeaves(std::vector<PendingSession>{{"a", 1, false}, {"a", 2, true}, {"a", 3, true}}), 1u);
}

TEST(PendingSessions, WhoHasManyPushesOutItsOwn) {
  EXPECT_EQ(chooseWhoLeaves(std::vector<PendingSession>{{"b", 1, true}, {"a", 2, false}, {"a", 3, false}}), 1u);
}

}  // namespace
}  // namespace ramcore::transport
