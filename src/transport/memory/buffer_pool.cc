#include "transport/memory/buffer_pool.h"

#include <cstdlib>
#include <new>

namespace ramcore::transport {
namespace {

constexpr size_t kAlignment = 64;
// The head's header room follows the buffer's own struct, so that struct, room and head are one block of the heap.
constexpr size_t kHeadOffset = alignUp(sizeof(TxBuffer), kAlignment) + TxBuffer::kHeaderRoomBytes;

void freeBuffer(TxBuffer* buffer) {
  buffer->~TxBuffer();
  std::free(buffer);
}

}  // namespace

SimpleBufferPool::~SimpleBufferPool() {
  RC_CHECK_MSG(outstanding() == 0, "a message outlives the pool that borrowed it");
  SpinGuard guard(lock_);
  for (FreeList& list : free_) {
    while (list.first != nullptr) freeBuffer(std::exchange(list.first, list.first->next));
  }
}

size_t SimpleBufferPool::classOf(uint32_t head_bytes) {
  size_t index = 0;
  while (index < kClasses.size() && head_bytes > kClasses[index].head_bytes) ++index;
  return index;
}

TxBuffer* SimpleBufferPool::takeBuffer(uint32_t head_bytes) {
  const size_t index = classOf(head_bytes);
  TxBuffer* buffer = nullptr;
  {
    SpinGuard guard(lock_);
    ++outstanding_;
    if (index < kClasses.size() && free_[index].first != nullptr) {
      buffer = free_[index].first;
      free_[index].first = buffer->next;
      --free_[index].count;
    }
  }
  if (buffer == nullptr) {
    return makeBuffer(index < kClasses.size() ? kClasses[index].head_bytes
                                              : static_cast<uint32_t>(alignUp(head_bytes, 8)));
  }
  buffer->next = nullptr;
  buffer->head_bytes = 0;
  buffer->contiguous_bytes = 0;
  return buffer;
}

TxBuffer* SimpleBufferPool::makeBuffer(uint32_t head_capacity) {
  void* memory = std::aligned_alloc(kAlignment, alignUp(kHeadOffset + head_capacity, kAlignment));
  RC_CHECK_MSG(memory != nullptr, "out of memory for a message");
  auto* buffer = new (memory) TxBuffer;
  buffer->pool = this;
  buffer->head = static_cast<std::byte*>(memory) + kHeadOffset;
  buffer->head_capacity = head_capacity;
  return buffer;
}

void SimpleBufferPool::returnBuffer(TxBuffer* buffer) noexcept {
  RC_DCHECK(buffer->pool == this && buffer->chunk_count == 0);
  const size_t index = classOf(buffer->head_capacity);
  {
    SpinGuard guard(lock_);
    --outstanding_;
    if (index < kClasses.size() && free_[index].count < kClasses[index].kept_max) {
      buffer->next = free_[index].first;
      free_[index].first = buffer;
      ++free_[index].count;
      return;
    }
  }
  freeBuffer(buffer);
}

uint64_t SimpleBufferPool::outstanding() const {
  SpinGuard guard(lock_);
  return outstanding_;
}

}  // namespace ramcore::transport
