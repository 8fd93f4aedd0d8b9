#include "transport/memory/buffer_pool.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "transport/memory/rx_block.h"

namespace ramcore::transport {
namespace {

TEST(SimpleBufferPool, HeadsOfEverySizeAreAlignedAndHaveHeaderRoom) {
  SimpleBufferPool pool;
  for (const uint32_t bytes : {0u, 1u, 256u, 257u, 4096u, 4097u, 65'536u, 65'537u, 1'000'001u}) {
    TxMessage message(pool.takeBuffer(bytes));
    EXPECT_GE(message->head_capacity, std::max(bytes, TxBuffer::kHeadBytesMin));
    EXPECT_TRUE(isAligned(reinterpret_cast<uintptr_t>(message->head), 8));
    std::fill_n(message->head - TxBuffer::kHeaderRoomBytes, TxBuffer::kHeaderRoomBytes + message->head_capacity,
                std::byte{1});
  }
  EXPECT_EQ(pool.outstanding(), 0u);
}

TEST(SimpleBufferPool, AUsedBufferComesBackEmpty) {
  SimpleBufferPool pool;
  {
    TxMessage message(pool.takeBuffer(100));
    message.extendHead(10);
    message->contiguous_bytes = 5;
    message.appendChunk(Chunk{});
  }
  TxMessage message(pool.takeBuffer(100));
  EXPECT_EQ(message->head_bytes, 0u);
  EXPECT_EQ(message->contiguous_bytes, 0u);
  EXPECT_EQ(message->chunk_count, 0u);
}

TEST(SimpleBufferPool, ThreadsTakeAndGiveBackEachOthersBuffers) {
  SimpleBufferPool pool;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&pool] {
      for (int i = 0; i < 2000; ++i) {
        TxMessage one(pool.takeBuffer(256));
        TxMessage two(pool.takeBuffer(5000));
        one.extendHead(8);
        two.extendHead(8);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.outstanding(), 0u);
}

TEST(RxBlockPool, TheLastReferenceGivesTheBlockBack) {
  RxBlockPool pool;
  RxBlock* block = pool.take(10);
  EXPECT_EQ(block->capacity(), RxBlockPool::kBlockBytes);
  EXPECT_TRUE(block->isExclusive());
  block->addReference();
  EXPECT_FALSE(block->isExclusive());
  {
    RxMessage message(ByteSpan(block->bytes(), 8), {}, &pool, RxBlockPool::tokenOf(block));
    pool.drop(block);
    EXPECT_EQ(pool.outstanding(), 1u);
  }
  EXPECT_EQ(pool.outstanding(), 0u);
  RxBlock* large = pool.take(1'000'000);
  EXPECT_EQ(large->capacity(), 1'000'000u);
  pool.drop(large);
  EXPECT_EQ(pool.outstanding(), 0u);
}

}  // namespace
}  // namespace ramcore::transport
