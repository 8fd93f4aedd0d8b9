#include "transport/datagram/packet_sender.h"

#include <gtest/gtest.h>

#include "unit/transport/datagram/endpoint_parts.h"

namespace ramcore::transport::datagram {
namespace {

TEST(PacketSender, FramesWaitForFlush) {
  EndpointParts parts;
  const Session& session = parts.open();
  parts.packets.sendControlPacket(session, wire::PacketKind::Probe);
  EXPECT_TRUE(parts.packets.hasBacklog());
  EXPECT_TRUE(parts.arrived().empty());
  parts.packets.flush();
  EXPECT_FALSE(parts.packets.hasBacklog());
  EXPECT_EQ(parts.arrived(), std::vector{wire::PacketKind::Probe});
  EXPECT_EQ(parts.packets.packetCounts().sent, 1u);
}

TEST(PacketSender, FramesThatAPortDoesNotTakeAreDropped) {
  EndpointParts parts;
  const Session& session = parts.open();
  parts.port.is_cut = true;
  parts.packets.sendControlPacket(session, wire::PacketKind::Probe);
  parts.packets.flush();
  parts.packets.dropStalled(0);
  EXPECT_TRUE(parts.packets.hasBacklog());
  parts.lan.pass(100 * kMilli);
  parts.clock.read();
  parts.packets.dropStalled(0);
  EXPECT_FALSE(parts.packets.hasBacklog());
  EXPECT_EQ(parts.packets.packetCounts().dropped, 1u);
}

TEST(PacketSender, AFullBacklogTakesNoMoreMessages) {
  EndpointParts parts;
  Session& session = parts.open();
  parts.port.is_cut = true;
  uint32_t started = 0;
  while (!parts.sender.hasReady() && started < 1000) {
    parts.sender.start(session, parts.message(8), {.sequence = ++started});
  }
  EXPECT_LT(started, 1000u);
  EXPECT_EQ(parts.packets.packetCounts().sent, started - 1);
}

}  // namespace
}  // namespace ramcore::transport::datagram
