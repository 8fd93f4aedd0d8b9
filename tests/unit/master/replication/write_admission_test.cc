#include "master/replication/write_admission.h"

#include <gtest/gtest.h>

namespace ramcore::master {
namespace {

class WriteAdmissionTest : public ::testing::Test {
 protected:
  static constexpr int64_t kSecond = runtime::kNanosPerSecond;

  /// `count` other servers that keep replicas, beside this one.
  void setMembers(uint64_t count) {
    std::vector<Member> members;
    for (uint64_t id = 0; id <= count; ++id) members.push_back({ServerId(11 + id), {}, true, ""});
    placement_.setMembers(std::move(members));
    admission_.membersChanged();
  }

  runtime::ManualClock clock_;
  ReplicaPlacement placement_{{.replicas = 3, .min_replicas = 2}, clock_, silentTrace(), runtime::Random(3)};
  WriteAdmission admission_{placement_, clock_, silentTrace(), nullptr};
};

TEST_F(WriteAdmissionTest, WritesAreTakenFromTheLeastNumberOfServersOn) {
  placement_.setSelf(ServerId(11));
  admission_.begin();
  EXPECT_EQ(admission_.writeStatus(), Status::TooFewReplicas);
  setMembers(2);
  EXPECT_EQ(admission_.writeStatus(), Status::Ok);
  EXPECT_EQ(admission_.removeStatus(), Status::Ok);
  setMembers(1);
  EXPECT_EQ(admission_.writeStatus(), Status::TooFewReplicas);
  EXPECT_EQ(admission_.removeStatus(), Status::TooFewReplicas);
}

TEST_F(WriteAdmissionTest, HeadsWithoutPlacesStopWritesAfterASecond) {
  placement_.setSelf(ServerId(11));
  setMembers(3);
  admission_.notePlaces(false);
  EXPECT_EQ(admission_.writeStatus(), Status::Ok);
  clock_.advance(kSecond);
  admission_.notePlaces(false);
  EXPECT_EQ(admission_.writeStatus(), Status::TooFewReplicas);
  EXPECT_EQ(admission_.removeStatus(), Status::TooFewReplicas);
  admission_.notePlaces(true);
  EXPECT_EQ(admission_.writeStatus(), Status::Ok);
}

TEST_F(WriteAdmissionTest, RemovalsGoOnWhileSmallHeadsMayFindPlaces) {
  placement_.setSelf(ServerId(11));
  setMembers(3);
  admission_.noteStuck(true);
  EXPECT_FALSE(admission_.isShortOfPlaces()) << "a small head says nothing about others";
  admission_.noteStuck(false);
  EXPECT_TRUE(admission_.isShortOfPlaces());
  admission_.refreshStorage();
  EXPECT_EQ(admission_.storagePercent(), 100U);
  admission_.notePlaces(false);
  clock_.advance(kSecond);
  admission_.notePlaces(false);
  EXPECT_EQ(admission_.writeStatus(), Status::TooFewReplicas);
  EXPECT_EQ(admission_.removeStatus(), Status::Ok);
  admission_.noteOpened(true);
  EXPECT_TRUE(admission_.isShortOfPlaces());
  admission_.noteOpened(false);
  EXPECT_FALSE(admission_.isShortOfPlaces());
}

TEST_F(WriteAdmissionTest, NothingIsTakenOfAFencedServer) {
  placement_.setSelf(ServerId(11));
  setMembers(3);
  admission_.fence();
  setMembers(4);
  EXPECT_EQ(admission_.writeStatus(), Status::Fenced);
  EXPECT_EQ(admission_.removeStatus(), Status::Fenced);
}

}  // namespace
}  // namespace ramcore::master
