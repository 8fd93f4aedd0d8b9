#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <vector>

namespace ramcore {
namespace {

/// The definition, bit by bit.
uint32_t slowCrc(ByteSpan bytes, uint32_t crc = 0) {
  uint32_t state = ~crc;
  for (const std::byte byte : bytes) {
    state ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0x82F63B78u : 0);
  }
  return ~state;
}

std::vector<std::byte> pattern(size_t bytes) {
  std::vector<std::byte> out(bytes);
  uint64_t state = 1;
  for (std::byte& byte : out) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
  return out;
}

TEST(Crc32c, KnownVectors) {
  EXPECT_EQ(crc32c(asBytes("")), 0u);
  EXPECT_EQ(crc32c(asBytes("123456789")), 0xE3069283u);
  // RFC 3720, appendix B.4.
  std::vector<std::byte> block(32, std::byte{0});
  EXPECT_EQ(crc32c(block), 0x8A9136AAu);
  block.assign(32, std::byte{0xff});
  EXPECT_EQ(crc32c(block), 0x62A8AB43u);
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(block), 0x46DD794Eu);
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(31 - i);
  EXPECT_EQ(crc32c(block), 0x113FDB5Cu);
}

TEST(Crc32c, EveryShortLengthAndAlignmentIsAsDefined) {
  const auto bytes = pattern(96);
  for (size_t begin = 0; begin < 8; ++begin) {
    for (size_t length = 0; length + begin <= 80; ++length) {
      const ByteSpan part = ByteSpan(bytes).subspan(begin, length);
      ASSERT_EQ(crc32c(part), slowCrc(part)) << begin << " " << length;
    }
  }
}

TEST(Crc32c, ShortAndLongPathsAgree) {
  const auto bytes = pattern(kCrcLongBytes * 3);
  for (size_t length : {size_t{1}, size_t{7}, size_t{64}, kCrcLongBytes - 1, kCrcLongBytes, kCrcLongBytes + 1,
                        2 * kCrcLongBytes + 5, 3 * kCrcLongBytes}) {
    const ByteSpan part = ByteSpan(bytes).first(length);
    EXPECT_EQ(crc32cLong(part, 0), slowCrc(part)) << length;
    EXPECT_EQ(crc32c(part), slowCrc(part)) << length;
    EXPECT_EQ(crc32c(part, 0x12345678), slowCrc(part, 0x12345678)) << length;
  }
}

TEST(Crc32c, ContinuesWhereAnEarlierPartEnded) {
  const auto bytes = pattern(2 * kCrcLongBytes);
  const uint32_t whole = crc32c(bytes);
  for (size_t cut : {size_t{0}, size_t{1}, size_t{9}, size_t{500}, kCrcLongBytes, 2 * kCrcLongBytes - 1}) {
    EXPECT_EQ(crc32c(ByteSpan(bytes).subspan(cut), crc32c(ByteSpan(bytes).first(cut))), whole) << cut;
  }
}

TEST(Crc32c, EveryFlippedBitIsSeen) {
  auto bytes = pattern(100);
  const uint32_t whole = crc32c(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_NE(crc32c(bytes), whole);
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
  }
}

}  // namespace
}  // namespace ramcore
