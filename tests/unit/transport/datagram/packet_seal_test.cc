#include "transport/datagram/packet_seal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "transport/datagram/mac_address.h"

namespace ramcore::transport::datagram {
namespace {

using wire::PacketHeader;
using wire::PacketKind;

Handshake::Key keyOf(uint8_t first) {
  Handshake::Key key{};
  for (auto& byte : key) byte = first++;
  return key;
}

PacketHeader sampleHeader() {
  return {.session = 0x1122334455667788,
          .seal = 0,
          .sequence = 7,
          .message_bytes = 3000,
          .head_bytes = 100,
          .offset = 1450,
          .response_bytes_max = 9000,
          .slot = 3,
          .payload_bytes = 1450,
          .priority = 1,
          .flags = 0,
          .reserved1 = 0,
          .reserved2 = 0};
}

std::vector<std::byte> sampleBytes(size_t bytes) {
  std::vector<std::byte> payload(bytes);
  for (size_t i = 0; i < bytes; ++i) payload[i] = static_cast<std::byte>(i * 31 + i / 256);
  return payload;
}

uint64_t sealOf(const PacketSeal& seal, const PacketHeader& header, ByteSpan payload) {
  return seal.of(wire::kDatagramVersion, PacketKind::Request, header, std::span(&payload, 1));
}

class Seals : public ::testing::TestWithParam<bool> {
 protected:
  const PacketSeal seal_{keyOf(1), true, GetParam()};
};

TEST_P(Seals, EachBitOfTheHeaderMatters) {
  const auto payload = sampleBytes(100);
  const uint64_t right = sealOf(seal_, sampleHeader(), payload);
  EXPECT_EQ(sealOf(seal_, sampleHeader(), payload), right);
  for (size_t bit = 0; bit < 8 * sizeof(PacketHeader); ++bit) {
    std::array<std::byte, sizeof(PacketHeader)> bytes;
    storeAs(bytes.data(), sampleHeader());
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    const bool is_seal = bit / 64 == offsetof(PacketHeader, seal) / 8;
    const uint64_t changed = sealOf(seal_, loadAs<PacketHeader>(bytes.data()), payload);
    if (is_seal) {
      EXPECT_EQ(changed, right) << "the seal is not over itself";
    } else {
      EXPECT_NE(changed, right) << "bit " << bit;
    }
  }
}

// Processes of different builds understand each other: what changes these changes wire::kDatagramVersion, too.
TEST_P(Seals, AreWhatTheyWere) {
  EXPECT_EQ(sealOf(seal_, sampleHeader(), sampleBytes(1450)),
            GetParam() ? 18353157688858935947u : 11169892888722371763u);
}

TEST_P(Seals, KindAndVersionMatter) {
  const ByteSpan none;
  const auto header = sampleHeader();
  const uint64_t right = seal_.of(1, PacketKind::Request, header, std::span(&none, 1));
  EXPECT_NE(seal_.of(1, PacketKind::Response, header, std::span(&none, 1)), right);
  EXPECT_NE(seal_.of(2, PacketKind::Request, header, std::span(&none, 1)), right);
  EXPECT_NE(seal_.of(1, PacketKind::Close, header, std::span(&none, 1)), right);
}

TEST_P(Seals, EachByteOfThePayloadMatters) {
  // Lengths on both sides of pairs and blocks.
  for (const size_t bytes : {1u, 3u, 8u, 16u, 17u, 128u, 129u, 1023u, 1024u, 1025u, 1450u, 2048u, 8936u, 9000u}) {
    auto payload = sampleBytes(bytes);
    const uint64_t right = sealOf(seal_, sampleHeader(), payload);
    for (size_t i = 0; i < bytes; ++i) {
      payload[i] ^= std::byte{0x10};
      EXPECT_NE(sealOf(seal_, sampleHeader(), payload), right) << "byte " << i << " of " << bytes;
      payload[i] ^= std::byte{0x10};
    }
    EXPECT_NE(sealOf(seal_, sampleHeader(), ByteSpan(payload).first(bytes - 1)), right) << "the length of " << bytes;
  }
}

TEST_P(Seals, PiecesAreSealedAsTheWhole) {
  for (const size_t bytes : {0u, 1u, 8u, 15u, 16u, 17u, 200u, 300u, 1023u, 1024u, 1025u, 1450u, 2048u, 9000u}) {
    const auto payload = sampleBytes(bytes);
    const uint64_t right = sealOf(seal_, sampleHeader(), payload);
    for (const size_t step : {1u, 7u, 64u, 255u, 1000u}) {
      std::vector<ByteSpan> pieces;
      for (size_t at = 0; at < bytes; at += step) {
        pieces.push_back(ByteSpan(payload).subspan(at, std::min(step, bytes - at)));
        if (at % 3 == 0) pieces.emplace_back();
      }
      EXPECT_EQ(seal_.of(wire::kDatagramVersion, PacketKind::Request, sampleHeader(), pieces), right)
          << bytes << " bytes by " << step;
    }
  }
}

// Blocks are made to sums under one key, so it is the key of the sums that tells their places.
TEST_P(Seals, TheOrderOfBlocksMatters) {
  constexpr size_t kBlock = UniversalKey::kBlockBytes;
  auto payload = sampleBytes(8 * kBlock + 100);
  const uint64_t right = sealOf(seal_, sampleHeader(), payload);
  for (size_t first = 0; first < 8; ++first) {
    for (size_t second = first + 1; second < 8; ++second) {
      const auto at = [&](size_t block) { return payload.begin() + static_cast<ptrdiff_t>(block * kBlock); };
      std::swap_ranges(at(first), at(first + 1), at(second));
      EXPECT_NE(sealOf(seal_, sampleHeader(), payload), right) << first << " and " << second;
      std::swap_ranges(at(first), at(first + 1), at(second));
    }
  }
}

// Compares the hash with its definition, word by word.
TEST(UniversalHash, IsNhOfBlocksAndOfWhatTheyMake) {
  UniversalKey key;
  uint64_t next = 0x9e3779b97f4a7c15;
  for (uint64_t& word : key.block) word = next = next * 6364136223846793005 + 1442695040888963407;
  for (uint64_t& word : key.sums) word = next = next * 6364136223846793005 + 1442695040888963407;
  for (const size_t bytes : {0u, 1u, 16u, 100u, 1024u, 1025u, 3000u, 9216u}) {
    const auto input = sampleBytes(bytes);
    std::vector<std::byte> padded = input;
    padded.resize(alignUp(bytes, 16));
    Wide total = 0;
    size_t block = 0;
    for (size_t at = 0; at < padded.size(); at += UniversalKey::kBlockBytes, ++block) {
      Wide sum = 0;
      for (size_t i = 0; i < std::min(UniversalKey::kBlockBytes, padded.size() - at); i += 16) {
        const uint64_t low = loadAs<uint64_t>(padded.data() + at + i) + key.block[i / 8];
        const uint64_t high = loadAs<uint64_t>(padded.data() + at + i + 8) + key.block[i / 8 + 1];
        sum += static_cast<Wide>(low) * high;
      }
      if (bytes <= UniversalKey::kBlockBytes) {
        total = sum;
      } else {
        total += static_cast<Wide>(static_cast<uint64_t>(sum) + key.sums[2 * block]) *
                 (static_cast<uint64_t>(sum >> 64) + key.sums[2 * block + 1]);
      }
    }
    UniversalHash hash(key);
    EXPECT_TRUE(hash.finish(input) == total) << bytes;
    if (bytes <= UniversalKey::kBlockBytes) EXPECT_TRUE(UniversalHash::ofShort(key, input) == total) << bytes;
  }
}

TEST_P(Seals, DirectionsDiffer) {
  const auto payload = sampleBytes(50);
  const PacketSeal other(keyOf(1), false, GetParam());
  EXPECT_NE(sealOf(other, sampleHeader(), payload), sealOf(seal_, sampleHeader(), payload));
}

INSTANTIATE_TEST_SUITE_P(PacketSeal, Seals, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "WithKey" : "WithoutKey"; });

TEST(PacketSeal, OnlyWhoHasTheKeyMakesTheSeal) {
  const auto payload = sampleBytes(50);
  const uint64_t right = sealOf(PacketSeal(keyOf(1), true, true), sampleHeader(), payload);
  for (size_t i = 0; i < Handshake::Key{}.size(); ++i) {
    Handshake::Key key = keyOf(1);
    key[i] ^= 1;
    EXPECT_NE(sealOf(PacketSeal(key, true, true), sampleHeader(), payload), right) << "byte " << i << " of the key";
  }
  EXPECT_NE(sealOf(PacketSeal(keyOf(1), true, false), sampleHeader(), payload), right);
}

TEST(PacketSeal, WithoutKeyItIsTheSameForAll) {
  const auto payload = sampleBytes(50);
  EXPECT_EQ(sealOf(PacketSeal(keyOf(1), true, false), sampleHeader(), payload),
            sealOf(PacketSeal(keyOf(9), true, false), sampleHeader(), payload));
}

TEST(MacAddress, PrintsToATextThatMeansTheSame) {
  const MacAddress address{{0x02, 0x1a, 0xff, 0x00, 0x09, 0xa0}};
  EXPECT_EQ(address.toString(), "02:1a:ff:00:09:a0");
  EXPECT_EQ(MacAddress::parse(address.toString()), address);
  EXPECT_EQ(MacAddress::parse("02:1A:FF:00:09:A0"), address);
  EXPECT_FALSE(address.isBroadcast());
  EXPECT_TRUE(MacAddress::parse("ff:ff:ff:ff:ff:ff")->isBroadcast());
}

TEST(MacAddress, RefusesWhatIsNotOne) {
  for (const std::string_view text :
       {"", "02:00:00:00:00", "02:00:00:00:00:0", "02:00:00:00:00:011", "02-00-00-00-00-01", "0g:00:00:00:00:01",
        "+2:00:00:00:00:01", "-2:00:00:00:00:01", " 2:00:00:00:00:01", "2 :00:00:00:00:01", "02:00:00:00:00:01 ",
        "020000000001", "0x:00:00:00:00:01", "02::0:00:00:00:001"}) {
    EXPECT_EQ(MacAddress::parse(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace ramcore::transport::datagram
