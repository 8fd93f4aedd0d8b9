#include "transport/datagram/ack_sender.h"

#include <gtest/gtest.h>

#include "unit/transport/datagram/endpoint_parts.h"

namespace ramcore::transport::datagram {
namespace {

wire::PacketHeader answerIn(uint16_t slot) {
  wire::PacketHeader header{};
  header.slot = slot;
  return header;
}

TEST(AckSender, OnePacketAcknowledgesAllAnswersOfASession) {
  EndpointParts parts;
  AckSender acks(parts.clock, parts.sessions, parts.packets);
  Session& session = parts.open();
  acks.note(session, answerIn(0));
  acks.note(session, answerIn(1));
  acks.note(session, answerIn(1));
  EXPECT_FALSE(acks.isAnyDue());
  acks.send(false);
  EXPECT_FALSE(parts.packets.hasBacklog());
  parts.lan.pass(kAckDelayNs);
  parts.clock.read();
  ASSERT_TRUE(acks.isAnyDue());
  acks.send(false);
  parts.packets.flush();
  EXPECT_EQ(parts.arrived(), std::vector{wire::PacketKind::Ack});
  EXPECT_FALSE(acks.isAnyDue());
}

TEST(AckSender, AFurtherRequestInTheSlotIsTheAcknowledgement) {
  EndpointParts parts;
  AckSender acks(parts.clock, parts.sessions, parts.packets);
  Session& session = parts.open();
  acks.note(session, answerIn(2));
  session.channel->own[2].owes_taken = false;  // as call() does
  acks.send(true);
  EXPECT_FALSE(parts.packets.hasBacklog());
  acks.note(session, answerIn(2));
  acks.send(true);
  EXPECT_TRUE(parts.packets.hasBacklog());
}

}  // namespace
}  // namespace ramcore::transport::datagram
