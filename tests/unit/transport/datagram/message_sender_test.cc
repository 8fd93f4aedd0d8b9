#include "transport/datagram/message_sender.h"

#include <gtest/gtest.h>

#include "unit/transport/datagram/endpoint_parts.h"

namespace ramcore::transport::datagram {
namespace {

TEST(MessageSender, AShortMessageGoesToItsPortAtOnce) {
  EndpointParts parts;
  Session& session = parts.open();
  Outgoing* outgoing = &parts.sender.start(session, parts.message(100), {.sequence = 1});
  EXPECT_FALSE(parts.sender.hasReady());
  EXPECT_TRUE(parts.sender.hasBegun());
  parts.sender.dateBegun();
  EXPECT_FALSE(parts.sender.hasBegun());
  parts.packets.flush();
  EXPECT_EQ(parts.arrived(), std::vector{wire::PacketKind::Request});
  EXPECT_EQ(parts.sender.count(), 1u);
  parts.sender.end(*session.channel, outgoing);
  EXPECT_EQ(outgoing, nullptr);
  EXPECT_TRUE(session.channel->sending.empty());
  EXPECT_TRUE(parts.sender.hasRetired());
  parts.sender.recycleRetired();
  EXPECT_FALSE(parts.sender.hasRetired());
  EXPECT_EQ(parts.sender.count(), 0u);
}

TEST(MessageSender, ALongMessageWaitsForGrants) {
  EndpointParts parts;
  Session& session = parts.open();
  const Outgoing& outgoing = parts.sender.start(session, parts.message(5 * EndpointParts::kPacketBytes), {});
  ASSERT_TRUE(parts.sender.hasReady());
  parts.sender.sendReady();
  EXPECT_FALSE(parts.sender.hasReady());
  parts.packets.flush();
  EXPECT_EQ(parts.arrived().size(), 2u);
  EXPECT_EQ(outgoing.next, 2u);
  parts.sender.endAll(*session.channel);
  EXPECT_EQ(parts.sender.count(), 0u);
}

TEST(MessageSender, CountsWhatWaitsForPeers) {
  EndpointParts parts;
  Session& session = parts.open();
  parts.sender.start(session, parts.message(100), {.sequence = 1});
  parts.sender.start(session, parts.message(50), {.sequence = 2, .slot = 1});
  parts.sender.countWaiting(session);
  EXPECT_EQ(session.waiting_bytes, 150u);
  parts.sender.countWaiting(session);
  EXPECT_EQ(parts.sender.allWaitingBytes(), 150u);
  parts.sender.forgetWaiting(session);
  EXPECT_EQ(parts.sender.allWaitingBytes(), 0u);
  parts.sender.endAll(*session.channel);
}

}  // namespace
}  // namespace ramcore::transport::datagram
