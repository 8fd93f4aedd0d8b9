#include "master/pinned/pinned_values.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "transport/memory/buffer_pool.h"

namespace ramcore::master {
namespace {

constexpr uint64_t kMemoryBytes = 1 << 20;
constexpr uint64_t kBytesMax = 20'000;

class PinnedValuesTest : public ::testing::Test {
 protected:
  // The bytes stand for those of a log: PinnedValues does not look at them.
  ByteSpan value(size_t bytes) const { return ByteSpan(memory).first(bytes); }
  transport::TxMessage answerWith(const transport::Chunk& chunk) {
    transport::TxMessage message(buffers.takeBuffer(0));
    message.appendChunk(chunk);
    return message;
  }
  uint64_t pinned() const { return borrowed.stats().pinned_bytes.load(); }
  uint64_t copied() const { return borrowed.stats().copied_bytes.load(); }

  std::vector<std::byte> memory = std::vector<std::byte>(100'000, std::byte{3});
  log::LogStats log;
  runtime::PinRegistry pins{2};
  transport::SimpleBufferPool buffers;
  PinnedValues borrowed{{.pinned_bytes_max = kBytesMax}, kMemoryBytes, log, pins};
};

TEST_F(PinnedValuesTest, AValueIsShownFromWhereItLiesUnderAPin) {
  {
    const transport::TxMessage answer = answerWith(borrowed.borrow(value(8000), 1));
    EXPECT_EQ(answer->chunks[0].address, memory.data());
    EXPECT_EQ(answer->chunks[0].bytes, 8000u);
    EXPECT_EQ(pins.outstanding(), 1u);
    EXPECT_EQ(pinned(), 8000u);
    EXPECT_TRUE(borrowed.isBorrowed());
  }
  EXPECT_EQ(pins.outstanding(), 0u);
  EXPECT_FALSE(borrowed.isBorrowed());
}

TEST_F(PinnedValuesTest, BeyondTheBoundValuesAreCopiedAndBeyondThatRefused) {
  std::vector<transport::TxMessage> answers;
  for (int i = 0; i < 2; ++i) answers.push_back(answerWith(borrowed.borrow(value(8000), 0)));
  EXPECT_EQ(pinned(), 16'000u);
  for (int i = 0; i < 2; ++i) {
    answers.push_back(answerWith(borrowed.borrow(value(8000), 0)));
    const transport::Chunk& copy = answers.back()->chunks[0];
    EXPECT_NE(copy.address, memory.data());
    EXPECT_EQ(std::memcmp(copy.address, memory.data(), 8000), 0);
  }
  EXPECT_EQ(pins.outstanding(), 2u);
  EXPECT_EQ(copied(), 16'000u);
  EXPECT_EQ(borrowed.stats().values_copied.load(), 2u);
  EXPECT_EQ(borrowed.borrow(value(8000), 0).address, nullptr);
  EXPECT_EQ(borrowed.stats().refused.load(), 1u);
  answers.erase(answers.begin());  // a pin is back
  answers.push_back(answerWith(borrowed.borrow(value(8000), 0)));
  EXPECT_EQ(answers.back()->chunks[0].address, memory.data());
}

TEST_F(PinnedValuesTest, ASingleValueAboveTheBoundIsShownAllTheSame) {
  const transport::TxMessage first = answerWith(borrowed.borrow(value(50'000), 0));
  EXPECT_EQ(first->chunks[0].address, memory.data());
  const transport::TxMessage second = answerWith(borrowed.borrow(value(50'000), 0));
  EXPECT_NE(second->chunks[0].address, memory.data());
  EXPECT_NE(second->chunks[0].address, nullptr);
}

TEST_F(PinnedValuesTest, NothingIsPinnedWhileTooMuchMemoryWaitsForPins) {
  log.pinned_bytes.store(kBytesMax + 1);
  {
    const transport::TxMessage copy = answerWith(borrowed.borrow(value(8000), 0));
    EXPECT_EQ(pins.outstanding(), 0u);
    EXPECT_EQ(copied(), 8000u);
  }
  log.pinned_bytes.store(kBytesMax);
  const transport::TxMessage shown = answerWith(borrowed.borrow(value(8000), 0));
  EXPECT_EQ(pins.outstanding(), 1u);
}

TEST_F(PinnedValuesTest, AnAnswerThatHasToWaitGivesItsPinsBack) {
  transport::TxMessage answer = answerWith(borrowed.borrow(value(8000), 0));
  ASSERT_TRUE(borrowed.copyOut(*answer));
  EXPECT_EQ(pins.outstanding(), 0u);
  EXPECT_EQ(pinned(), 0u);
  EXPECT_EQ(copied(), 8000u);
  memory.assign(memory.size(), std::byte{0xee});  // the memory is used for something else
  for (uint32_t i = 0; i < 8000; ++i) ASSERT_EQ(answer->chunks[0].address[i], std::byte{3});
  ASSERT_TRUE(borrowed.copyOut(*answer)) << "again there is nothing to do";
  EXPECT_EQ(borrowed.stats().values_copied.load(), 1u);
  transport::TxMessage second = answerWith(borrowed.borrow(value(15'000), 0));
  EXPECT_FALSE(borrowed.copyOut(*second));
  EXPECT_EQ(pins.outstanding(), 1u) << "until the answer is dropped";
}

TEST_F(PinnedValuesTest, TheBoundIsNeverMoreThanAShareOfTheMemory) {
  const PinnedValues small({}, 160'000, log, pins);
  EXPECT_EQ(small.bytesMax(), 20'000u);
}

}  // namespace
}  // namespace ramcore::master
