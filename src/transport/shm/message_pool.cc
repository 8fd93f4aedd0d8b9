#include "transport/shm/message_pool.h"

#include <bit>
#include <cstdlib>
#include <new>

namespace ramcore::transport::shm {
namespace {

MessageBlock* allocate(size_t bytes, uint32_t size_class) {
  void* memory = std::malloc(sizeof(MessageBlock) + bytes);
  RC_CHECK_MSG(memory != nullptr, "out of memory for received messages");
  auto* block = new (memory) MessageBlock;
  block->size_class = size_class;
  return block;
}

void freeList(MessageBlock* block) {
  while (block != nullptr) {
    MessageBlock* next = block->next;
    std::free(block);
    block = next;
  }
}

}  // namespace

MessagePool::~MessagePool() {
  for (SizeClass& one : classes_) {
    freeList(one.free);
    freeList(one.returned.load(std::memory_order_acquire));
  }
}

MessageBlock* MessagePool::take(uint32_t bytes) {
  MessageBlock* block = takeBlock(bytes);
  block->counted_bytes = bytes < kCountedBytesMin ? 0 : bytes;
  if (block->counted_bytes != 0) borrowed_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return block;
}

MessageBlock* MessagePool::takeBlock(uint32_t bytes) {
  if (bytes > kPooledBytesMax) return allocate(bytes, kHeapClass);
  const uint32_t bits = bytes <= 1 ? 0 : static_cast<uint32_t>(std::bit_width(bytes - 1));
  const uint32_t size_class = bits <= kSmallestClassBits ? 0 : bits - kSmallestClassBits;
  SizeClass& from = classes_[size_class];
  if (from.free == nullptr) {
    from.free = from.returned.exchange(nullptr, std::memory_order_acquire);
    if (from.free == nullptr) return allocate(size_t{1} << (kSmallestClassBits + size_class), size_class);
  }
  MessageBlock* block = from.free;
  from.free = block->next;
  return block;
}

void MessagePool::releaseMessage(uint64_t token) noexcept {
  auto* block = reinterpret_cast<MessageBlock*>(token);
  if (block->counted_bytes != 0) borrowed_bytes_.fetch_sub(block->counted_bytes, std::memory_order_relaxed);
  if (block->size_class == kHeapClass) {
    std::free(block);
    return;
  }
  SizeClass& to = classes_[block->size_class];
  if (home_.isHere()) {
    block->next = to.free;
    to.free = block;
    return;
  }
  std::atomic<MessageBlock*>& returned = to.returned;
  block->next = returned.load(std::memory_order_relaxed);
  while (!returned.compare_exchange_weak(block->next, block, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

}  // namespace ramcore::transport::shm
