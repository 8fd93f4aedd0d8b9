#include "transport/memory/tx_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

namespace ramcore::transport {

static_assert(sizeof(TxBuffer) % 8 == 0 && TxBuffer::kHeaderRoomBytes % 8 == 0);

bool TxPool::FreeList::push(TxBuffer* buffer) {
  if (count >= kKeptMax) return false;
  buffer->next = first;
  first = buffer;
  ++count;
  return true;
}

TxBuffer* TxPool::FreeList::pop() {
  TxBuffer* buffer = first;
  if (buffer == nullptr) return nullptr;
  first = buffer->next;
  --count;
  return buffer;
}

void TxPool::FreeList::freeAll() {
  while (TxBuffer* buffer = pop()) std::free(buffer);
}

TxPool::~TxPool() {
  for (FreeList& list : home_lists_) list.freeAll();
  SpinGuard guard(lock_);
  for (FreeList& list : shared_lists_) list.freeAll();
}

uint32_t TxPool::classOf(uint32_t capacity) {
  return static_cast<uint32_t>(std::bit_width(capacity - 1)) - kSmallestClassBits;
}

TxBuffer* TxPool::makeBuffer(uint32_t head_capacity) {
  void* memory = std::malloc(sizeof(TxBuffer) + TxBuffer::kHeaderRoomBytes + head_capacity);
  RC_CHECK_MSG(memory != nullptr, "out of memory for messages");
  auto* buffer = new (memory) TxBuffer;
  buffer->pool = this;
  buffer->head = static_cast<std::byte*>(memory) + sizeof(TxBuffer) + TxBuffer::kHeaderRoomBytes;
  buffer->head_capacity = head_capacity;
  return buffer;
}

TxBuffer* TxPool::takeBuffer(uint32_t head_bytes) {
  const uint32_t wanted = std::max(head_bytes, TxBuffer::kHeadBytesMin);
  if (wanted > kPooledBytesMax) return makeBuffer(static_cast<uint32_t>(alignUp(wanted, 8)));
  const uint32_t size_class = classOf(wanted);
  TxBuffer* buffer = nullptr;
  if (home_.isHere()) buffer = home_lists_[size_class].pop();
  if (buffer == nullptr) {
    SpinGuard guard(lock_);
    buffer = shared_lists_[size_class].pop();
  }
  if (buffer == nullptr) return makeBuffer(TxBuffer::kHeadBytesMin << size_class);
  buffer->next = nullptr;
  buffer->head_bytes = 0;
  buffer->contiguous_bytes = 0;
  buffer->chunk_count = 0;
  return buffer;
}

void TxPool::returnBuffer(TxBuffer* buffer) noexcept {
  if (buffer->head_capacity <= kPooledBytesMax) {
    const uint32_t size_class = classOf(buffer->head_capacity);
    if (home_.isHere() && home_lists_[size_class].push(buffer)) return;
    SpinGuard guard(lock_);
    if (shared_lists_[size_class].push(buffer)) return;
  }
  std::free(buffer);
}

}  // namespace ramcore::transport
