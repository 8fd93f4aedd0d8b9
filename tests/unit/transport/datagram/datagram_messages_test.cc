// The parts of the protocol that know neither time nor network: messages that leave, messages that arrive, the
// greeting.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "runtime/random.h"
#include "transport/datagram/greeting_stream.h"
#include "transport/datagram/incoming.h"
#include "transport/datagram/outgoing.h"
#include "transport/datagram/round_trip.h"
#include "transport/memory/buffer_pool.h"

namespace ramcore::transport::datagram {
namespace {

constexpr uint32_t kPacketBytes = 1000;

wire::PacketHeader headerOf(uint32_t message_bytes, uint32_t offset = 0) {
  wire::PacketHeader header{};
  header.message_bytes = message_bytes;
  header.offset = offset;
  return header;
}

// ---- Outgoing

class OutgoingMessage : public ::testing::Test {
 protected:
  ~OutgoingMessage() override {
    outgoing.finish();
    outgoing.recycle();
  }
  void begin(uint32_t bytes, uint32_t unasked) {
    TxMessage message(pool.takeBuffer(bytes));
    if (bytes != 0) std::memset(message.extendHead(bytes), 1, bytes);
    outgoing.begin({}, std::move(message), wire::PacketKind::Request, kPacketBytes, unasked);
  }
  std::vector<uint32_t> sendAll(bool is_again) {
    std::vector<uint32_t> packets;
    while (outgoing.isReady()) {
      bool again = !is_again;
      packets.push_back(outgoing.takeNext(again));
      EXPECT_EQ(again, is_again) << packets.back();
    }
    return packets;
  }
  bool progress(uint32_t received, uint32_t granted, uint64_t later = 0, bool is_overdue = false,
                int64_t now_ns = 1000 * runtime::kNanosPerMilli, int64_t round_trip_ns = 0) {
    return outgoing.onGrant({.later = later, .received_packets = received, .granted_packets = granted}, is_overdue,
                            now_ns, round_trip_ns);
  }

  SimpleBufferPool pool;
  Outgoing outgoing;
};

using Packets = std::vector<uint32_t>;

TEST_F(OutgoingMessage, AnEmptyOneIsAPacketToo) {
  begin(0, 16);
  EXPECT_EQ(sendAll(false), Packets{0});
  EXPECT_EQ(outgoing.bytesOf(0), 0u);
  EXPECT_FALSE(outgoing.isThere());
  EXPECT_TRUE(progress(1, 1));
  EXPECT_TRUE(outgoing.isThere());
}

TEST_F(OutgoingMessage, PacketsAreFullButTheLast) {
  begin(2500, 16);
  EXPECT_EQ(sendAll(false), (Packets{0, 1, 2}));
  EXPECT_EQ(outgoing.bytesOf(1), 1000u);
  EXPECT_EQ(outgoing.offsetOf(2), 2000u);
  EXPECT_EQ(outgoing.bytesOf(2), 500u);
  begin(2000, 16);
  EXPECT_EQ(outgoing.packet_count, 2u);
  EXPECT_EQ(outgoing.bytesOf(1), 1000u);
}

TEST_F(OutgoingMessage, NoMoreLeavesThanIsGranted) {
  begin(10'000, 3);
  EXPECT_EQ(sendAll(false), (Packets{0, 1, 2}));
  EXPECT_TRUE(progress(2, 5));
  EXPECT_EQ(sendAll(false), (Packets{3, 4}));
  EXPECT_TRUE(progress(2, 3)) << "one that was overtaken takes nothing back";
  EXPECT_FALSE(outgoing.isReady());
  EXPECT_TRUE(progress(5, 10));
  EXPECT_EQ(sendAll(false), (Packets{5, 6, 7, 8, 9}));
}

TEST_F(OutgoingMessage, AHoleIsFilledWhenEnoughHasComeBehindIt) {
  begin(10'000, 10);
  sendAll(false);
  EXPECT_TRUE(progress(2, 10, 0b11)) << "3 and 4: 2 may only have been overtaken";
  EXPECT_FALSE(outgoing.isReady());
  EXPECT_TRUE(progress(2, 10, 0b1111));
  EXPECT_EQ(sendAll(true), Packets{2});
  EXPECT_TRUE(outgoing.was_resent);
}

TEST_F(OutgoingMessage, OnlyWhatIsMissingIsSentAgain) {
  begin(10'000, 10);
  sendAll(false);
  // 0, 2, 5 and 9 are there... and 9 says that all before it had their time, but for the last few.
  EXPECT_TRUE(progress(1, 10, 0b10001001));
  EXPECT_EQ(sendAll(true), (Packets{1, 3, 4, 6}));
  EXPECT_TRUE(progress(1, 10, 0b10001001, true));
  EXPECT_EQ(sendAll(true), (Packets{1, 3, 4, 6, 7, 8})) << "overdue: all that was sent";
}

TEST_F(OutgoingMessage, NothingIsSentAgainTwiceInARoundTrip) {
  begin(10'000, 10);
  sendAll(false);
  EXPECT_TRUE(progress(0, 10, 0b11111, false, 100 * runtime::kNanosPerMilli, 5 * runtime::kNanosPerMilli));
  EXPECT_EQ(sendAll(true), (Packets{0}));
  EXPECT_TRUE(progress(0, 10, 0b111111, false, 104 * runtime::kNanosPerMilli, 5 * runtime::kNanosPerMilli));
  EXPECT_FALSE(outgoing.isReady());
  EXPECT_TRUE(progress(0, 10, 0b111111, false, 105 * runtime::kNanosPerMilli, 5 * runtime::kNanosPerMilli));
  EXPECT_TRUE(outgoing.isReady());
}

TEST_F(OutgoingMessage, NonsenseIsNoticed) {
  begin(10'000, 4);
  EXPECT_FALSE(progress(1, 4)) << "before any was sent";
  sendAll(false);
  EXPECT_FALSE(progress(5, 5)) << "more has come than was sent";
  EXPECT_FALSE(progress(1, 11)) << "more is granted than there is";
  EXPECT_FALSE(progress(1, UINT32_MAX));
  EXPECT_FALSE(progress(UINT32_MAX, 4));
  EXPECT_FALSE(progress(1, 4, 0b100)) << "4 is there before it was sent";
  EXPECT_FALSE(progress(0, 4, uint64_t{1} << 63));
  EXPECT_TRUE(progress(1, 4, 0b10)) << "3 was the last one";
}

TEST_F(OutgoingMessage, WhatCouldNotBeSentIsTheNextOneAgain) {
  begin(10'000, 10);
  bool again = true;
  EXPECT_EQ(outgoing.takeNext(again), 0u);
  EXPECT_EQ(outgoing.takeNext(again), 1u);
  outgoing.putBack(1, again);
  EXPECT_FALSE(progress(2, 10)) << "1 was not sent";
  EXPECT_EQ(sendAll(false).front(), 1u);
  // The same of what is sent again: in the middle, and the last of them.
  EXPECT_TRUE(progress(1, 10, 0, true));
  for (uint32_t packet = 1; packet < 10; ++packet) {
    ASSERT_EQ(outgoing.takeNext(again), packet);
    EXPECT_TRUE(again);
    outgoing.putBack(packet, again);
    ASSERT_TRUE(outgoing.isReady());
    ASSERT_EQ(outgoing.takeNext(again), packet);
    EXPECT_TRUE(again);
  }
  EXPECT_FALSE(outgoing.isReady());
}

TEST_F(OutgoingMessage, NothingHeardMeansTheFirstFewAgain) {
  begin(10'000, 10);
  sendAll(false);
  outgoing.resendFirst();
  outgoing.resendFirst();
  EXPECT_EQ(sendAll(true), (Packets{0, 1}));
  EXPECT_TRUE(progress(9, 10));
  outgoing.resendFirst();
  EXPECT_EQ(sendAll(true), (Packets{9}));
  EXPECT_TRUE(progress(10, 10));
  outgoing.resendFirst();
  EXPECT_FALSE(outgoing.isReady());
}

// Whatever is lost, overtaken or told twice: the peer has all of it in the end, and was never sent what it did not
// allow.
TEST(Messages, ArriveWholeOverANetworkThatLosesAndMixesPackets) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    runtime::Random random(seed);
    SimpleBufferPool pool;
    RxBlockPool blocks;
    const auto bytes = static_cast<uint32_t>(1 + random.below(60'000));
    const auto unasked = static_cast<uint32_t>(1 + random.below(20));
    TxMessage message(pool.takeBuffer(bytes));
    std::byte* const head = message.extendHead(bytes);
    for (uint32_t i = 0; i < bytes; ++i) head[i] = static_cast<std::byte>(i * 7 + i / 1000);
    Outgoing outgoing;
    outgoing.begin({}, std::move(message), wire::PacketKind::Request, kPacketBytes, unasked);
    Incoming incoming;
    incoming.begin(headerOf(bytes), kPacketBytes, unasked, blocks.take(bytes));
    std::vector<uint32_t> under_way;
    std::vector<std::pair<wire::GrantBody, bool>> words;
    int64_t now_ns = 0;
    for (int round = 0; !outgoing.isThere(); ++round) {
      ASSERT_LT(round, 10'000) << "seed " << seed << " stands still";
      now_ns += runtime::kNanosPerMilli;
      while (outgoing.isReady()) {
        bool again = false;
        const uint32_t packet = outgoing.takeNext(again);
        if (random.chance(0.05)) {
          outgoing.putBack(packet, again);
          break;
        }
        if (random.chance(0.8)) under_way.push_back(packet);
        if (random.chance(0.1)) under_way.push_back(packet);
      }
      while (!under_way.empty() && random.chance(0.9)) {
        const size_t which = random.below(std::min<size_t>(under_way.size(), 5));
        const uint32_t packet = under_way[which];
        under_way.erase(under_way.begin() + static_cast<ptrdiff_t>(which));
        const wire::PacketHeader header = headerOf(bytes, outgoing.offsetOf(packet));
        const auto took = incoming.take(header, ByteSpan(head + header.offset, outgoing.bytesOf(packet)));
        ASSERT_NE(took, Incoming::Took::Nonsense) << "seed " << seed;
      }
      incoming.grant(16);
      if (random.chance(0.5)) words.emplace_back(incoming.progress(), random.chance(0.3));
      while (!words.empty() && random.chance(0.5)) {
        const size_t which = random.below(words.size());
        if (random.chance(0.8)) {
          ASSERT_TRUE(outgoing.onGrant(words[which].first, words[which].second, now_ns, 2 * runtime::kNanosPerMilli))
              << "seed " << seed;
        }
        if (random.chance(0.8)) words.erase(words.begin() + static_cast<ptrdiff_t>(which));
      }
      if (random.chance(0.1)) outgoing.resendFirst();
    }
    ASSERT_TRUE(incoming.isComplete());
    RxBlock* const block = incoming.takeBlock();
    ASSERT_TRUE(std::equal(head, head + bytes, block->bytes())) << "seed " << seed;
    blocks.drop(block);
    outgoing.finish();
    outgoing.recycle();
  }
}

// ---- Incoming

class IncomingMessage : public ::testing::Test {
 protected:
  ~IncomingMessage() override {
    if (RxBlock* block = incoming.takeBlock(); block != nullptr) blocks.drop(block);
  }
  void begin(uint32_t bytes, uint32_t unasked) {
    if (RxBlock* block = incoming.takeBlock(); block != nullptr) blocks.drop(block);
    first = headerOf(bytes);
    first.head_bytes = 10;
    first.response_bytes_max = 77;
    first.priority = 2;
    incoming.begin(first, kPacketBytes, unasked, blocks.take(bytes));
  }
  Incoming::Took take(uint32_t packet) {
    wire::PacketHeader header = first;
    header.offset = packet * kPacketBytes;
    const std::vector<std::byte> payload(std::min(kPacketBytes, first.message_bytes - header.offset),
                                         static_cast<std::byte>(packet + 1));
    return incoming.take(header, payload);
  }

  RxBlockPool blocks;
  wire::PacketHeader first{};
  Incoming incoming;
};

TEST_F(IncomingMessage, IsWholeWhenEachPacketWasThereOnce) {
  begin(2500, 16);
  EXPECT_EQ(take(2), Incoming::Took::News);
  EXPECT_TRUE(incoming.hasHole());
  EXPECT_EQ(take(0), Incoming::Took::News);
  EXPECT_EQ(take(0), Incoming::Took::Copy);
  EXPECT_EQ(take(2), Incoming::Took::Copy);
  EXPECT_FALSE(incoming.isComplete());
  EXPECT_EQ(take(1), Incoming::Took::News);
  EXPECT_TRUE(incoming.isComplete());
  EXPECT_FALSE(incoming.hasHole());
  RxBlock* const block = incoming.takeBlock();
  for (uint32_t i = 0; i < 2500; ++i) ASSERT_EQ(block->bytes()[i], static_cast<std::byte>(i / kPacketBytes + 1));
  blocks.drop(block);
}

TEST_F(IncomingMessage, TellsWhatIsThere) {
  begin(200'000, 100);
  for (const uint32_t packet : {0u, 1u, 3u, 5u, 66u, 67u, 99u}) EXPECT_EQ(take(packet), Incoming::Took::News);
  const wire::GrantBody body = incoming.progress();
  EXPECT_EQ(body.received_packets, 2u);
  EXPECT_EQ(body.granted_packets, 100u);
  EXPECT_EQ(body.later, uint64_t{0b101} | uint64_t{1} << 63) << "3, 5 and 66; 67 is too far away to be told";
}

TEST_F(IncomingMessage, WhatNoHonestPeerSendsIsNonsense) {
  begin(200'000, 16);
  EXPECT_EQ(take(0), Incoming::Took::News);
  EXPECT_EQ(take(16), Incoming::Took::Nonsense) << "it was not granted";
  const auto isNonsense = [&](auto change) {
    wire::PacketHeader header = first;
    header.offset = kPacketBytes;
    change(header);
    return incoming.take(header, std::vector<std::byte>(kPacketBytes)) == Incoming::Took::Nonsense;
  };
  EXPECT_TRUE(isNonsense([](auto& header) { header.message_bytes += 1; }));
  EXPECT_TRUE(isNonsense([](auto& header) { header.head_bytes += 1; }));
  EXPECT_TRUE(isNonsense([](auto& header) { header.priority = 0; }));
  EXPECT_TRUE(isNonsense([](auto& header) { header.response_bytes_max = 0; }));
  EXPECT_EQ(take(1), Incoming::Took::News) << "and nothing of it was kept";
}

TEST_F(IncomingMessage, GrantsGoAheadOfWhatHasCome) {
  begin(200'000, 16);
  EXPECT_TRUE(incoming.isLong());
  EXPECT_TRUE(incoming.grant(64));
  EXPECT_EQ(incoming.granted(), 64u);
  for (uint32_t packet = 0; packet < 15; ++packet) {
    take(packet);
    EXPECT_FALSE(incoming.grant(64)) << "too little to be worth a word";
  }
  take(15);
  EXPECT_TRUE(incoming.grant(64));
  EXPECT_EQ(incoming.granted(), 80u);
  for (uint32_t packet = 16; packet < 80; ++packet) take(packet);
  EXPECT_FALSE(incoming.owesPackets());
  EXPECT_TRUE(incoming.grant(64));
  EXPECT_TRUE(incoming.owesPackets());
  for (uint32_t packet = 80; packet < 134; ++packet) take(packet);
  EXPECT_TRUE(incoming.grant(64));
  for (uint32_t packet = 134; packet < 136; ++packet) take(packet);
  EXPECT_TRUE(incoming.grant(64)) << "few, but the last ones";
  EXPECT_EQ(incoming.granted(), 200u);
  EXPECT_FALSE(incoming.grant(64));
}

TEST_F(IncomingMessage, TheNextOneInItsPlaceBeginsAnew) {
  begin(200'000, 16);
  for (uint32_t packet = 0; packet < 10; ++packet) take(packet);
  incoming.is_listed = true;
  incoming.tries = 5;
  begin(3000, 16);
  EXPECT_FALSE(incoming.is_listed) << "or nobody would hear of it but by the clock";
  EXPECT_EQ(incoming.tries, 0);
  EXPECT_EQ(incoming.untold_packets, 0u);
  EXPECT_EQ(incoming.remaining(), 3u);
  EXPECT_FALSE(incoming.isLong());
  EXPECT_EQ(take(0), Incoming::Took::News);
}

// ---- RoundTrip

TEST(RoundTrip, WaitsLongerForWhatVariesAndWithEachTry) {
  RoundTrip trip;
  EXPECT_EQ(trip.timeoutNs(0), RoundTrip::kFirstNs);
  EXPECT_EQ(trip.timeoutNs(1), 2 * RoundTrip::kFirstNs);
  trip.note(20'000);
  EXPECT_EQ(trip.smoothedNs(), 20'000);
  EXPECT_EQ(trip.timeoutNs(0), RoundTrip::kLeastNs) << "not a thread's short absence";
  RoundTrip slow;
  slow.note(8 * runtime::kNanosPerMilli);
  EXPECT_EQ(slow.timeoutNs(0), 24 * runtime::kNanosPerMilli);
  for (int i = 0; i < 100; ++i) slow.note(8 * runtime::kNanosPerMilli);
  EXPECT_NEAR(static_cast<double>(slow.timeoutNs(0)), 8e6, 1e5) << "what never varies need not be waited for";
  slow.note(16 * runtime::kNanosPerMilli);
  EXPECT_EQ(slow.smoothedNs(), 9 * runtime::kNanosPerMilli);
  EXPECT_GT(slow.timeoutNs(0), 16 * runtime::kNanosPerMilli);
  for (const int tries : {8, 30, 255}) EXPECT_EQ(slow.timeoutNs(static_cast<uint8_t>(tries)), RoundTrip::kMostNs);
  slow.note(3600 * runtime::kNanosPerSecond);
  EXPECT_EQ(slow.timeoutNs(0), RoundTrip::kMostNs);
  EXPECT_EQ(slow.timeoutNs(255), RoundTrip::kMostNs);
}

// ---- GreetingStream

struct Greeter {
  Greeter(HandshakeSide side, const std::string& secret, uint64_t seed)
      : entropy(seed),
        stream({.side = side,
                .identity = {.role = Role::Server, .id = seed, .cluster_name = "c", .secret = secret},
                .slot_count = 8,
                .peer_is_local = true,
                .locators = std::vector<Locator>(8, Locator::parse("tcp://" + std::string(100, 'h') + ":1").value())},
               entropy) {}
  bool hear(const Greeter& from, uint32_t bytes_max) {
    return stream.onPacket(from.stream.offset(), from.stream.receivedBytes(), from.stream.toSend(bytes_max));
  }
  Handshake::State state() const { return stream.handshake().state(); }

  runtime::SeededEntropy entropy;
  GreetingStream stream;
};

TEST(GreetingStream, SucceedsWhateverIsLostOrComesTwice) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    runtime::Random random(seed);
    Greeter initiator(HandshakeSide::Initiator, "s", 2 * seed);
    Greeter acceptor(HandshakeSide::Acceptor, "s", 2 * seed + 1);
    struct Packet {
      uint32_t offset;
      uint32_t received;
      std::vector<std::byte> bytes;
    };
    std::vector<Packet> under_way[2];
    const auto bytes_max = static_cast<uint32_t>(1 + random.below(500));
    Greeter* const greeters[2] = {&initiator, &acceptor};
    for (int round = 0; !initiator.stream.isAcknowledged() || !acceptor.stream.isAcknowledged() ||
                        acceptor.state() != Handshake::State::Done || initiator.state() != Handshake::State::Done;
         ++round) {
      ASSERT_LT(round, 100'000) << "seed " << seed;
      const size_t who = random.below(2);
      if (random.chance(0.5)) {
        const GreetingStream& stream = greeters[who]->stream;
        const ByteSpan said = stream.toSend(bytes_max);
        under_way[who].push_back({stream.offset(), stream.receivedBytes(), {said.begin(), said.end()}});
      }
      if (under_way[who].empty()) continue;
      const size_t which = random.below(under_way[who].size());
      const Packet packet = under_way[who][which];
      if (random.chance(0.7)) greeters[1 - who]->stream.onPacket(packet.offset, packet.received, packet.bytes);
      if (random.chance(0.7)) under_way[who].erase(under_way[who].begin() + static_cast<ptrdiff_t>(which));
    }
    EXPECT_EQ(initiator.stream.handshake().sessionKey(), acceptor.stream.handshake().sessionKey());
    EXPECT_EQ(initiator.stream.handshake().peer().locators.size(), 8u);
  }
}

TEST(GreetingStream, TheRefusedHearsWhy) {
  Greeter initiator(HandshakeSide::Initiator, "s", 2);
  Greeter acceptor(HandshakeSide::Acceptor, "t", 3);
  for (int i = 0; i < 5; ++i) {
    acceptor.hear(initiator, 400);
    initiator.hear(acceptor, 400);
  }
  EXPECT_EQ(acceptor.state(), Handshake::State::Failed);
  EXPECT_TRUE(acceptor.stream.handshake().isBad());
  EXPECT_EQ(initiator.state(), Handshake::State::Failed);
  EXPECT_EQ(initiator.stream.handshake().status(), Status::Refused);
}

TEST(GreetingStream, WhatWasNeverSaidCannotHaveBeenHeard) {
  Greeter initiator(HandshakeSide::Initiator, "s", 2);
  const auto said = static_cast<uint32_t>(initiator.stream.toSend(4000).size());
  const std::array<std::byte, 64> bytes{};
  for (const uint32_t received : {said + 1, UINT32_MAX, 0x80000000u}) {
    EXPECT_FALSE(initiator.stream.onPacket(0, received, bytes));
    EXPECT_EQ(initiator.stream.offset(), 0u);
    EXPECT_EQ(initiator.stream.receivedBytes(), 0u) << "nor is it the peer who says it";
  }
  EXPECT_TRUE(initiator.stream.onPacket(0, said, {}));
  EXPECT_TRUE(initiator.stream.isAcknowledged());
  EXPECT_FALSE(initiator.stream.onPacket(0, said - 1, bytes)) << "it goes back";
  EXPECT_FALSE(initiator.stream.onPacket(8, said, bytes)) << "there is a hole";
  EXPECT_EQ(initiator.state(), Handshake::State::Running);
}

TEST(GreetingStream, CopiesAreNoNews) {
  Greeter initiator(HandshakeSide::Initiator, "s", 2);
  Greeter acceptor(HandshakeSide::Acceptor, "s", 3);
  EXPECT_TRUE(acceptor.hear(initiator, 20));
  EXPECT_FALSE(acceptor.hear(initiator, 20));
  EXPECT_EQ(acceptor.stream.receivedBytes(), 20u);
  EXPECT_TRUE(initiator.hear(acceptor, 20));
  EXPECT_EQ(initiator.stream.offset(), 20u);
  EXPECT_TRUE(acceptor.hear(initiator, 4000)) << "what follows";
  EXPECT_FALSE(acceptor.hear(initiator, 4000));
}

}  // namespace
}  // namespace ramcore::transport::datagram
