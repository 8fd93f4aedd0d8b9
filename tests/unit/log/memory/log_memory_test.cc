#include "log/memory/log_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "log/format/segment_format.h"

namespace ramcore::log {
namespace {

uint64_t freeReservedPages() {
  uint64_t count = 0;
  std::ifstream("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages") >> count;
  return count;
}

void useAllOf(LogMemory& memory) {
  std::thread other([&memory] {
    while (memory.prefaultNext()) {
    }
  });
  while (memory.prefaultNext()) {
  }
  other.join();
  EXPECT_EQ(memory.prefaultedBytes(), memory.bytes());
  EXPECT_TRUE(memory.prefaulted().ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.base()) % LogMemory::kAlignmentBytes, 0u);
  *memory.at(0) = std::byte{1};
  *memory.at(memory.bytes() - 1) = std::byte{2};
  EXPECT_EQ(*memory.at(memory.bytes() - 1), std::byte{2});
  // A length that a flipped bit has made too long reads zeros there.
  EXPECT_EQ(memory.base()[LogMemory::kAlignmentBytes * 3], std::byte{0});
  EXPECT_EQ(memory.base()[memory.bytes() + kPayloadBytesMax], std::byte{0});
}

TEST(LogMemory, IsAlignedAndWholeWhateverItsSize) {
  for (const uint64_t bytes : {uint64_t{64} << 10, (uint64_t{4} << 20) + (64 << 10), uint64_t{130} << 20}) {
    auto memory = LogMemory::open(bytes);
    ASSERT_TRUE(memory.ok()) << memory.error().message;
    EXPECT_EQ((*memory)->bytes(), bytes);
    useAllOf(**memory);
  }
}

TEST(LogMemory, NoneAndTooMuchAreRefused) {
  EXPECT_EQ(LogMemory::open(0).error().status, Status::BadConfig);
  EXPECT_EQ(LogMemory::open(EntryRef::kMemoryBytesMax + 1).error().status, Status::BadConfig);
}

// A page that cannot be had is reported, and not touched: touching it would end the process.
TEST(LogMemory, WhatCannotBeFilledIsTold) {
  auto memory = LogMemory::open(uint64_t{130} << 20);
  ASSERT_TRUE(memory.ok()) << memory.error().message;
  ASSERT_EQ(::munmap((*memory)->base() + (uint64_t{80} << 20), 4096), 0);
  while ((*memory)->prefaultNext()) {
  }
  EXPECT_LT((*memory)->prefaultedBytes(), (*memory)->bytes());
  const auto filled = (*memory)->prefaulted();
  ASSERT_FALSE(filled.ok());
  EXPECT_EQ(filled.error().status, Status::NoSpace);
  EXPECT_NE(filled.error().message.find("cannot fill the log's memory"), std::string::npos) << filled.error().message;
}

// Takes what the machine has set aside, usually nothing.
TEST(LogMemory, ReservedPagesAreTakenAtOnceOrRefusedByName) {
  const uint64_t free_before = freeReservedPages();
  const uint64_t too_many = free_before + 1;
  const auto refused = LogMemory::open(too_many * LogMemory::kAlignmentBytes, Pages::Reserved);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().status, Status::NoSpace);
  EXPECT_NE(refused.error().message.find(std::to_string(too_many) + " huge pages"), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("nr_hugepages"), std::string::npos) << refused.error().message;
  EXPECT_EQ(freeReservedPages(), free_before);
  if (free_before == 0) return;
  // The last page is only partly in use, and is reserved as well.
  auto memory = LogMemory::open(free_before * LogMemory::kAlignmentBytes - (64 << 10), Pages::Reserved);
  ASSERT_TRUE(memory.ok()) << memory.error().message;
  useAllOf(**memory);
  EXPECT_EQ(freeReservedPages(), 0u);
  memory->reset();
  EXPECT_EQ(freeReservedPages(), free_before);
}

}  // namespace
}  // namespace ramcore::log
