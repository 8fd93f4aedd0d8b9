#include "transport/datagram/aes_block.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace ramcore::transport::datagram {
namespace {

using Bytes = std::array<uint8_t, 16>;

AesBlock::Block blockOf(const Bytes& bytes) { return std::bit_cast<AesBlock::Block>(bytes); }

// With the processor's instructions, where it has them, and with the library.
std::vector<bool> ways() {
  return AesBlock::hasInstructions() ? std::vector<bool>{true, false} : std::vector<bool>{false};
}

// FIPS 197, appendices B and C.1.
TEST(AesBlock, IsWhatTheStandardSays) {
  struct Example {
    AesBlock::Key key;
    Bytes plain;
    Bytes cipher;
  };
  constexpr Example kExamples[] = {
      {{0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c},
       {0x32, 0x43, 0xf6, 0xa8, 0x88, 0x5a, 0x30, 0x8d, 0x31, 0x31, 0x98, 0xa2, 0xe0, 0x37, 0x07, 0x34},
       {0x39, 0x25, 0x84, 0x1d, 0x02, 0xdc, 0x09, 0xfb, 0xdc, 0x11, 0x85, 0x97, 0x19, 0x6a, 0x0b, 0x32}},
      {{0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f},
       {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff},
       {0x69, 0xc4, 0xe0, 0xd8, 0x6a, 0x7b, 0x04, 0x30, 0xd8, 0xcd, 0xb7, 0x80, 0x70, 0xb4, 0xc5, 0x5a}}};
  for (const Example& example : kExamples) {
    for (const bool uses_instructions : ways()) {
      const AesBlock aes(example.key, uses_instructions);
      EXPECT_EQ(aes.encrypt(blockOf(example.plain)), blockOf(example.cipher)) << uses_instructions;
    }
  }
}

// Processes on machines with and without the instructions understand each other.
TEST(AesBlock, InstructionsAndLibraryAgree) {
  if (!AesBlock::hasInstructions()) GTEST_SKIP() << "this processor has no instructions for AES";
  uint64_t next = 1;
  const auto draw = [&] { return next = next * 6364136223846793005 + 1442695040888963407; };
  for (int i = 0; i < 1000; ++i) {
    const auto key = std::bit_cast<AesBlock::Key>(std::array{draw(), draw()});
    const AesBlock here(key, true);
    const AesBlock elsewhere(key, false);
    for (int k = 0; k < 4; ++k) {
      const AesBlock::Block block = {draw(), draw()};
      ASSERT_EQ(here.encrypt(block), elsewhere.encrypt(block));
    }
  }
}

TEST(AesBlock, ACopyHasTheSameKey) {
  for (const bool uses_instructions : ways()) {
    const AesBlock aes(AesBlock::Key{1, 2, 3}, uses_instructions);
    AesBlock copy(AesBlock::Key{}, uses_instructions);
    EXPECT_NE(copy.encrypt({4, 5}), aes.encrypt({4, 5}));
    copy = aes;
    EXPECT_EQ(copy.encrypt({4, 5}), aes.encrypt({4, 5}));
  }
}

}  // namespace
}  // namespace ramcore::transport::datagram
