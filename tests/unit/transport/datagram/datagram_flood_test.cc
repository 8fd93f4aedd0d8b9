// Peers that send, announce or leave more than they should, with the secret and without it.
#include "unit/transport/datagram/datagram_hostile.h"

namespace ramcore::transport::datagram {
namespace {

class DatagramFlood : public HostileTest {};

// ---- floods

TEST_F(DatagramFlood, AFloodOfGreetingsShutsOutNobody) {
  Hand flood(lan, 9, "guess");
  Station pending(lan, 3, {});
  runtime::Random random(1);
  uint64_t sessions_max = 0;
  const auto step = [&](int hellos) {
    for (int i = 0; i < hellos; ++i) {
      const MacAddress from{{2, 1, static_cast<uint8_t>(random.next()), static_cast<uint8_t>(random.next()),
                             static_cast<uint8_t>(random.next()), static_cast<uint8_t>(random.next())}};
      flood.hello(macOf(1), random.chance(0.5) ? from : flood.port.facts().address);
    }
    for (Station* station : {&server, &client, &pending}) station->step();
    lan.pass(5 * kMicro);
    sessions_max = std::max(sessions_max, server.endpoint->heldCounts().sessions);
  };
  for (int i = 0; i < 1000; ++i) step(4);
  const SessionId wanted = pending.connect(server);
  for (int i = 0; i < 20'000 && pending.opened.empty() && pending.lost.empty(); ++i) step(4);
  EXPECT_EQ(pending.opened, std::vector{wanted});
  EXPECT_LE(sessions_max, 2u + options().greetings_max + 64) << "those of one round may be more";
  // The pending sessions are forgotten after a while.
  ASSERT_TRUE(runUntil(
      lan, {&server, &client, &pending}, [&] { return server.endpoint->heldCounts().sessions == 2; }, 10 * kSecond,
      50 * kMicro));
  EXPECT_EQ(server.endpoint->badSessionCount(), 0u) << "anybody's first words prove nothing";
}

TEST_F(DatagramFlood, AFloodOfUnknownSessionsIsNotAnsweredInFull) {
  Hand flood(lan, 9, "guess");
  flood.peer = macOf(1);
  const uint64_t sent_before = server.endpoint->packetCounts().sent;
  const PacketSeal checksum(Handshake::Key{}, true, false);
  constexpr int kPackets = 20'000;
  for (int i = 0; i < kPackets; ++i) {
    PacketHeader header{};
    header.session = lan.entropy.next();
    flood.sendAs(flood.startOf(PacketKind::Probe), header, {}, &checksum);
    if (i % 8 == 0) run(kMicro);
  }
  EXPECT_GT(server.endpoint->packetCounts().unknown_peers, kPackets / 2u);
  EXPECT_LT(server.endpoint->packetCounts().sent - sent_before, kPackets / 10u);
}

TEST_F(DatagramFlood, GreetingsThatMakeNoSenseAreIgnored) {
  Hand hand(lan, 9);
  hand.peer = macOf(1);
  const PacketSeal checksum(Handshake::Key{}, true, false);
  const wire::GreetingBody right{.session = 5,
                                 .received_bytes = 0,
                                 .port = 1,
                                 .packet_bytes = 1450,
                                 .unasked_packets = 16,
                                 .wants_seal = 1,
                                 .reserved1 = 0,
                                 .reserved2 = 0};
  const auto ignored = [&](const std::string& what, auto how) {
    SCOPED_TRACE(what);
    wire::GreetingBody body = right;
    PacketHeader header{};
    how(header, body);
    std::vector<std::byte> payload(bytesOf(body).begin(), bytesOf(body).end());
    payload.resize(payload.size() + 40);
    hand.sendAs(hand.startOf(PacketKind::Greeting), header, payload, &checksum);
    run(100 * kMicro);
    EXPECT_EQ(server.endpoint->heldCounts().sessions, 1u);
    hand.take();
  };
  ignored("no number", [](auto&, auto& body) { body.session = 0; });
  ignored("packets that are too short", [](auto&, auto& body) { body.packet_bytes = wire::kPacketBytesMin - 1; });
  ignored("nothing unasked", [](auto&, auto& body) { body.unasked_packets = 0; });
  ignored("half a seal", [](auto&, auto& body) { body.wants_seal = 2; });
  ignored("reserved byte", [](auto&, auto& body) { body.reserved1 = 1; });
  ignored("reserved bytes", [](auto&, auto& body) { body.reserved2 = 1; });
  ignored("another port", [](auto&, auto& body) { body.port = 2; });
  ignored("the middle of a greeting", [](auto& header, auto&) { header.offset = 8; });
  ignored("a session that is not there", [](auto& header, auto&) { header.session = 0x1234'0000; });
  hand.sendAs(hand.startOf(PacketKind::Greeting), {}, ByteSpan(bytesOf(right)).first(23), &checksum);
  PacketHeader unsealed{};
  unsealed.seal = 1;
  hand.sendAs(hand.startOf(PacketKind::Greeting), unsealed, bytesOf(right), nullptr);
  run(100 * kMicro);
  EXPECT_EQ(server.endpoint->heldCounts().sessions, 1u);
  EXPECT_EQ(server.endpoint->badSessionCount(), 0u);
}

TEST_F(DatagramFlood, AWrongSecretIsRefusedOnceAndCountedOnce) {
  Hand hand(lan, 9, "guess");
  EXPECT_FALSE(hand.greet(server));
  run(6 * kSecond);
  EXPECT_EQ(server.endpoint->badSessionCount(), 1u);
  EXPECT_EQ(server.endpoint->heldCounts().sessions, 1u);
}

// ---- memory

TEST_F(DatagramFlood, AnnouncementsDoNotTakeAllMemory) {
  const auto hand = greeted();
  const size_t lost_before = server.lost.size();
  for (uint16_t slot = 0; slot < 64; ++slot) {
    hand->sendRequest(slot, 1, 8'000'000);
    run(10 * kMicro);
  }
  EXPECT_LE(server.endpoint->heldCounts().block_bytes, kHeldMax + 100'000);
  EXPECT_GT(server.endpoint->heldCounts().block_bytes, kHeldMax / 2);
  // Others find none, until the one who stands still has to go.
  exchange(6'000'000);
  EXPECT_EQ(server.lost.size(), lost_before + 1);
  EXPECT_EQ(server.endpoint->heldCounts().sessions, 1u);
}

TEST_F(DatagramFlood, AMessageThatIsNeverFinishedEndsItsSession) {
  const int64_t since_ns = lan.nowNs();
  const auto bad_before = server.endpoint->badSessionCount();
  const auto hand = greeted();
  hand->sendRequest(3, 1, 5000);
  ASSERT_TRUE(runUntil(
      lan, {&server, &client},
      [&] {
        // The peer answers all probes.
        for (const Hand::Packet& packet : hand->take()) {
          if (packet.start.kind == PacketKind::Probe) hand->send(PacketKind::ProbeReply);
        }
        return server.endpoint->badSessionCount() > bad_before;
      },
      kSecond));
  EXPECT_NEAR(static_cast<double>(lan.nowNs() - since_ns), 200e6, 30e6);
  EXPECT_EQ(server.endpoint->heldCounts().block_bytes, 0u);
}

// Eight of them hold all the grants there are.
TEST_F(DatagramFlood, MessagesThatStandStillKeepNoOthersFromBeingGranted) {
  const auto hand = greeted();
  for (uint16_t slot = 0; slot < 16; ++slot) {
    hand->sendRequest(slot, 1, 30'000);
    run(10 * kMicro);
  }
  run(40 * kMilli);
  const int64_t since_ns = lan.nowNs();
  std::vector<Asked> calls(3);
  for (Asked& asked : calls) ASSERT_EQ(client.call(session, asked, 500'000, 5), Status::Ok);
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] {
    return std::ranges::all_of(calls, [](const Asked& asked) { return asked.completions == 1; });
  }));
  EXPECT_LT(lan.nowNs() - since_ns, 10 * kMilli);
}

TEST_F(DatagramFlood, AnswersThatNobodyTakesAreCopiedAndGivenUpInTheEnd) {
  const auto hand = greeted();
  const auto bad_before = server.endpoint->badSessionCount();
  const auto requests_before = server.request_count;
  for (uint16_t slot = 0; slot < 8; ++slot) {
    hand->sendRequest(slot, 1, 1000);
    run(10 * kMicro);
  }
  ASSERT_EQ(server.request_count, requests_before + 8);
  EXPECT_GT(server.lender.heldCount(), 0u);
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return server.lender.heldCount() == 0; }, 20 * kMilli));
  EXPECT_LE(server.lender.longestNs(), 12 * kMilli);
  EXPECT_EQ(server.endpoint->borrowedCounts().messages_copied_out, 8u);
  const auto is_given_up = [&] {
    for (const Hand::Packet& packet : hand->take()) {
      if (packet.start.kind == PacketKind::Probe) hand->send(PacketKind::ProbeReply);
    }
    return server.endpoint->badSessionCount() > bad_before;
  };
  ASSERT_TRUE(runUntil(lan, {&server, &client}, is_given_up, 300 * kMilli));
  EXPECT_EQ(server.endpoint->heldCounts().outgoing, 0u);
}

TEST_F(DatagramFlood, WhoLeavesTooMuchUnreadIsClosed) {
  server.on_request = [&](RxMessage& request) {
    if (request.messageBytes() != 77) return server.answer(request);
    server.endpoint->reply(request.reply_to, server.make(1'000'000, 1));
  };
  const auto hand = greeted();
  const size_t lost_before = server.lost.size();
  for (uint16_t slot = 0; slot < 10; ++slot) {
    hand->sendRequest(slot, 1, 77);
    run(10 * kMicro);
  }
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return server.lost.size() > lost_before; }, 50 * kMilli));
  EXPECT_EQ(server.endpoint->borrowedCounts().sessions_dropped, 1u);
  EXPECT_EQ(server.endpoint->borrowedCounts().messages_copied_out, 0u) << "nothing is copied first";
  EXPECT_EQ(server.lender.heldCount(), 0u);
}

// Several of them, none of which leaves too much alone.
TEST_F(DatagramFlood, WhereAllLeaveTooMuchTheWorstGoes) {
  server.on_request = [&](RxMessage& request) {
    if (request.messageBytes() != 77) return server.answer(request);
    server.endpoint->reply(request.reply_to, server.make(1'000'000, 1));
  };
  std::vector<std::unique_ptr<Hand>> hands;
  for (uint8_t number = 10; number < 16; ++number) {
    hands.push_back(greeted(number));
    for (uint16_t slot = 0; slot < 5; ++slot) {
      hands.back()->sendRequest(slot, 1, 77);
      run(10 * kMicro);
    }
  }
  // An honest one comes last, and does not take its answer either while the others wait.
  Station late(lan, 3, {});
  const SessionId last = late.connect(server);
  const std::vector<Station*> all{&server, &client, &late};
  ASSERT_TRUE(runUntil(lan, all, [&] { return !late.opened.empty(); }));
  server.on_request = [&](RxMessage& request) {
    late.port.setTaking(false);
    server.answer(request);
  };
  Asked asked;
  ASSERT_EQ(late.call(last, asked, 300'000, 1), Status::Ok);
  runUntil(lan, all, [] { return false; }, 40 * kMilli);
  EXPECT_EQ(server.endpoint->borrowedCounts().sessions_dropped, 2u) << "5 MB each, and not much more than 25 in all";
  late.port.setTaking(true);
  ASSERT_TRUE(runUntil(lan, all, [&] { return asked.completions == 1; }, kSecond));
  EXPECT_TRUE(hasContent(asked.response, 300'000, 1));
}

// Requests of others are longer than a packet, and all memory is in answers that nobody takes.
TEST_F(DatagramFlood, UnreadAnswersDoNotKeepRequestsOutForEver) {
  server.on_request = [&](RxMessage& request) {
    if (request.messageBytes() != 77) return server.answer(request);
    server.endpoint->reply(request.reply_to, server.make(1'000'000, 1));
  };
  std::vector<std::unique_ptr<Hand>> hands;
  for (uint8_t number = 10; number < 14; ++number) {
    hands.push_back(greeted(number));
    for (uint16_t slot = 0; slot < 5; ++slot) {
      hands.back()->sendRequest(slot, 1, 77);
      run(10 * kMicro);
    }
  }
  run(12 * kMilli);
  const size_t lost_before = server.lost.size();
  ASSERT_EQ(server.endpoint->borrowedCounts().sessions_dropped, 0u);
  exchange(6'000'000, 150 * kMilli);
  EXPECT_EQ(server.lost.size(), lost_before + 1) << "who holds most gives way";
}

}  // namespace
}  // namespace ramcore::transport::datagram
