/// What travels, byte by byte. A test that fails here means that old and new processes do not understand each other:
/// from the first release on the protocol version changes with it.

#include <gtest/gtest.h>

#include "hex.h"
#include "wire/datagram_messages.h"
#include "wire/frame.h"
#include "wire/handshake_messages.h"
#include "wire/master_messages.h"
#include "wire/migration_messages.h"
#include "wire/replica_messages.h"

namespace ramcore::wire {
namespace {

const ServerId kServer(0x1817161514131211);
const ClientId kClient(0x2827262524232221);
const Sequence kSequence(0x3837363534333231);
const Sequence kAcknowledged(0x4847464544434241);
const TabletEpoch kEpoch(0x5857565554535251);
constexpr Version kVersion = 0x68676665646362;
const TableId kTable(0x74737271);
const TabletId kTablet(0x8887868584838281);
constexpr KeyHash kHash = 0x9897969594939291;

const std::string kTarget = "1112131415161718";
const std::string kIdentity = "2122232425262728 3132333435363738 4142434445464748";
const std::string kEpochBytes = " 5152535455565758 ";
const std::string kVersionBytes = " 6263646566676800 ";

RequestHeader header(Opcode opcode) { return {.opcode = opcode, .target = kServer}; }
std::string headerBytes(const char* opcode) { return std::string(opcode) + "00 0000 00000000" + kTarget; }
const ResponseHeader kAnswer{.status = Status::WrongVersion, .retry_after_us = 0x04030201};
const std::string kAnswerBytes = "0300 0000 01020304";

TEST(GoldenBytes, Frame) {
  const FrameHeader frame{.message_bytes = 0x04030201,
                          .head_bytes = 0x08070605,
                          .sequence = 0x0c0b0a09,
                          .slot = 0x0e0d,
                          .kind = FrameKind::Response,
                          .priority = 3,
                          .response_bytes_max = 0x14131211,
                          .reserved = 0};
  EXPECT_WIRE(frame, "01020304 05060708 090a0b0c 0d0e 02 03 11121314 00000000");
  EXPECT_EQ(static_cast<int>(FrameKind::Request), 1);
  EXPECT_EQ(static_cast<int>(FrameKind::Close), 3);
  EXPECT_EQ(frameBytes(0), 24u);
  EXPECT_EQ(frameBytes(1), 32u);
  EXPECT_EQ(frameBytes(8), 32u);
}

TEST(GoldenBytes, Datagrams) {
  const FrameStart start{.to = {1, 2, 3, 4, 5, 6},
                         .from = {7, 8, 9, 10, 11, 12},
                         .ether_type = {0x88, 0xb5},
                         .version = kDatagramVersion,
                         .kind = PacketKind::Response};
  EXPECT_WIRE(start, "010203040506 0708090a0b0c 88b5 04 02");
  EXPECT_EQ(kDatagramEtherType, 0x88b5);
  const PacketHeader packet{.session = 0x0807060504030201,
                            .seal = 0x1817161514131211,
                            .sequence = 0x24232221,
                            .message_bytes = 0x28272625,
                            .head_bytes = 0x34333231,
                            .offset = 0x38373635,
                            .response_bytes_max = 0x44434241,
                            .slot = 0x4645,
                            .payload_bytes = 0x4847,
                            .priority = 3,
                            .flags = kPacketAgain | kPacketOfResponse | kPacketOverdue,
                            .reserved1 = 0,
                            .reserved2 = 0};
  EXPECT_WIRE(packet,
              "0102030405060708 1112131415161718 21222324 25262728 31323334 35363738 41424344 4546 4748 03 07 0000"
              "00000000");
  EXPECT_EQ(kPacketHeaderBytes, 64u);
  const GreetingBody greeting{.session = 0x0807060504030201,
                              .received_bytes = 0x14131211,
                              .port = 0x1615,
                              .packet_bytes = 0x1817,
                              .unasked_packets = 0x2221,
                              .wants_seal = 1,
                              .reserved1 = 0,
                              .reserved2 = 0};
  EXPECT_WIRE(greeting, "0102030405060708 11121314 1516 1718 2122 01 00 00000000");
  EXPECT_WIRE((GrantBody{.later = 0x0807060504030201, .received_packets = 0x14131211, .granted_packets = 0x18171615}),
              "0102030405060708 11121314 15161718");
  EXPECT_WIRE((AckEntry{.sequence = 0x04030201, .slot = 0x0605, .reserved = 0}), "01020304 0506 0000");
  const std::array kinds = {PacketKind::Request, PacketKind::Response, PacketKind::Close,  PacketKind::Greeting,
                            PacketKind::Grant,   PacketKind::Ack,      PacketKind::Probe,  PacketKind::ProbeReply,
                            PacketKind::Closed,  PacketKind::Reset,    PacketKind::Unknown};
  for (size_t i = 0; i < kinds.size(); ++i) EXPECT_EQ(static_cast<size_t>(kinds[i]), i + 1);
}

TEST(GoldenBytes, Headers) {
  EXPECT_WIRE(header(Opcode::Scan), headerBytes("16"));
  EXPECT_WIRE(kAnswer, kAnswerBytes);
  EXPECT_WIRE((CallIdentity{kClient, kSequence, kAcknowledged}), kIdentity);
}

TEST(GoldenBytes, Read) {
  const Read::Request request{.header = header(Opcode::Read), .epoch = kEpoch, .table = kTable, .key_bytes = 0x0201};
  EXPECT_WIRE(request, headerBytes("10") + kEpochBytes + "71727374 0102 0000");
  const Read::Response response{.header = kAnswer, .version = kVersion, .value_bytes = 0x04030201};
  EXPECT_WIRE(response, kAnswerBytes + kVersionBytes + "01020304 00000000");
}

TEST(GoldenBytes, WriteAndRemove) {
  static_assert(std::is_same_v<Write::Request, Remove::Request> && std::is_same_v<Write::Response, Remove::Response>);
  const Write::Request request{.header = header(Opcode::Write),
                               .identity = {kClient, kSequence, kAcknowledged},
                               .epoch = kEpoch,
                               .condition_version = kVersion,
                               .table = kTable,
                               .value_bytes = 0x04030201,
                               .key_bytes = 0x0605,
                               .condition = Condition::VersionEquals};
  EXPECT_WIRE(request,
              headerBytes("11") + kIdentity + kEpochBytes + kVersionBytes + "71727374 01020304 0506 03 00 00000000");
  EXPECT_WIRE((Write::Response{.header = kAnswer, .version = kVersion}), kAnswerBytes + kVersionBytes);
}

TEST(GoldenBytes, Increment) {
  const Increment::Request request{.header = header(Opcode::Increment),
                                   .identity = {kClient, kSequence, kAcknowledged},
                                   .epoch = kEpoch,
                                   .condition_version = kVersion,
                                   .delta = -2,
                                   .table = kTable,
                                   .key_bytes = 0x0201,
                                   .condition = Condition::VersionNotGreater};
  EXPECT_WIRE(request,
              headerBytes("13") + kIdentity + kEpochBytes + kVersionBytes + "feffffffffffffff 71727374 0102 04 00");
  EXPECT_WIRE((Increment::Response{.header = kAnswer, .version = kVersion, .value = -1}),
              kAnswerBytes + kVersionBytes + "ffffffffffffffff");
}

TEST(GoldenBytes, MultiRead) {
  EXPECT_WIRE((MultiRead::Request{.header = header(Opcode::MultiRead), .count = 0x04030201}),
              headerBytes("14") + "01020304 00000000");
  EXPECT_WIRE((MultiRead::RequestPart{.epoch = kEpoch, .table = kTable, .key_bytes = 0x0201}),
              kEpochBytes + "71727374 0102 0000");
  EXPECT_WIRE((MultiRead::Response{.header = kAnswer, .count = 0x04030201}), kAnswerBytes + "01020304 00000000");
  EXPECT_WIRE((MultiRead::ResponsePart{.version = kVersion, .value_bytes = 0x04030201, .status = Status::NotFound}),
              kVersionBytes + "01020304 0100 0000");
}

TEST(GoldenBytes, MultiMutate) {
  const MultiMutate::Request request{
      .header = header(Opcode::MultiMutate), .client = kClient, .acknowledged = kAcknowledged, .count = 0x04030201};
  EXPECT_WIRE(request, headerBytes("15") + "2122232425262728 4142434445464748 01020304 00000000");
  const MultiMutate::RequestPart part{.sequence = kSequence,
                                      .epoch = kEpoch,
                                      .condition_version = kVersion,
                                      .table = kTable,
                                      .value_bytes = 0x04030201,
                                      .key_bytes = 0x0605,
                                      .kind = MultiMutate::Kind::Remove,
                                      .condition = Condition::MustExist};
  EXPECT_WIRE(part, "3132333435363738" + kEpochBytes + kVersionBytes + "71727374 01020304 0506 01 01 00000000");
  EXPECT_WIRE((MultiMutate::Response{.header = kAnswer, .count = 0x04030201}), kAnswerBytes + "01020304 00000000");
  EXPECT_WIRE((MultiMutate::ResponsePart{.version = kVersion, .status = Status::ObjectExists}),
              kVersionBytes + "0200 0000 00000000");
}

TEST(GoldenBytes, Scan) {
  const Scan::Request request{
      .header = header(Opcode::Scan), .epoch = kEpoch, .cursor = kHash, .table = kTable, .response_bytes = 0x04030201};
  EXPECT_WIRE(request, headerBytes("16") + kEpochBytes + "9192939495969798 71727374 01020304");
  const Scan::Response response{
      .header = kAnswer, .next_cursor = kHash, .count = 0x04030201, .range_done = 1, .range_last = ~uint64_t{0}};
  EXPECT_WIRE(response, kAnswerBytes + "9192939495969798 01020304 01 00 0000 ffffffffffffffff");
  EXPECT_WIRE((Scan::Part{.version = kVersion, .value_bytes = 0x04030201, .key_bytes = 0x0605}),
              kVersionBytes + "01020304 0506 0000");
}

TEST(GoldenBytes, Ping) {
  static_assert(sizeof(Ping::Request) == sizeof(RequestHeader) && sizeof(Ping::Response) == sizeof(ResponseHeader));
  EXPECT_WIRE((Ping::Request{.header = header(Opcode::Ping)}), headerBytes("01"));
  EXPECT_WIRE((Ping::Response{.header = kAnswer}), kAnswerBytes);
}

TEST(GoldenBytes, Pull) {
  static_assert(std::is_same_v<Pull::Request, PullResults::Request>);
  static_assert(std::is_same_v<Pull::Response, PullResults::Response>);
  const Pull::Request request{.header = header(Opcode::Pull),
                              .tablet = kTablet,
                              .epoch = kEpoch,
                              .cursor = kHash,
                              .last = kHash + 1,
                              .response_bytes = 0x04030201};
  EXPECT_WIRE(request, headerBytes("40") + "8182838485868788" + kEpochBytes +
                           "9192939495969798 9292939495969798 01020304 00000000");
  const Pull::Response response{
      .header = kAnswer, .next_cursor = kHash, .entry_bytes = 0x04030201, .entry_count = 0x08070605, .done = 1};
  EXPECT_WIRE(response, kAnswerBytes + "9192939495969798 01020304 05060708 01 00000000000000");
}

TEST(GoldenBytes, WriteAndFreeReplica) {
  WriteReplica::Request request{.header = header(Opcode::WriteReplica),
                                .master = ServerId(0xa8a7a6a5a4a3a2a1),
                                .segment = SegmentId(0xb8b7b6b5b4b3b2b1),
                                .replica_epoch = 0xc8c7c6c5c4c3c2c1,
                                .offset_bytes = 0x04030201,
                                .data_bytes = 0x08070605,
                                .flags = WriteReplica::kOpen | WriteReplica::kHead | WriteReplica::kFlush,
                                .certificate = {}};
  std::string certificate;
  for (size_t i = 0; i < request.certificate.size(); ++i) {
    request.certificate[i] = static_cast<std::byte>(0x11 * (i % 16));
    const char digit = "0123456789abcdef"[i % 16];
    certificate += {digit, digit};
  }
  EXPECT_WIRE(request, headerBytes("50") +
                           "a1a2a3a4a5a6a7a8 b1b2b3b4b5b6b7b8 c1c2c3c4c5c6c7c8 01020304 05060708 0b 00000000000000" +
                           certificate);
  EXPECT_EQ(static_cast<int>(WriteReplica::kCertified), 4);
  EXPECT_EQ(static_cast<int>(WriteReplica::kFlush), 8);
  EXPECT_EQ(static_cast<int>(WriteReplica::kReserve), 16);
  EXPECT_EQ(static_cast<int>(WriteReplica::kFlagsAll), 31);
  const WriteReplica::Response response{.header = kAnswer, .length_bytes = 0x04030201, .flushed_bytes = 0x08070605};
  EXPECT_WIRE(response, kAnswerBytes + "01020304 05060708");
  const FreeReplica::Request free{.header = header(Opcode::FreeReplica),
                                  .master = ServerId(0xa8a7a6a5a4a3a2a1),
                                  .segment = SegmentId(0xb8b7b6b5b4b3b2b1)};
  EXPECT_WIRE(free, headerBytes("51") + "a1a2a3a4a5a6a7a8 b1b2b3b4b5b6b7b8");
}

TEST(GoldenBytes, ReadReplica) {
  const ReadReplica::Request request{.header = header(Opcode::ReadReplica),
                                     .master = ServerId(0xa8a7a6a5a4a3a2a1),
                                     .segment = SegmentId(0xb8b7b6b5b4b3b2b1),
                                     .replica = {.epoch = 0xd8d7d6d5d4d3d2d1, .length_bytes = 0xe4e3e2e1, .closed = 1},
                                     .offset_bytes = 0x04030201,
                                     .response_bytes = 0x08070605,
                                     .range_count = 0x0c0b0a09};
  EXPECT_WIRE(request, headerBytes("52") + "a1a2a3a4a5a6a7a8 b1b2b3b4b5b6b7b8 d1d2d3d4d5d6d7d8 e1e2e3e4 01 000000" +
                           "01020304 05060708 090a0b0c 00000000");
  const ReadReplica::Range range{.table = kTable,
                                 .hashes = {.first = kHash, .last = 0xc8c7c6c5c4c3c2c1},
                                 .first_segment = SegmentId(0xb8b7b6b5b4b3b2b1)};
  EXPECT_WIRE(range, "71727374 00000000 9192939495969798 c1c2c3c4c5c6c7c8 b1b2b3b4b5b6b7b8");
  const ReadReplica::Response response{.header = kAnswer,
                                       .next_offset_bytes = 0x04030201,
                                       .entry_bytes = 0x08070605,
                                       .entry_count = 0x0c0b0a09,
                                       .done = 1,
                                       .safe_version = kVersion};
  EXPECT_WIRE(response, kAnswerBytes + "01020304 05060708 090a0b0c 01 000000" + kVersionBytes);
}

TEST(GoldenBytes, FetchReplica) {
  const FetchReplica::Request request{.header = header(Opcode::FetchReplica),
                                      .master = ServerId(0xa8a7a6a5a4a3a2a1),
                                      .segment = SegmentId(0xb8b7b6b5b4b3b2b1),
                                      .offset_bytes = 0x04030201,
                                      .data_bytes = 0x08070605};
  EXPECT_WIRE(request, headerBytes("53") + "a1a2a3a4a5a6a7a8 b1b2b3b4b5b6b7b8 01020304 05060708");
  const FetchReplica::Response response{.header = kAnswer, .length_bytes = 0x04030201, .data_bytes = 0x08070605};
  EXPECT_WIRE(response, kAnswerBytes + "01020304 05060708");
}

TEST(GoldenBytes, Handshake) {
  const HandshakeHeader hello{.magic = kHandshakeMagic,
                              .message_bytes = 0x04030201,
                              .version = 0x0605,
                              .kind = HandshakeKind::Hello,
                              .reserved = 0};
  const std::string hello_bytes = "524348414e445348 01020304 0506 01 00";  // "RCHANDSH"
  EXPECT_WIRE(hello, hello_bytes);
  HandshakeIntroduction introduction{.header = hello,
                                     .nonce = {},
                                     .id = kServer.value,
                                     .cluster = 0x1817161514131211,
                                     .slot_count = 0x0201,
                                     .cluster_name_bytes = 0x0403,
                                     .role = 2,
                                     .reserved = {}};
  std::string nonce;
  for (uint8_t i = 0; i < 32; ++i) {
    introduction.nonce[i] = static_cast<uint8_t>(0x11 * (i % 16));
    const char digit = "0123456789abcdef"[i % 16];
    nonce += {digit, digit};
  }
  EXPECT_WIRE(introduction, hello_bytes + nonce + kTarget + "1112131415161718 0102 0304 02 000000");
  EXPECT_WIRE((HandshakeProof{.header = hello, .mac = introduction.nonce}), hello_bytes + nonce);
  EXPECT_WIRE((HandshakeAccept{.header = hello,
                               .mac = introduction.nonce,
                               .locator_count = 0x0201,
                               .locators_bytes = 0x0403,
                               .reserved = 0}),
              hello_bytes + nonce + "0102 0304 00000000");
  EXPECT_WIRE((HandshakeRefused{.header = hello, .reason = HandshakeRefusal::Secret, .reserved = {}}),
              hello_bytes + "0300 000000000000");
}

TEST(GoldenBytes, EnumeratorsOfMessages) {
  EXPECT_EQ(static_cast<int>(Condition::None), 0);
  EXPECT_EQ(static_cast<int>(Condition::MustExist), 1);
  EXPECT_EQ(static_cast<int>(Condition::MustNotExist), 2);
  EXPECT_EQ(static_cast<int>(Condition::VersionEquals), 3);
  EXPECT_EQ(static_cast<int>(Condition::VersionNotGreater), 4);
  EXPECT_EQ(static_cast<int>(HandshakeKind::Refusal), 5);
  EXPECT_EQ(static_cast<int>(HandshakeRefusal::Busy), 7);
  EXPECT_EQ(static_cast<int>(HandshakeRefusal::ClusterId), 8);
  EXPECT_EQ(kProtocolVersion, 4);
}

}  // namespace
}  // namespace ramcore::wire
