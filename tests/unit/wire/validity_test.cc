// Each message of the data plane says itself whether an honest peer can have sent it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "wire/datagram_messages.h"
#include "wire/frame.h"
#include "wire/handshake_messages.h"
#include "wire/master_messages.h"
#include "wire/migration_messages.h"
#include "wire/replica_messages.h"
#include "wire/verbs_messages.h"

namespace ramcore::wire {
namespace {

struct WithoutValidity {
  uint64_t number = 0;
};
static_assert(Fixed<WithoutValidity> && !Message<WithoutValidity>);

// A message of zeros but for one byte.
template <Message T>
bool isValidWith(size_t offset, uint8_t byte) {
  std::array<uint8_t, sizeof(T)> bytes{};
  bytes[offset] = byte;
  T message;
  std::memcpy(static_cast<void*>(&message), bytes.data(), sizeof(T));
  return message.isValid();
}

// Checks that all bytes from `first` to before `end` have to be zero.
template <Message T>
void expectReserved(size_t first, size_t end) {
  EXPECT_TRUE(isValidWith<T>(0, 0));
  for (size_t i = first; i < end; ++i) EXPECT_FALSE(isValidWith<T>(i, 0x80)) << i;
  if (end < sizeof(T)) EXPECT_TRUE(isValidWith<T>(end, 1)) << "the next field is free";
}

// Checks that the byte at `offset` may be 0 up to `last`, and not more.
template <Message T>
void expectUpTo(size_t offset, uint8_t last) {
  EXPECT_TRUE(isValidWith<T>(offset, last));
  EXPECT_FALSE(isValidWith<T>(offset, static_cast<uint8_t>(last + 1)));
  EXPECT_FALSE(isValidWith<T>(offset, 0xff));
}

TEST(Validity, ReservedFieldsAreZero) {
  expectReserved<RequestHeader>(2, 8);
  expectReserved<ResponseHeader>(2, 4);
  expectReserved<Read::Request>(30, 32);
  expectReserved<Read::Response>(20, 24);
  expectReserved<Write::Request>(67, 72);
  expectReserved<Increment::Request>(71, 72);
  expectReserved<MultiRead::Request>(20, 24);
  expectReserved<MultiRead::RequestPart>(14, 16);
  expectReserved<MultiRead::Response>(12, 16);
  expectReserved<MultiMutate::Request>(36, 40);
  expectReserved<MultiMutate::RequestPart>(36, 40);
  expectReserved<MultiMutate::Response>(12, 16);
  expectReserved<MultiMutate::ResponsePart>(10, 16);
  expectReserved<Scan::Response>(21, 24);
  expectReserved<Scan::Part>(14, 16);
  expectReserved<Pull::Request>(52, 56);
  expectReserved<Pull::Response>(25, 32);
  expectReserved<WriteReplica::Request>(49, 56);
  for (size_t i = 4; i < 8; ++i) EXPECT_FALSE(isValidWith<ReadReplica::Range>(i, 0x80)) << i;
  expectReserved<ReadReplica::Request>(60, 64);
  expectReserved<ReadReplica::Response>(21, 24);
}

// A message that begins with a header is valid only if the header is.
TEST(Validity, HeadersAreValid) {
  expectReserved<Read::Request>(2, 8);
  expectReserved<Write::Request>(2, 8);
  expectReserved<Increment::Request>(2, 8);
  expectReserved<MultiRead::Request>(2, 8);
  expectReserved<MultiMutate::Request>(2, 8);
  expectReserved<Scan::Request>(2, 8);
  expectReserved<Pull::Request>(2, 8);
  expectReserved<WriteReplica::Request>(2, 8);
  expectReserved<FreeReplica::Request>(2, 8);
  expectReserved<ReadReplica::Request>(2, 8);
  expectReserved<FetchReplica::Request>(2, 8);
  expectReserved<Write::Response>(2, 4);
  expectReserved<Increment::Response>(2, 4);
  expectReserved<FetchReplica::Response>(2, 4);
  expectReserved<WriteReplica::Response>(2, 4);
}

TEST(Validity, EnumeratorsAndFlagsAreKnown) {
  expectUpTo<Write::Request>(66, static_cast<uint8_t>(Condition::VersionNotGreater));
  expectUpTo<Increment::Request>(70, static_cast<uint8_t>(Condition::VersionNotGreater));
  expectUpTo<MultiMutate::RequestPart>(34, static_cast<uint8_t>(MultiMutate::Kind::Remove));
  expectUpTo<MultiMutate::RequestPart>(35, static_cast<uint8_t>(Condition::VersionNotGreater));
  expectUpTo<MultiRead::ResponsePart>(14, 1);
  expectUpTo<Scan::Response>(20, 1);
  expectUpTo<Pull::Response>(24, 1);
  expectUpTo<WriteReplica::Request>(48, WriteReplica::kFlagsAll);
  expectUpTo<ReadReplica::Response>(20, 1);
}

// FrameHeader and VerbsHeader have the same layout.
template <typename Header>
void expectHeadersOfMessages() {
  using Kind = decltype(Header::kind);
  Header header{.message_bytes = kMessageBytesMax,
                .head_bytes = kHeadBytesMax,
                .sequence = 1,
                .slot = UINT16_MAX,
                .kind = Kind::Request,
                .priority = 0xff,
                .response_bytes_max = UINT32_MAX,
                .reserved = 0};
  EXPECT_TRUE(header.isValid()) << "slot and priority are not its business";
  const auto isValidIf = [&](auto change) {
    Header changed = header;
    change(changed);
    return changed.isValid();
  };
  EXPECT_TRUE(isValidIf([](Header& one) { one.kind = Kind::Response; }));
  EXPECT_FALSE(isValidIf([](Header& one) { one.kind = Kind(0); }));
  EXPECT_FALSE(isValidIf([](Header& one) { one.kind = Kind(8); }));
  EXPECT_FALSE(isValidIf([](Header& one) { one.reserved = 1U << 31; }));
  EXPECT_FALSE(isValidIf([](Header& one) { one.message_bytes = kMessageBytesMax + 1; }));
  EXPECT_FALSE(isValidIf([](Header& one) { one.head_bytes = kHeadBytesMax + 1; }));
  EXPECT_FALSE(isValidIf([](Header& one) { one.message_bytes = kHeadBytesMax - 1; }));
  EXPECT_FALSE(isValidIf([](Header& one) { one.kind = Kind::Close; })) << "nothing follows a Close";
  EXPECT_TRUE(isValidIf([](Header& one) {
    one = {};
    one.kind = Kind::Close;
  }));
}

TEST(Validity, HeadersOfMessages) {
  expectHeadersOfMessages<FrameHeader>();
  expectHeadersOfMessages<VerbsHeader>();
  FrameHeader frame{};
  frame.kind = FrameKind(4);
  EXPECT_FALSE(frame.isValid()) << "a kind of queue pairs alone";
  VerbsHeader header{};
  header.kind = VerbsKind::ResponseWritten;
  EXPECT_TRUE(header.isValid());
  EXPECT_FALSE((VerbsPiece{.address = 8, .key = 1, .bytes = 0}.isValid()));
}

TEST(Validity, Handshakes) {
  HandshakeIntroduction hello{};
  hello.header.magic = kHandshakeMagic;
  hello.slot_count = kSlotCountMax;
  hello.cluster_name_bytes = kClusterNameBytesMax;
  EXPECT_TRUE(hello.isValid());
  const auto isValidIf = [&](auto change) {
    HandshakeIntroduction changed = hello;
    change(changed);
    return changed.isValid();
  };
  EXPECT_FALSE(isValidIf([](HandshakeIntroduction& one) { one.header.magic ^= 1; }));
  EXPECT_FALSE(isValidIf([](HandshakeIntroduction& one) { one.header.reserved = 1; }));
  EXPECT_FALSE(isValidIf([](HandshakeIntroduction& one) { one.reserved[2] = 1; }));
  EXPECT_FALSE(isValidIf([](HandshakeIntroduction& one) { one.slot_count = 0; }));
  EXPECT_FALSE(isValidIf([](HandshakeIntroduction& one) { ++one.slot_count; }));
  EXPECT_FALSE(isValidIf([](HandshakeIntroduction& one) { ++one.cluster_name_bytes; }));
  HandshakeAccept accept{};
  accept.header.magic = kHandshakeMagic;
  accept.locator_count = kHandshakeLocatorsMax;
  EXPECT_TRUE(accept.isValid());
  ++accept.locator_count;
  EXPECT_FALSE(accept.isValid());
  accept = {.header = hello.header, .mac = {}, .locator_count = 0, .locators_bytes = 0, .reserved = 1};
  EXPECT_FALSE(accept.isValid());
}

// The header alone counts: a proof is checked against all that was said, and a refusal may be of another version.
TEST(Validity, ProofsAndRefusalsOfHandshakes) {
  HandshakeProof proof{};
  EXPECT_FALSE(proof.isValid()) << "no magic";
  proof.header.magic = kHandshakeMagic;
  proof.mac.fill(0xff);
  EXPECT_TRUE(proof.isValid());
  proof.header.reserved = 1;
  EXPECT_FALSE(proof.isValid());
  HandshakeRefused refused{};
  EXPECT_FALSE(refused.isValid()) << "no magic";
  refused.header.magic = kHandshakeMagic;
  refused.header.version = kProtocolVersion + 1;
  refused.reason = HandshakeRefusal(UINT16_MAX);
  std::ranges::fill(refused.reserved, 0xff);
  EXPECT_TRUE(refused.isValid());
  refused.header.reserved = 1;
  EXPECT_FALSE(refused.isValid());
}

TEST(Validity, AddressesOfQueuePairs) {
  VerbsAddress address{};
  address.queue_pair = 0xffffff;
  address.first_packet = 0xffffff;
  address.mtu = 5;
  address.reads_max = 1;
  EXPECT_TRUE(address.isValid()) << "how long a message it takes is not its business";
  const auto isValidIf = [&](auto change) {
    VerbsAddress changed = address;
    change(changed);
    return changed.isValid();
  };
  EXPECT_TRUE(isValidIf([](VerbsAddress& one) { one.mtu = 1; }));
  EXPECT_TRUE(isValidIf([](VerbsAddress& one) { one.reads_max = 0xff; }));
  EXPECT_TRUE(isValidIf([](VerbsAddress& one) { one.queue_pair = one.first_packet = 0; }));
  EXPECT_FALSE(isValidIf([](VerbsAddress& one) { one.mtu = 0; }));
  EXPECT_FALSE(isValidIf([](VerbsAddress& one) { one.mtu = 6; }));
  EXPECT_FALSE(isValidIf([](VerbsAddress& one) { one.reads_max = 0; }));
  EXPECT_FALSE(isValidIf([](VerbsAddress& one) { one.queue_pair = 1U << 24; }));
  EXPECT_FALSE(isValidIf([](VerbsAddress& one) { one.first_packet = 1U << 24; }));
}

TEST(Validity, Packets) {
  expectReserved<PacketHeader>(42, 48);
  PacketHeader header{};
  header.payload_bytes = kPacketBytesMax;
  header.message_bytes = UINT32_MAX;
  header.slot = UINT16_MAX;
  header.priority = 0xff;
  header.flags = 0xff;
  EXPECT_TRUE(header.isValid()) << "what depends on the kind is not its business";
  ++header.payload_bytes;
  EXPECT_FALSE(header.isValid());
  expectReserved<AckEntry>(6, 8);
  for (size_t i = 0; i < sizeof(GrantBody); ++i) EXPECT_TRUE(isValidWith<GrantBody>(i, 0xff));
}

TEST(Validity, GreetingsOfPackets) {
  const GreetingBody greeting{.session = 1,
                              .received_bytes = 0,
                              .port = 0,
                              .packet_bytes = kPacketBytesMin,
                              .unasked_packets = 1,
                              .wants_seal = 1,
                              .reserved1 = 0,
                              .reserved2 = 0};
  EXPECT_TRUE(greeting.isValid());
  const auto isValidIf = [&](auto change) {
    GreetingBody changed = greeting;
    change(changed);
    return changed.isValid();
  };
  EXPECT_FALSE(isValidIf([](GreetingBody& one) { one.session = 0; }));
  EXPECT_FALSE(isValidIf([](GreetingBody& one) { --one.packet_bytes; }));
  EXPECT_FALSE(isValidIf([](GreetingBody& one) { one.unasked_packets = 0; }));
  EXPECT_TRUE(isValidIf([](GreetingBody& one) { one.wants_seal = 0; }));
  EXPECT_FALSE(isValidIf([](GreetingBody& one) { one.wants_seal = 2; }));
  EXPECT_FALSE(isValidIf([](GreetingBody& one) { one.reserved1 = 0x80; }));
  EXPECT_FALSE(isValidIf([](GreetingBody& one) { one.reserved2 = 1U << 31; }));
}

TEST(Validity, RangesOfHashesAreNotTurnedRound) {
  ReadReplica::Range range{.table = TableId(1), .hashes = {5, 5}, .first_segment = SegmentId(1)};
  EXPECT_TRUE(range.isValid());
  range.hashes.last = 4;
  EXPECT_FALSE(range.isValid());
}

}  // namespace
}  // namespace ramcore::wire
