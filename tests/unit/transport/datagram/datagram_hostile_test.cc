// Packets that no honest peer sends, with the secret and without it.
#include "unit/transport/datagram/datagram_hostile.h"
#include "wire/frame.h"

namespace ramcore::transport::datagram {
namespace {

class DatagramHostile : public HostileTest {};

// ---- with the secret

TEST_F(DatagramHostile, DataThatMakesNoSenseIsCaught) {
  const auto body = [](size_t bytes) { return std::vector<std::byte>(bytes, std::byte{1}); };
  const auto change = [&](const std::string& what, uint32_t message_bytes, size_t payload_bytes, auto how) {
    expectCaught(what, [&](Hand& hand) {
      PacketHeader header = hand.requestOf(3, 1, message_bytes);
      how(header);
      hand.send(PacketKind::Request, header, body(payload_bytes));
    });
  };
  change("a message that is too long", wire::kMessageBytesMax + 1, 1450, [](auto&) {});
  change("the longest number", UINT32_MAX, 1450, [](auto&) {});
  change("a head longer than its message", 100, 100, [](auto& header) { header.head_bytes = 101; });
  change("a head longer than any", 100'000, 1450, [](auto& header) { header.head_bytes = wire::kHeadBytesMax + 1; });
  change("a slot that was not agreed", 100, 100, [](auto& header) { header.slot = 64; });
  change("the last slot there could be", 100, 100, [](auto& header) { header.slot = UINT16_MAX; });
  change("a priority that does not exist", 100, 100, [](auto& header) { header.priority = 4; });
  change("a flag of another kind of packet", 100, 100, [](auto& header) { header.flags = wire::kPacketOfResponse; });
  change("a flag that does not exist", 100, 100, [](auto& header) { header.flags = 0x80; });
  change("an offset between packets", 5000, 1450, [](auto& header) { header.offset = 1; });
  change("an offset at the end", 2900, 1450, [](auto& header) { header.offset = 2900; });
  change("an offset far behind it", 2900, 1450, [](auto& header) { header.offset = 1450u * 2'000'000; });
  change("too few bytes", 100, 99, [](auto&) {});
  change("too many bytes", 100, 101, [](auto&) {});
  change("a piece in the middle that is too short", 5000, 1449, [](auto&) {});
  change("bytes of an empty message", 0, 10, [](auto&) {});
  change("a call before the first", 100, 100, [](auto& header) { header.sequence = 0; });
}

TEST_F(DatagramHostile, PiecesThatDoNotFitTogetherAreCaught) {
  const std::vector<std::byte> full(1450, std::byte{1});
  const auto second = [&](const std::string& what, auto how) {
    expectCaught(what, [&](Hand& hand) {
      hand.sendRequest(3, 1, 100'000);
      PacketHeader header = hand.requestOf(3, 1, 100'000, 1450);
      how(header);
      hand.send(PacketKind::Request, header, full);
    });
  };
  second("another length", [](auto& header) { header.message_bytes += 1; });
  second("another head", [](auto& header) { header.head_bytes += 1; });
  second("another priority", [](auto& header) { header.priority += 1; });
  second("another limit of the answer", [](auto& header) { header.response_bytes_max -= 1; });
  second("a piece that was not granted", [](auto& header) { header.offset = 1450 * 60; });
  expectCaught("the first piece was not granted", [&](Hand& hand) { hand.sendRequest(3, 1, 100'000, 1450 * 20); });
}

TEST_F(DatagramHostile, ASecondRequestBeforeTheAnswerIsCaught) {
  expectCaught("while the first one arrives", [](Hand& hand) {
    hand.sendRequest(3, 1, 5000);
    hand.sendRequest(3, 2, 100);
  });
  server.on_request = [&](RxMessage& request) { server.held.push_back(std::move(request)); };
  expectCaught("while the first one is in service", [](Hand& hand) {
    hand.sendRequest(3, 1, 100);
    hand.sendRequest(3, 2, 100);
  });
  server.held.clear();
  server.on_request = [&](RxMessage& request) { server.answer(request); };
}

TEST_F(DatagramHostile, WordsThatMakeNoSenseAreCaught) {
  const auto progress = [&](const std::string& what, auto how, size_t bytes = sizeof(wire::GrantBody)) {
    expectCaught(what, [&](Hand& hand) {
      // The grant is for an answer that is on its way.
      hand.sendRequest(3, 1, 1000);
      run(20 * kMicro);
      PacketHeader header{};
      header.slot = 3;
      header.sequence = 1;
      header.flags = wire::kPacketOfResponse;
      wire::GrantBody body{.later = 0, .received_packets = 0, .granted_packets = 1};
      how(header, body);
      std::vector<std::byte> payload(std::max(bytes, sizeof(body)));
      storeAs(payload.data(), body);
      hand.send(PacketKind::Grant, header, ByteSpan(payload).first(bytes));
    });
  };
  progress("more has come than was sent", [](auto&, auto& body) { body.received_packets = 2; });
  progress("more is granted than there is", [](auto&, auto& body) { body.granted_packets = 2; });
  progress("what has come before it was sent", [](auto&, auto& body) { body.later = 1; });
  progress("all of that", [](auto&, auto& body) { body = {UINT64_MAX, UINT32_MAX, UINT32_MAX}; });
  progress("no such slot", [](auto& header, auto&) { header.slot = 64; });
  progress("no such flag", [](auto& header, auto&) { header.flags = wire::kPacketAgain; });
  progress("too short", [](auto&, auto&) {}, sizeof(wire::GrantBody) - 1);
  progress("too long", [](auto&, auto&) {}, sizeof(wire::GrantBody) + 1);
  progress("empty", [](auto&, auto&) {}, 0);

  const auto taken = [&](const std::string& what, wire::AckEntry entry, size_t bytes = sizeof(wire::AckEntry)) {
    expectCaught(what, [&](Hand& hand) {
      std::vector<std::byte> payload(2 * sizeof(entry));
      storeAs(payload.data(), entry);
      storeAs(payload.data() + sizeof(entry), entry);
      hand.send(PacketKind::Ack, {}, ByteSpan(payload).first(bytes));
    });
  };
  taken("nothing taken", {.sequence = 1, .slot = 1, .reserved = 0}, 0);
  taken("half an entry", {.sequence = 1, .slot = 1, .reserved = 0}, 4);
  taken("an entry and a half", {.sequence = 1, .slot = 1, .reserved = 0}, 12);
  taken("no such slot", {.sequence = 1, .slot = 64, .reserved = 0});
  taken("reserved bytes", {.sequence = 1, .slot = 1, .reserved = 1});

  for (const int kind : {0, 12, 100, 255}) {
    expectCaught("no such kind: " + std::to_string(kind),
                 [&](Hand& hand) { hand.send(static_cast<PacketKind>(kind)); });
  }
  expectCaught("an answer to a Close that was not said", [](Hand& hand) { hand.send(PacketKind::Closed); });
}

TEST_F(DatagramHostile, AnswersToNothingAndLongOnesAreCaught) {
  expectCaught("an answer to a call that was not made", [](Hand& hand) {
    hand.send(PacketKind::Response, hand.requestOf(3, 1, 100), std::vector<std::byte>(100));
  });
  for (const uint32_t bytes : {101u, 5000u}) {
    Asked asked;
    expectCaught("an answer that is longer than was asked for", [&](Hand& hand) {
      TxMessage request = server.make(50, 1);
      ASSERT_EQ(server.endpoint->call(server.opened.back(), request, {.response_bytes_max = 100}, asked), Status::Ok);
      run(20 * kMicro);
      const auto heard = hand.take();
      ASSERT_EQ(heard.size(), 1u);
      hand.send(PacketKind::Response, hand.requestOf(heard[0].header.slot, heard[0].header.sequence, bytes),
                std::vector<std::byte>(std::min(bytes, 1450u)));
    });
    EXPECT_EQ(asked.status, Status::SessionLost);
  }
}

TEST_F(DatagramHostile, NonsenseOfOneSessionIsOfThatSessionAlone) {
  const auto first = greeted(8);
  expectCaught("a flag that does not exist", [](Hand& hand) {
    PacketHeader header = hand.requestOf(3, 1, 100);
    header.flags = 0x40;
    hand.send(PacketKind::Request, header, std::vector<std::byte>(100));
  });
  expectIgnored("another session's end", *first, [] {});
}

// ---- without

TEST_F(DatagramHostile, FramesThatAreNotOursAreIgnored) {
  const auto hand = greeted();
  const std::vector<std::byte> payload(100, std::byte{1});
  const auto ignored = [&](const std::string& what, auto how) {
    expectIgnored(what, *hand, [&] {
      wire::FrameStart start = hand->startOf(PacketKind::Request);
      PacketHeader header = hand->requestOf(3, 1, 100);
      header.session = hand->session;
      how(start, header);
      hand->sendAs(start, header, payload, hand->seal_out.get());
    });
  };
  ignored("another version", [](auto& start, auto&) { start.version = wire::kDatagramVersion + 1; });
  ignored("another protocol", [](auto& start, auto&) { start.ether_type = {0x08, 0x00}; });
  ignored("another receiver", [](auto& start, auto&) { start.to[5] = 77; });
  ignored("all of them", [](auto& start, auto&) { start.to = MacAddress::broadcast().bytes; });
  ignored("from all of them", [](auto& start, auto&) { start.from = MacAddress::broadcast().bytes; });
  ignored("from a group", [](auto& start, auto&) { start.from = {0x33, 0x33, 0, 0, 0, 1}; });
  ignored("reserved bytes", [](auto&, auto& header) { header.reserved1 = 1; });
  ignored("more reserved bytes", [](auto&, auto& header) { header.reserved2 = 0x8000'0000; });
  ignored("a payload longer than the frame", [](auto&, auto& header) { header.payload_bytes = 101; });
  ignored("the longest payload", [](auto&, auto& header) { header.payload_bytes = UINT16_MAX; });
  ignored("no session", [](auto&, auto& header) { header.session = 0; });
  ignored("a session beside it", [](auto&, auto& header) { header.session ^= uint64_t{1} << 40; });
  ignored("a session of an index that there is not", [](auto&, auto& header) { header.session |= 0xffff; });
  expectIgnored("frames that are cut off", *hand, [&] {
    wire::FrameStart start = hand->startOf(PacketKind::Request);
    for (size_t bytes = 0; bytes < wire::kPacketHeaderBytes; ++bytes) {
      std::vector<std::byte> frame(wire::kPacketHeaderBytes);
      storeAs(frame.data(), start);
      hand->sendFrame(ByteSpan(frame).first(std::max<size_t>(bytes, sizeof(start))));
      if (bytes % 8 == 0) run(10 * kMicro);
    }
  });
}

TEST_F(DatagramHostile, WhoDoesNotHaveTheKeySaysNothing) {
  const auto hand = greeted(9);
  const auto other = greeted(8);
  const PacketSeal checksum(Handshake::Key{}, true, false);
  const std::vector<std::byte> payload(100, std::byte{1});
  const auto forge = [&](PacketKind kind, const PacketSeal* seal, ByteSpan bytes, uint64_t guessed) {
    PacketHeader header = kind == PacketKind::Request ? hand->requestOf(3, 1, 100) : PacketHeader{};
    header.session = hand->session;
    header.seal = guessed;
    other->sendAs(hand->startOf(kind), header, bytes, seal);
  };
  for (int number = 1; number <= 12; ++number) {
    const auto kind = static_cast<PacketKind>(number);
    if (kind == PacketKind::Greeting) continue;
    const ByteSpan bytes = kind == PacketKind::Request ? ByteSpan(payload) : ByteSpan();
    expectIgnored("a checksum, kind " + std::to_string(number), *hand, [&] { forge(kind, &checksum, bytes, 0); });
    expectIgnored("another session's key, kind " + std::to_string(number), *hand,
                  [&] { forge(kind, other->seal_out.get(), bytes, 0); });
    expectIgnored("the other direction's key, kind " + std::to_string(number), *hand,
                  [&] { forge(kind, hand->seal_in.get(), bytes, 0); });
    expectIgnored("a guess, kind " + std::to_string(number), *hand, [&] { forge(kind, nullptr, bytes, 77); });
  }
  EXPECT_GT(server.endpoint->packetCounts().unproven, 30u);
}

// Plays a packet again that was recorded long ago, when the numbers of its slot have gone half way round.
TEST_F(DatagramHostile, WhatWasRecordedIsNeverNewAgain) {
  const auto hand = greeted();
  const std::vector<std::byte> payload(100, std::byte{1});
  const auto ask = [&](uint32_t sequence) {
    PacketHeader header = hand->requestOf(3, sequence, 100);
    hand->send(PacketKind::Request, header, payload);
    run(kMilli);
  };
  const uint64_t before = server.request_count;
  ask(5);
  ask(0x8000'0010u);
  EXPECT_EQ(server.request_count, before + 2);
  ask(5);
  EXPECT_EQ(server.request_count, before + 2);
  ask(0x8000'0011u);
  EXPECT_EQ(server.request_count, before + 3);
}

TEST(DatagramTries, EndWithTheSession) {
  Lan lan;
  Station server(lan, 1, {.role = Role::Server, .options = {.unproven_max = 100}});
  server.listen();
  Hand hand(lan, 9);
  ASSERT_TRUE(hand.greet(server));
  const PacketSeal wrong(Handshake::Key{}, true, false);
  wire::PacketHeader header{};
  header.session = hand.session;
  const auto forge = [&] { hand.sendAs(hand.startOf(wire::PacketKind::Probe), header, {}, &wrong); };
  for (int i = 0; i < 99; ++i) forge();
  runUntil(lan, {&server}, [] { return false; }, runtime::kNanosPerMilli);
  EXPECT_TRUE(server.lost.empty());
  forge();
  EXPECT_TRUE(runUntil(lan, {&server}, [&] { return server.lost.size() == 1; }, runtime::kNanosPerMilli));
}

TEST_F(DatagramHostile, EachBitOfASealedPacketIsLookedAt) {
  const auto hand = greeted();
  std::vector<std::byte> frame(wire::kPacketHeaderBytes + 40, std::byte{5});
  PacketHeader header = hand->requestOf(3, 1, 40);
  header.session = hand->session;
  header.payload_bytes = 40;
  const ByteSpan payload = ByteSpan(frame).subspan(wire::kPacketHeaderBytes);
  const wire::FrameStart start = hand->startOf(PacketKind::Request);
  header.seal = hand->seal_out->of(start.version, start.kind, header, std::span(&payload, 1));
  storeAs(frame.data(), start);
  storeAs(frame.data() + sizeof(start), header);
  expectIgnored("one bit is another one", *hand, [&] {
    // (Who sent it is no part of the proof: the key is.)
    for (size_t bit = 12 * 8; bit < 8 * frame.size(); ++bit) {
      frame[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      hand->sendFrame(frame);
      frame[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      if (bit % 16 == 0) run(10 * kMicro);
    }
  });
  hand->sendFrame(frame);
  run(kMilli);
  EXPECT_EQ(server.request_count, 1u) << "as it was it is right";
}

TEST_F(DatagramHostile, ReplayedPacketsDoNothingTwice) {
  const auto hand = greeted();
  std::vector<std::vector<std::byte>> recorded;
  const auto record = [&](PacketKind kind, PacketHeader header, ByteSpan payload) {
    header.session = hand->session;
    header.payload_bytes = static_cast<uint16_t>(payload.size());
    const wire::FrameStart start = hand->startOf(kind);
    header.seal = hand->seal_out->of(start.version, start.kind, header, std::span(&payload, 1));
    std::vector<std::byte> frame(wire::kPacketHeaderBytes);
    storeAs(frame.data(), start);
    storeAs(frame.data() + sizeof(start), header);
    frame.insert(frame.end(), payload.begin(), payload.end());
    recorded.push_back(frame);
    hand->sendFrame(frame);
    run(20 * kMicro);
  };
  const std::vector<std::byte> payload(1450, std::byte{1});
  for (uint32_t sequence = 1; sequence <= 3; ++sequence) {
    record(PacketKind::Request, hand->requestOf(0, sequence, 100), ByteSpan(payload).first(100));
    record(PacketKind::Request, hand->requestOf(1, sequence, 2900), payload);
    record(PacketKind::Request, hand->requestOf(1, sequence, 2900, 1450), payload);
    for (uint16_t slot = 0; slot < 2; ++slot) {
      const wire::AckEntry entry{.sequence = sequence, .slot = slot, .reserved = 0};
      record(PacketKind::Ack, {}, bytesOf(entry));
    }
  }
  ASSERT_EQ(server.request_count, 6u);
  runtime::Random random(1);
  expectIgnored("all of it once more, in another order", *hand, [&] {
    for (int i = 0; i < 200; ++i) {
      hand->sendFrame(recorded[random.below(recorded.size())]);
      run(5 * kMicro);
    }
  });
  // The recorded packets have no effect in a later session of the same peer either.
  hand->send(PacketKind::Close);
  run(kMilli);
  ASSERT_TRUE(hand->greet(server));
  expectIgnored("packets of a session that is over", *hand, [&] {
    for (const auto& frame : recorded) {
      hand->sendFrame(frame);
      run(5 * kMicro);
    }
  });
}

TEST_F(DatagramHostile, PacketsThatAreSentBackAreIgnored) {
  const auto hand = greeted();
  hand->sendRequest(0, 1, 100);
  hand->sendRequest(1, 1, 2000);
  hand->sendRequest(1, 1, 2000, 1450);
  run(kMilli);
  const auto heard = hand->take();
  ASSERT_GE(heard.size(), 3u);
  expectIgnored("what the server said, sent back to it", *hand, [&] {
    for (const Hand::Packet& packet : heard) {
      wire::FrameStart start = packet.start;
      std::swap(start.to, start.from);
      PacketHeader header = packet.header;
      hand->sendAs(start, header, packet.payload, nullptr);
      header.session = hand->session;
      hand->sendAs(start, header, packet.payload, nullptr);
    }
  });
}

// An attacker that listens on the wire knows the numbers of sessions.
TEST_F(DatagramHostile, ForgedEndsDoNotEndHonestSessions) {
  Hand stranger(lan, 9, "guess");
  const auto hand = greeted(8);
  const PacketSeal checksum(Handshake::Key{}, true, false);
  expectIgnored("Unknown and Gone from the peer's address", *hand, [&] {
    for (int i = 0; i < 100; ++i) {
      wire::FrameStart start = hand->startOf(PacketKind::Unknown);
      PacketHeader header{};
      header.session = i % 2 == 0 ? hand->session : 0;
      stranger.sendAs(start, header, bytesOf(hand->own_number), &checksum);
      stranger.sendAs(start, header, ByteSpan(bytesOf(hand->own_number)).first(7), &checksum);
      for (const PacketKind kind : {PacketKind::Reset, PacketKind::Close}) {
        start.kind = kind;
        header.session = hand->session;
        stranger.sendAs(start, header, {}, &checksum);
      }
      // The peer is asked whether it is still there, and says so.
      run(kMilli);
      for (const Hand::Packet& packet : hand->take()) {
        if (packet.start.kind == PacketKind::Probe) hand->send(PacketKind::ProbeReply);
      }
    }
  });
}

TEST_F(DatagramHostile, AnUnknownIsAReasonToAskAndSilenceTheAnswer) {
  const auto hand = greeted(8);
  const size_t lost_before = server.lost.size();
  const PacketSeal checksum(Handshake::Key{}, true, false);
  PacketHeader header{};
  header.session = hand->session;
  hand->sendAs(hand->startOf(PacketKind::Unknown), header, bytesOf(hand->own_number), &checksum);
  ASSERT_TRUE(runUntil(lan, {&server, &client}, [&] { return server.lost.size() > lost_before; }, kSecond));
  EXPECT_EQ(server.lost.back().second, Status::SessionLost);
}

}  // namespace
}  // namespace ramcore::transport::datagram
