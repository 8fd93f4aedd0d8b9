#include "transport/memory/head_list.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "transport/memory/buffer_pool.h"

namespace ramcore::transport {
namespace {

constexpr size_t kListedHeadOffset = alignUp(sizeof(TxBuffer), 64) + TxBuffer::kHeaderRoomBytes;

TxBuffer* makeListedHead(BufferPool& pool) {
  void* const memory = std::malloc(kListedHeadOffset + TxBuffer::kHeadBytesMin);
  return HeadList::make(pool, memory, kListedHeadOffset, TxBuffer::kHeadBytesMin);
}

TEST(HeadList, ANewHeadIsThePoolsAndStandsBehindItsRoom) {
  SimpleBufferPool pool;
  TxBuffer* const head = makeListedHead(pool);
  EXPECT_EQ(head->pool, &pool);
  EXPECT_EQ(head->head, reinterpret_cast<std::byte*>(head) + kListedHeadOffset);
  EXPECT_EQ(head->head_capacity, TxBuffer::kHeadBytesMin);
  EXPECT_EQ(head->head_bytes, 0u);
  HeadList list;
  ASSERT_TRUE(list.push(head, 1));
  list.freeAll();
}

TEST(HeadList, WhatCameLastGoesFirst) {
  SimpleBufferPool pool;
  HeadList list;
  EXPECT_EQ(list.pop(), nullptr);
  TxBuffer* const first = makeListedHead(pool);
  TxBuffer* const second = makeListedHead(pool);
  ASSERT_TRUE(list.push(first, 2));
  ASSERT_TRUE(list.push(second, 2));
  EXPECT_EQ(list.pop(), second);
  EXPECT_EQ(list.pop(), first);
  EXPECT_EQ(list.pop(), nullptr);
  ASSERT_TRUE(list.push(first, 2));
  ASSERT_TRUE(list.push(second, 2));
  list.freeAll();
  EXPECT_EQ(list.pop(), nullptr);
}

TEST(HeadList, AFullListLeavesTheHeadToItsCaller) {
  SimpleBufferPool pool;
  HeadList list;
  TxBuffer* const kept = makeListedHead(pool);
  TxBuffer* const spare = makeListedHead(pool);
  ASSERT_TRUE(list.push(kept, 1));
  EXPECT_FALSE(list.push(spare, 1));
  EXPECT_EQ(list.pop(), kept);
  EXPECT_TRUE(list.push(spare, 1)) << "there is room again";
  std::free(kept);
  list.freeAll();
}

TEST(HeadList, AClearedHeadIsEmpty) {
  SimpleBufferPool pool;
  TxBuffer* const head = makeListedHead(pool);
  head->next = head;
  head->head_bytes = 10;
  head->contiguous_bytes = 5;
  head->chunk_count = 1;
  HeadList::clear(*head);
  EXPECT_EQ(head->next, nullptr);
  EXPECT_EQ(head->head_bytes, 0u);
  EXPECT_EQ(head->contiguous_bytes, 0u);
  EXPECT_EQ(head->chunk_count, 0u);
  EXPECT_EQ(head->head_capacity, TxBuffer::kHeadBytesMin);
  std::free(head);
}

}  // namespace
}  // namespace ramcore::transport
