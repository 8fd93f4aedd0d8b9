#include "transport/datagram/reassembly.h"

#include <gtest/gtest.h>

#include "unit/transport/datagram/endpoint_parts.h"

namespace ramcore::transport::datagram {
namespace {

constexpr uint32_t kReassembledBytes = 3 * EndpointParts::kPacketBytes;

/// A packet of a request of three packets.
class PacketOfRequest {
 public:
  explicit PacketOfRequest(uint32_t number) : bytes_(EndpointParts::kPacketBytes) {
    packet.header.message_bytes = kReassembledBytes;
    packet.header.sequence = 1;
    packet.header.offset = number * EndpointParts::kPacketBytes;
    packet.header.payload_bytes = EndpointParts::kPacketBytes;
    fillContent(bytes_, 5, packet.header.offset);
    packet.payload = bytes_;
  }

  Packet packet;

 private:
  std::vector<std::byte> bytes_;
};

TEST(Reassembly, PutsAMessageTogetherInAnyOrder) {
  EndpointParts parts;
  RxBlockPool blocks;
  Reassembly reassembly(parts.options, parts.clock, parts.sessions, parts.packets, parts.sender, blocks);
  Session& session = parts.open();
  Incoming& incoming = session.channel->served[0].request;
  const Arrival arrival{session.id, 0, false};
  ASSERT_TRUE(reassembly.begin(session, incoming, PacketOfRequest(2).packet, false));
  EXPECT_EQ(reassembly.find(arrival), &incoming);
  const PacketOfRequest first(0);
  const PacketOfRequest second(1);
  const PacketOfRequest third(2);
  EXPECT_EQ(reassembly.take(session, incoming, third.packet, false), Incoming::Took::News);
  EXPECT_EQ(reassembly.take(session, incoming, first.packet, false), Incoming::Took::News);
  EXPECT_EQ(reassembly.take(session, incoming, first.packet, false), Incoming::Took::Copy);
  EXPECT_TRUE(reassembly.hasListed());
  EXPECT_EQ(reassembly.take(session, incoming, second.packet, false), Incoming::Took::News);
  ASSERT_TRUE(incoming.isComplete());
  const RxMessage message = reassembly.finish(session, incoming, false);
  EXPECT_TRUE(hasContent(message, kReassembledBytes, 5));
  EXPECT_EQ(reassembly.find(arrival), nullptr);
  EXPECT_TRUE(session.channel->arriving.empty());
}

TEST(Reassembly, AsksForTheRestAndGivesUpWithTheSession) {
  EndpointParts parts;
  RxBlockPool blocks;
  Reassembly reassembly(parts.options, parts.clock, parts.sessions, parts.packets, parts.sender, blocks);
  Session& session = parts.open();
  Incoming& incoming = session.channel->served[0].request;
  const PacketOfRequest first(0);
  ASSERT_TRUE(reassembly.begin(session, incoming, first.packet, false));
  EXPECT_EQ(reassembly.take(session, incoming, first.packet, false), Incoming::Took::News);
  reassembly.askForRest(session, {session.id, 0, false}, incoming);
  parts.packets.flush();
  EXPECT_EQ(parts.arrived(), std::vector{wire::PacketKind::Grant});
  reassembly.dropAll(*session.channel);
  EXPECT_EQ(blocks.outstanding(), 0u);
  EXPECT_FALSE(incoming.isActive());
}

}  // namespace
}  // namespace ramcore::transport::datagram
