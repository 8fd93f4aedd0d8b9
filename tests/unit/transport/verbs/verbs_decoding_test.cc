#include "transport/verbs/decoding.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "wire/frame.h"

namespace ramcore::transport::verbs {
namespace {

using wire::VerbsHeader;
using wire::VerbsKind;
using wire::VerbsPiece;

constexpr uint16_t kSlots = 8;

VerbsHeader headerOf(VerbsKind kind, uint32_t message_bytes) {
  VerbsHeader header{};
  header.kind = kind;
  header.message_bytes = message_bytes;
  header.head_bytes = std::min<uint32_t>(message_bytes, 16);
  header.slot = kSlots - 1;
  return header;
}

std::vector<std::byte> messageOf(const VerbsHeader& header, ByteSpan body = {}) {
  std::vector<std::byte> bytes(bytesOf(header).begin(), bytesOf(header).end());
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

bool isTaken(const VerbsHeader& header, size_t body_bytes) {
  VerbsMessage message;
  const std::vector<std::byte> body(body_bytes);
  const std::vector<std::byte> bytes = messageOf(header, body);
  const std::string_view why_bad = decodeMessage(bytes, kSlots, message);
  if (!why_bad.empty()) return false;
  EXPECT_EQ(message.body.data(), bytes.data() + sizeof(VerbsHeader));
  EXPECT_EQ(message.body.size(), body_bytes);
  EXPECT_TRUE(std::ranges::equal(bytesOf(message.header), bytesOf(header)));
  return true;
}

TEST(VerbsDecoding, EachKindHasItsLength) {
  const uint32_t piece = sizeof(VerbsPiece);
  struct Case {
    VerbsKind kind;
    uint32_t message_bytes;
    std::vector<size_t> right;
    std::vector<size_t> wrong;
  };
  const Case cases[] = {
      {VerbsKind::Request, 100, {100}, {0, 99, 101}},
      {VerbsKind::Response, 100, {100}, {0, 99, 101}},
      {VerbsKind::Close, 0, {0}, {1, piece}},
      {VerbsKind::RequestOffer,
       100,
       {piece, 2 * piece, size_t{wire::kVerbsPiecesMax} * piece},
       {0, 1, piece - 1, piece + 1, size_t{wire::kVerbsPiecesMax + 1} * piece}},
      {VerbsKind::ResponseOffer, 100, {0}, {1, piece}},
      {VerbsKind::ResponsePlace, 100, {piece}, {0, piece - 1, piece + 1, 2 * piece}},
      {VerbsKind::ResponseWritten, 100, {0}, {1, 100}},
  };
  for (const Case& one : cases) {
    const VerbsHeader header = headerOf(one.kind, one.message_bytes);
    for (const size_t bytes : one.right) EXPECT_TRUE(isTaken(header, bytes)) << int(one.kind) << " with " << bytes;
    for (const size_t bytes : one.wrong) EXPECT_FALSE(isTaken(header, bytes)) << int(one.kind) << " with " << bytes;
  }
  VerbsHeader closing = headerOf(VerbsKind::Close, 0);
  closing.slot = kSlots;  // of no slot
  EXPECT_TRUE(isTaken(closing, 0));
}

TEST(VerbsDecoding, BytesThatAreNoHeaderAreNone) {
  const std::vector<std::byte> bytes = messageOf(headerOf(VerbsKind::Close, 0));
  for (size_t count = 0; count < bytes.size(); ++count) {
    // The bytes are in a vector of their own, so that sanitizers see a look behind them.
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
    VerbsMessage message;
    EXPECT_EQ(decodeMessage(cut, kSlots, message), "a message without a header");
  }
}

TEST(VerbsDecoding, EachFieldHasItsRange) {
  const std::pair<const char*, std::function<void(VerbsHeader&)>> changes[] = {
      {"slot", [](VerbsHeader& header) { header.slot = kSlots; }},
      {"priority", [](VerbsHeader& header) { header.priority = runtime::kPriorityCount; }},
      {"head longer than the message", [](VerbsHeader& header) { header.head_bytes = header.message_bytes + 1; }},
      {"reserved", [](VerbsHeader& header) { header.reserved = 1; }},
      {"kind below", [](VerbsHeader& header) { header.kind = VerbsKind{0}; }},
      {"kind above", [](VerbsHeader& header) { header.kind = VerbsKind{8}; }},
      {"far kind", [](VerbsHeader& header) { header.kind = VerbsKind{255}; }},
  };
  for (const auto& [name, change] : changes) {
    VerbsHeader header = headerOf(VerbsKind::Request, 100);
    ASSERT_TRUE(isTaken(header, 100));
    change(header);
    EXPECT_FALSE(isTaken(header, 100)) << name;
  }
  // A message that is announced and stands elsewhere is bounded by its length and its head alone.
  VerbsHeader offer = headerOf(VerbsKind::ResponseOffer, wire::kMessageBytesMax);
  EXPECT_TRUE(isTaken(offer, 0));
  ++offer.message_bytes;
  EXPECT_FALSE(isTaken(offer, 0));
  offer = headerOf(VerbsKind::ResponseOffer, wire::kMessageBytesMax);
  offer.head_bytes = wire::kHeadBytesMax;
  EXPECT_TRUE(isTaken(offer, 0));
  ++offer.head_bytes;
  EXPECT_FALSE(isTaken(offer, 0));
  EXPECT_FALSE(isTaken(headerOf(VerbsKind::Close, 1), 0));
}

std::optional<std::vector<VerbsPiece>> offered(uint32_t message_bytes, const std::vector<uint32_t>& lengths) {
  std::vector<VerbsPiece> sent;
  for (const uint32_t bytes : lengths) sent.push_back({.address = 0x1000 + sent.size(), .key = 7, .bytes = bytes});
  const std::vector<std::byte> bytes =
      messageOf(headerOf(VerbsKind::RequestOffer, message_bytes), std::as_bytes(std::span(sent)));
  VerbsMessage message;
  EXPECT_EQ(decodeMessage(bytes, kSlots, message), "");
  std::vector<VerbsPiece> pieces{{.address = 1, .key = 1, .bytes = 1}};  // of an offer before
  if (!decodeOffer(message, pieces)) return std::nullopt;
  return pieces;
}

TEST(VerbsDecoding, PiecesOfAnOfferAreTogetherAsLongAsItSays) {
  const auto pieces = offered(100'000, {60'000, 1, 39'999});
  ASSERT_TRUE(pieces.has_value());
  ASSERT_EQ(pieces->size(), 3u);
  EXPECT_EQ((*pieces)[1].address, 0x1001u);
  EXPECT_EQ((*pieces)[1].bytes, 1u);
  EXPECT_TRUE(offered(wire::kMessageBytesMax, {wire::kMessageBytesMax}).has_value());
  EXPECT_FALSE(offered(100'000, {60'000, 39'999}).has_value());
  EXPECT_FALSE(offered(100'000, {60'000, 40'001}).has_value());
  // Sums that are right in 32 bits.
  EXPECT_FALSE(offered(100'000, {UINT32_MAX, 100'001}).has_value());
  EXPECT_FALSE(offered(0, {1u << 31, 1u << 31}).has_value());
}

// Adapters exist that take a length of 0 for 2 GB.
TEST(VerbsDecoding, AnEmptyPieceIsOfferedByNobody) {
  EXPECT_FALSE(offered(0, {0}).has_value());
  EXPECT_FALSE(offered(100, {100, 0}).has_value());
  EXPECT_FALSE(offered(100, {0, 100}).has_value());
}

TEST(VerbsDecoding, APlaceHasRoomForTheAnswer) {
  const VerbsPiece sent{.address = 0x7000, .key = 9, .bytes = 5000};
  const std::vector<std::byte> bytes = messageOf(headerOf(VerbsKind::ResponsePlace, 5000), bytesOf(sent));
  VerbsMessage message;
  ASSERT_EQ(decodeMessage(bytes, kSlots, message), "");
  const auto place = decodePlace(message, 5000);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->address, sent.address);
  EXPECT_EQ(place->key, sent.key);
  EXPECT_TRUE(decodePlace(message, 1).has_value());
  EXPECT_FALSE(decodePlace(message, 5001).has_value());
}

class VerbsAddresses : public testing::Test {
 protected:
  VerbsAddresses() {
    for (size_t i = 0; i < key_.size(); ++i) key_[i] = static_cast<uint8_t>(i * 7);
    address_.queue_pair = 0xffffff;
    address_.first_packet = 0xffffff;
    address_.receive_bytes = 16'384;
    address_.mtu = 5;
    address_.reads_max = 1;
  }
  std::string checked(const wire::VerbsAddress& address) { return std::string(checkAddress(address, true, key_)); }
  wire::VerbsAddress proven(wire::VerbsAddress address) const {
    address.mac = proofOf(address, true, key_);
    return address;
  }

  Handshake::Key key_{};
  wire::VerbsAddress address_{};
};

TEST_F(VerbsAddresses, EveryBitIsProven) {
  const wire::VerbsAddress right = proven(address_);
  EXPECT_EQ(checked(right), "");
  for (size_t bit = 0; bit < 8 * sizeof(right); ++bit) {
    wire::VerbsAddress changed = right;
    reinterpret_cast<uint8_t*>(&changed)[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    EXPECT_NE(checked(changed).find("not proven"), std::string::npos) << bit;
  }
  Handshake::Key other = key_;
  other[31] ^= 1;
  EXPECT_NE(checkAddress(right, true, other), "");
}

// A proof that one side has sent is not valid for the other side.
TEST_F(VerbsAddresses, AProofIsOfOneSide) { EXPECT_NE(checkAddress(proven(address_), false, key_), ""); }

TEST_F(VerbsAddresses, NumbersThatThereAreNotAreRefusedAlthoughProven) {
  const std::function<void(wire::VerbsAddress&)> changes[] = {
      [](wire::VerbsAddress& address) { address.mtu = 0; },
      [](wire::VerbsAddress& address) { address.mtu = 6; },
      [](wire::VerbsAddress& address) { address.reads_max = 0; },
      [](wire::VerbsAddress& address) { address.queue_pair = 1u << 24; },
      [](wire::VerbsAddress& address) { address.first_packet = 1u << 24; },
  };
  for (const auto& change : changes) {
    wire::VerbsAddress changed = address_;
    change(changed);
    EXPECT_EQ(checked(proven(changed)), "an address of a queue pair that makes no sense");
  }
  wire::VerbsAddress deaf = address_;
  deaf.receive_bytes = sizeof(VerbsHeader) + sizeof(VerbsPiece) * wire::kVerbsPiecesMax;
  EXPECT_EQ(checked(proven(deaf)), "");
  --deaf.receive_bytes;
  EXPECT_EQ(checked(proven(deaf)), "it takes no messages");
}

}  // namespace
}  // namespace ramcore::transport::verbs
