#include "transport/session/admission.h"

#include <gtest/gtest.h>

namespace ramcore::transport {
namespace {

TEST(Admission, BoundsHandshakesOfAcceptedOnesAlone) {
  Admission admission(100, 2);
  for (int i = 0; i < 3; ++i) admission.begins(false);
  EXPECT_TRUE(admission.hasRoomToAccept());
  admission.begins(true);
  EXPECT_TRUE(admission.hasRoomToAccept());
  admission.begins(true);
  EXPECT_FALSE(admission.hasRoomToAccept());
  EXPECT_FALSE(admission.isFull());
  EXPECT_EQ(admission.acceptingCount(), 2u);
  EXPECT_EQ(admission.pendingCount(), 5u);
  admission.opens(true);
  EXPECT_TRUE(admission.hasRoomToAccept());
  EXPECT_EQ(admission.openCount(), 1u);
  EXPECT_EQ(admission.count(), 5u);
}

TEST(Admission, BoundsAllSessions) {
  Admission admission(3, 10);
  admission.begins(true);
  admission.opens(true);
  admission.begins(false);
  EXPECT_FALSE(admission.isFull());
  admission.begins(true);
  EXPECT_TRUE(admission.isFull());
  EXPECT_FALSE(admission.hasRoomToAccept());
  EXPECT_FALSE(admission.isOverfull());
  admission.begins(false);
  EXPECT_TRUE(admission.isOverfull());
  admission.ends(false, false, false);
  admission.ends(true, true, false);
  EXPECT_TRUE(admission.hasRoomToAccept());
  EXPECT_EQ(admission.count(), 2u);
}

TEST(Admission, ClientsHaveSevenEighths) {
  Admission admission(8, 8);
  for (int i = 0; i < 7; ++i) {
    EXPECT_TRUE(admission.hasRoomForClient());
    admission.begins(true);
    admission.provesToBeClient();
    admission.opens(true);
  }
  EXPECT_FALSE(admission.hasRoomForClient());
  EXPECT_TRUE(admission.hasRoomToAccept()) << "the last place is for servers";
  admission.ends(true, true, true);
  EXPECT_TRUE(admission.hasRoomForClient());
}

}  // namespace
}  // namespace ramcore::transport
