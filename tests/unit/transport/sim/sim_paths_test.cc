#include "transport/sim/sim_paths.h"

#include <gtest/gtest.h>

namespace ramcore::transport {
namespace {

TEST(SimPaths, ABlockedWayIsOneWay) {
  SimPaths paths;
  EXPECT_FALSE(paths.isBlocked("a", "b"));
  EXPECT_TRUE(paths.block("a", "b"));
  EXPECT_FALSE(paths.block("a", "b"));
  EXPECT_TRUE(paths.isBlocked("a", "b"));
  EXPECT_FALSE(paths.isBlocked("b", "a"));
  EXPECT_TRUE(paths.unblock("b", "a"));
  EXPECT_FALSE(paths.unblock("b", "a"));
  EXPECT_FALSE(paths.isBlocked("a", "b"));
}

TEST(SimPaths, AnIsolatedNodeReachesOnlyItself) {
  SimPaths paths;
  EXPECT_TRUE(paths.isolate("a"));
  EXPECT_TRUE(paths.isBlocked("a", "b"));
  EXPECT_TRUE(paths.isBlocked("b", "a"));
  EXPECT_FALSE(paths.isBlocked("a", "a"));
  EXPECT_FALSE(paths.isBlocked("b", "c"));
  paths.healAll();
  EXPECT_FALSE(paths.rejoin("a"));
  EXPECT_FALSE(paths.isBlocked("a", "b"));
}

TEST(SimPaths, AHushedNodeStaysSoWhenAllIsHealed) {
  SimPaths paths;
  paths.hush("a");
  paths.healAll();
  EXPECT_TRUE(paths.isHushed("b", "a"));
  EXPECT_TRUE(paths.isBlocked("b", "a"));
  paths.unhush("a");
  EXPECT_FALSE(paths.isHushed("b", "a"));
  EXPECT_FALSE(paths.isBlocked("b", "a"));
}

TEST(SimPaths, StallsAndReadersAreKeptApart) {
  SimPaths paths;
  paths.stall("a", "b");
  EXPECT_TRUE(paths.isStalled("a", "b"));
  EXPECT_FALSE(paths.isStalled("b", "a"));
  EXPECT_FALSE(paths.isBlocked("a", "b"));
  paths.unstall();
  EXPECT_FALSE(paths.isStalled("a", "b"));
  EXPECT_TRUE(paths.areAllReading());
  paths.stopReading("a");
  EXPECT_FALSE(paths.isReading("a"));
  EXPECT_TRUE(paths.isReading("b"));
  paths.resumeReading("a");
  EXPECT_TRUE(paths.areAllReading());
}

}  // namespace
}  // namespace ramcore::transport
