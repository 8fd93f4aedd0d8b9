#include "transport/session/handshake.h"

#include <gtest/gtest.h>

#include "wire/frame.h"

namespace ramcore::transport {
namespace {

using wire::HandshakeKind;
using wire::HandshakeRefusal;

Identity identityOf(Role role, uint64_t id, std::string secret = "secret", std::string cluster_name = "cluster") {
  return Identity{.role = role, .id = id, .cluster_name = std::move(cluster_name), .secret = std::move(secret)};
}

HandshakeOptions initiator(Identity identity = identityOf(Role::Client, 3)) {
  HandshakeOptions options;
  options.side = HandshakeSide::Initiator;
  options.identity = std::move(identity);
  options.slot_count = 16;
  return options;
}

HandshakeOptions acceptor(Identity identity = identityOf(Role::Server, 7)) {
  HandshakeOptions options;
  options.side = HandshakeSide::Acceptor;
  options.identity = std::move(identity);
  options.slot_count = 8;
  options.locators = {Locator::parse("tcp://10.0.0.1:1100").value(), Locator::parse("shm:///run/a").value()};
  return options;
}

std::vector<std::byte> take(Handshake& from) {
  const std::vector<std::byte> bytes(from.toSend().begin(), from.toSend().end());
  from.sent(bytes.size());
  return bytes;
}

// Carries bytes both ways, `piece` at a time, until nothing moves. Returns all that the initiator sent.
std::vector<std::byte> converse(Handshake& a, Handshake& b, size_t piece = 1000) {
  std::vector<std::byte> from_a;
  for (bool moved = true; moved;) {
    moved = false;
    for (auto [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      const size_t count = std::min(from->toSend().size(), piece);
      if (count == 0) continue;
      const std::vector<std::byte> bytes(from->toSend().begin(), from->toSend().begin() + static_cast<long>(count));
      from->sent(count);
      to->receive(bytes);
      if (from == &a) from_a.insert(from_a.end(), bytes.begin(), bytes.end());
      moved = true;
    }
  }
  return from_a;
}

class HandshakeTest : public ::testing::Test {
 protected:
  runtime::SeededEntropy entropy{1};
};

TEST_F(HandshakeTest, BothLearnWhoTheOtherIsAndShareAKey) {
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{1000}}) {
    Handshake a(initiator(), entropy);
    Handshake b(acceptor(), entropy);
    converse(a, b, piece);
    ASSERT_EQ(a.state(), Handshake::State::Done) << a.failureText();
    ASSERT_EQ(b.state(), Handshake::State::Done) << b.failureText();
    EXPECT_EQ(a.peer().id, 7u);
    EXPECT_EQ(a.peer().role, Role::Server);
    EXPECT_EQ(b.peer().id, 3u);
    EXPECT_EQ(b.peer().role, Role::Client);
    EXPECT_EQ(a.slotCount(), 8);
    EXPECT_EQ(b.slotCount(), 8);
    EXPECT_EQ(a.sessionKey(), b.sessionKey());
    EXPECT_NE(a.sessionKey(), Handshake::Key{});
    EXPECT_EQ(a.peer().locators, acceptor().locators);
    EXPECT_TRUE(b.peer().locators.empty());
  }
}

TEST_F(HandshakeTest, EverySessionHasAnotherKey) {
  Handshake a1(initiator(), entropy), b1(acceptor(), entropy), a2(initiator(), entropy), b2(acceptor(), entropy);
  converse(a1, b1);
  converse(a2, b2);
  EXPECT_NE(a1.sessionKey(), a2.sessionKey());
}

TEST_F(HandshakeTest, WantedBytesNeverReachIntoTheFramesBehind) {
  Handshake a(initiator(), entropy);
  Handshake b(acceptor(), entropy);
  b.receive(take(a));
  a.receive(take(b));
  std::vector<std::byte> proof_and_more = take(a);
  const size_t proof_bytes = proof_and_more.size();
  size_t consumed = 0;
  while (b.wantedBytes() != 0) {
    const size_t wanted = b.wantedBytes();
    b.receive(ByteSpan(proof_and_more).subspan(consumed, wanted));
    consumed += wanted;
  }
  EXPECT_EQ(consumed, proof_bytes);
  EXPECT_EQ(b.state(), Handshake::State::Done);
}

TEST_F(HandshakeTest, AWrongSecretIsSaidToTheInitiatorAndNothingIsProvenToIt) {
  Handshake a(initiator(identityOf(Role::Client, 3, "guessed")), entropy);
  Handshake b(acceptor(), entropy);
  converse(a, b);
  EXPECT_EQ(b.state(), Handshake::State::Failed);
  EXPECT_EQ(b.status(), Status::Refused);
  EXPECT_TRUE(b.isBad());
  EXPECT_EQ(a.state(), Handshake::State::Failed);
  EXPECT_EQ(a.status(), Status::Refused);
  EXPECT_NE(a.failureText().find("wrong cluster secret"), std::string::npos) << a.failureText();
}

TEST_F(HandshakeTest, AnotherClusterIsNamed) {
  Handshake a(initiator(identityOf(Role::Client, 3, "secret", "other")), entropy);
  Handshake b(acceptor(), entropy);
  converse(a, b);
  EXPECT_NE(b.failureText().find("'other'"), std::string::npos) << b.failureText();
  EXPECT_NE(a.failureText().find("cluster of another name"), std::string::npos) << a.failureText();
  EXPECT_EQ(a.status(), Status::Refused);
}

TEST_F(HandshakeTest, AnotherVersionIsNamedOnBothSides) {
  Handshake a(initiator(), entropy);
  Handshake b(acceptor(), entropy);
  std::vector<std::byte> hello = take(a);
  auto header = loadAs<wire::HandshakeHeader>(hello.data());
  header.version = 9;
  storeAs(hello.data(), header);
  b.receive(hello);
  EXPECT_EQ(b.status(), Status::Refused);
  EXPECT_NE(b.failureText().find("the peer speaks protocol version 9, this process 4"), std::string::npos);
  EXPECT_FALSE(b.wasForAnother());
  std::vector<std::byte> refusal = take(b);
  header = loadAs<wire::HandshakeHeader>(refusal.data());
  header.version = 5;  // as if the acceptor spoke it
  storeAs(refusal.data(), header);
  a.receive(refusal);
  EXPECT_NE(a.failureText().find("the peer speaks protocol version 5, this process 4"), std::string::npos);
}

TEST_F(HandshakeTest, AnotherServerIdIsWrongServerId) {
  HandshakeOptions options = initiator();
  options.expected_id = 8;
  Handshake a(options, entropy);
  Handshake b(acceptor(), entropy);
  converse(a, b);
  EXPECT_EQ(a.state(), Handshake::State::Failed);
  EXPECT_EQ(a.status(), Status::WrongServerId);
  EXPECT_EQ(b.state(), Handshake::State::Failed) << "no session is opened for a moment";
  EXPECT_TRUE(a.wasForAnother());
  EXPECT_TRUE(b.wasForAnother());
}

// The kernel connects a port to itself when nobody listens there and chance makes it the connection's own.
TEST_F(HandshakeTest, OnesOwnGreetingMeansThatNobodyListens) {
  Handshake a(initiator(), entropy);
  a.receive(take(a));
  EXPECT_EQ(a.state(), Handshake::State::Failed);
  EXPECT_EQ(a.status(), Status::Unreachable) << a.failureText();
  EXPECT_FALSE(a.isBad());
}

TEST_F(HandshakeTest, WithoutASecretOnlyThisMachineIsLetIn) {
  for (const bool is_local : {false, true}) {
    HandshakeOptions left = initiator(identityOf(Role::Client, 3, ""));
    HandshakeOptions right = acceptor(identityOf(Role::Server, 7, ""));
    left.peer_is_local = right.peer_is_local = is_local;
    Handshake a(left, entropy);
    Handshake b(right, entropy);
    converse(a, b);
    EXPECT_EQ(a.state() == Handshake::State::Done, is_local);
    EXPECT_EQ(b.state() == Handshake::State::Done, is_local);
  }
}

TEST_F(HandshakeTest, AnAcceptorsMessagesReflectedToItProveNothing) {
  // The attacker knows no secret. It opens a session to the acceptor and, as the initiator's proof, plays back what it
  // can make the acceptor say in a second session.
  Handshake victim(acceptor(), entropy);
  Handshake honest(initiator(), entropy);
  victim.receive(take(honest));
  std::vector<std::byte> challenge = take(victim);
  auto header = loadAs<wire::HandshakeHeader>(challenge.data());
  header.kind = HandshakeKind::Hello;
  storeAs(challenge.data(), header);

  Handshake second(acceptor(), entropy);
  second.receive(challenge);
  take(second);
  EXPECT_EQ(second.state(), Handshake::State::Running);
  // Its Challenge cannot stand for a Proof in either session.
  wire::HandshakeProof proof{};
  proof.header = {wire::kHandshakeMagic, sizeof(proof), wire::kProtocolVersion, HandshakeKind::Proof, 0};
  victim.receive(bytesOf(proof));
  EXPECT_EQ(victim.state(), Handshake::State::Failed);
}

TEST_F(HandshakeTest, AnInitiatorsProofIsNoAcceptance) {
  Handshake a(initiator(), entropy);
  Handshake b(acceptor(), entropy);
  b.receive(take(a));
  a.receive(take(b));
  const auto proof = loadAs<wire::HandshakeProof>(take(a).data());
  wire::HandshakeAccept accept{};
  accept.header = {wire::kHandshakeMagic, sizeof(accept), wire::kProtocolVersion, HandshakeKind::Accept, 0};
  accept.mac = proof.mac;
  a.receive(bytesOf(accept));
  EXPECT_EQ(a.state(), Handshake::State::Failed);
  EXPECT_EQ(a.status(), Status::Refused);
}

TEST_F(HandshakeTest, ARecordedHandshakeCannotBePlayedAgain) {
  Handshake a(initiator(), entropy);
  Handshake b(acceptor(), entropy);
  const std::vector<std::byte> recorded = converse(a, b);
  ASSERT_EQ(b.state(), Handshake::State::Done);
  Handshake again(acceptor(), entropy);
  again.receive(recorded);
  EXPECT_EQ(again.state(), Handshake::State::Failed);
}

TEST_F(HandshakeTest, AnyChangedByteEndsIt) {
  Handshake a(initiator(), entropy);
  const std::vector<std::byte> hello = take(a);
  for (size_t at = 0; at < hello.size(); ++at) {
    runtime::SeededEntropy same(5);
    Handshake left(initiator(), same);
    Handshake right(acceptor(), same);
    std::vector<std::byte> changed = take(left);
    changed[at] ^= std::byte{0x40};
    right.receive(changed);
    converse(left, right);
    EXPECT_NE(right.state(), Handshake::State::Done) << "byte " << at;
    EXPECT_NE(left.state(), Handshake::State::Done) << "byte " << at;
  }
}

TEST_F(HandshakeTest, ALengthThatMakesNoSenseIsBad) {
  for (const uint32_t message_bytes : {0u, 8u, 16u, 17u, 65u, wire::kHandshakeMessageBytesMax + 8, 0xffffffffu}) {
    Handshake b(acceptor(), entropy);
    wire::HandshakeHeader header{};
    header.magic = wire::kHandshakeMagic;
    header.message_bytes = message_bytes;
    header.version = wire::kProtocolVersion;
    header.kind = HandshakeKind::Hello;
    b.receive(bytesOf(header));
    EXPECT_EQ(b.state(), Handshake::State::Failed) << message_bytes;
    EXPECT_TRUE(b.isBad());
  }
}

// Two of one name, or one that was made anew on an empty directory: nothing of one of them is for the other.
TEST_F(HandshakeTest, ClustersOfOneNameAreToldApartByTheirIds) {
  for (const bool initiator_knows : {true, false}) {
    HandshakeOptions client = initiator();
    HandshakeOptions server = acceptor();
    client.identity.cluster = initiator_knows ? 0x11 : 0;
    server.identity.cluster = 0x22;
    Handshake a(client, entropy);
    Handshake b(server, entropy);
    converse(a, b);
    if (!initiator_knows) {
      EXPECT_EQ(a.state(), Handshake::State::Done) << "who does not know takes any";
      EXPECT_EQ(a.peer().cluster, 0x22U);
      continue;
    }
    EXPECT_EQ(a.state(), Handshake::State::Failed);
    EXPECT_EQ(a.status(), Status::WrongCluster);
    EXPECT_NE(a.failureText().find("0x0000000000000022"), std::string::npos) << a.failureText();
    EXPECT_NE(a.failureText().find("0x0000000000000011"), std::string::npos) << a.failureText();
    EXPECT_EQ(b.state(), Handshake::State::Failed);
    EXPECT_EQ(b.status(), Status::WrongCluster);
  }
}

TEST(HandshakeMessages, BytesOnTheWire) {
  wire::HandshakeIntroduction introduction{};
  introduction.header = {wire::kHandshakeMagic, 72, 1, HandshakeKind::Hello, 0};
  for (size_t i = 0; i < 32; ++i) introduction.nonce[i] = static_cast<uint8_t>(i);
  introduction.id = 0x0102030405060708;
  introduction.cluster = 0x1112131415161718;
  introduction.slot_count = 0x0a0b;
  introduction.cluster_name_bytes = 7;
  introduction.role = 2;
  const uint8_t expected[72] = {
      'R',  'C',  'H',  'A',  'N',  'D',  'S',  'H',  72,   0,    0,    0,    1,    0,    1,    0,    0,    1,
      2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,   16,   17,   18,   19,
      20,   21,   22,   23,   24,   25,   26,   27,   28,   29,   30,   31,   0x08, 0x07, 0x06, 0x05, 0x04, 0x03,
      0x02, 0x01, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x0b, 0x0a, 7,    0,    2,    0,    0,    0};
  EXPECT_EQ(std::memcmp(&introduction, expected, sizeof(expected)), 0);

  wire::HandshakeRefused refused{};
  refused.header = {wire::kHandshakeMagic, 24, 1, HandshakeKind::Refusal, 0};
  refused.reason = HandshakeRefusal::Secret;
  const uint8_t expected_refusal[24] = {'R', 'C', 'H', 'A', 'N', 'D', 'S', 'H', 24, 0, 0, 0,
                                        1,   0,   5,   0,   3,   0,   0,   0,   0,  0, 0, 0};
  EXPECT_EQ(std::memcmp(&refused, expected_refusal, sizeof(expected_refusal)), 0);
  EXPECT_EQ(offsetof(wire::HandshakeProof, mac), 16u);
  EXPECT_EQ(offsetof(wire::HandshakeAccept, mac), 16u);
  EXPECT_EQ(offsetof(wire::HandshakeAccept, locator_count), 48u);
  EXPECT_EQ(offsetof(wire::HandshakeAccept, locators_bytes), 50u);
}

TEST_F(HandshakeTest, TheProofsOfThisVersionDoNotChange) {
  // Both sides seeded: a change of what the proofs are over changes this value, and is a new protocol version.
  runtime::SeededEntropy seeded(42);
  Handshake a(initiator(), seeded);
  Handshake b(acceptor(), seeded);
  converse(a, b);
  std::string text;
  for (const uint8_t byte : a.sessionKey()) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    text += digits;
  }
  EXPECT_EQ(text, "80bc17b4784c60cafd383f0a9a73ee98ae1aab4aa383adeac72b5e4fc4809380");
}

}  // namespace
}  // namespace ramcore::transport
