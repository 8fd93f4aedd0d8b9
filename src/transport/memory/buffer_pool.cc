#include "transport/memory/buffer_pool.h"

#include <cstdlib>

namespace ramcore::transport {
namespace {

constexpr size_t kAlignment = 64;
// The head's header room follows the buffer's own struct, so that struct, room and head are one block of the heap.
constexpr size_t kHeadOffset = alignUp(sizeof(TxBuffer), kAlignment) + TxBuffer::kHeaderRoomBytes;

}  // namespace

SimpleBufferPool::~SimpleBufferPool() {
  RC_CHECK_MSG(outstanding() == 0, "a message outlives the pool that borrowed it");
  SpinGuard guard(lock_);
  for (HeadList& list : free_) list.freeAll();
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
    if (index < kClasses.size()) buffer = free_[index].pop();
  }
  if (buffer == nullptr) {
    return makeBuffer(index < kClasses.size() ? kClasses[index].head_bytes
                                              : static_cast<uint32_t>(alignUp(head_bytes, 8)));
  }
  HeadList::clear(*buffer);
  return buffer;
}

TxBuffer* SimpleBufferPool::makeBuffer(uint32_t head_capacity) {
  void* memory = std::aligned_alloc(kAlignment, alignUp(kHeadOffset + head_capacity, kAlignment));
  RC_CHECK_MSG(memory != nullptr, "out of memory for a message");
  return HeadList::make(*this, memory, kHeadOffset, head_capacity);
}

void SimpleBufferPool::returnBuffer(TxBuffer* buffer) noexcept {
  RC_DCHECK(buffer->pool == this && buffer->chunk_count == 0);
  const size_t index = classOf(buffer->head_capacity);
  {
    SpinGuard guard(lock_);
    --outstanding_;
    if (index < kClasses.size() && free_[index].push(buffer, kClasses[index].kept_max)) return;
  }
  std::free(buffer);
}

uint64_t SimpleBufferPool::outstanding() const {
  SpinGuard guard(lock_);
  return outstanding_;
}

}  // namespace ramcore::transport
