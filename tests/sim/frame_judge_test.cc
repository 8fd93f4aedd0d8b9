// A judge of frames that is not there, or says what makes no sense, is never taken for one that finds nothing wrong.
#include "sim/cluster/frame_judge.h"

#include <gtest/gtest.h>

namespace ramcore::sim {
namespace {

TEST(FrameJudge, OneThatCannotBeRunIsAFailure) {
  FrameJudge judge("/nonexistent/judge");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(judge.judge(JudgedMoment()).failures.size(), 1u);
}

TEST(FrameJudge, OneThatEndsIsAFailure) {
  FrameJudge judge("/bin/true");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(judge.judge(JudgedMoment()).failures.size(), 1u);
}

TEST(FrameJudge, OneThatSaysSomethingElseIsAFailure) {
  FrameJudge judge("/bin/cat");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(judge.judge(JudgedMoment()).failures.size(), 1u);
}

}  // namespace
}  // namespace ramcore::sim
