/// What two processes of one machine share, byte by byte. A test that fails here means that old and new processes do
/// not understand each other: the protocol version changes with it.
#include <cstddef>

#include <gtest/gtest.h>

#include "transport/shm/ring_layout.h"
#include "unit/wire/hex.h"

namespace ramcore::transport::shm {
namespace {

TEST(ShmGoldenBytes, Offer) {
  SharedOffer offer;
  offer.ring_bytes = 0x04030201;
  EXPECT_WIRE(offer, "53524352494e4731 01020304 00000000");
  EXPECT_EQ(kRingBytesMin, 4096u);
  EXPECT_EQ(kRingBytesMax, 16u * 1024 * 1024);
  EXPECT_EQ(sharedBytes(kRingBytesMin), 4096u + 2 * 4096u);
}

TEST(ShmGoldenBytes, Control) {
  EXPECT_EQ(offsetof(SharedControl, to_server) + offsetof(RingIndices, produced), 0u);
  EXPECT_EQ(offsetof(SharedControl, to_server) + offsetof(RingIndices, consumed), 128u);
  EXPECT_EQ(offsetof(SharedControl, to_client) + offsetof(RingIndices, produced), 256u);
  EXPECT_EQ(offsetof(SharedControl, to_client) + offsetof(RingIndices, consumed), 384u);
  EXPECT_EQ(offsetof(SharedControl, server_wakefulness), 512u);
  EXPECT_EQ(offsetof(SharedControl, client_wakefulness), 640u);
  EXPECT_EQ(static_cast<uint32_t>(Wakefulness::Awake), 0u);
  EXPECT_EQ(static_cast<uint32_t>(Wakefulness::Asleep), 1u);
}

}  // namespace
}  // namespace ramcore::transport::shm
