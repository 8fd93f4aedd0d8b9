#include "transport/memory/rx_block.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace ramcore::transport {
namespace {

void freeBlock(RxBlock* block) {
  block->~RxBlock();
  std::free(block);
}

}  // namespace

RxBlockPool::~RxBlockPool() {
  RC_CHECK_MSG(outstanding() == 0, "a received message outlives the endpoint that borrowed it");
  SpinGuard guard(lock_);
  while (first_free_ != nullptr) freeBlock(std::exchange(first_free_, first_free_->next_));
}

RxBlock* RxBlockPool::take(uint32_t bytes) {
  outstanding_.fetch_add(1, std::memory_order_relaxed);
  borrowed_bytes_.fetch_add(std::max(bytes, kBlockBytes), std::memory_order_relaxed);
  if (bytes <= kBlockBytes) {
    SpinGuard guard(lock_);
    if (first_free_ != nullptr) {
      RxBlock* block = std::exchange(first_free_, first_free_->next_);
      --free_count_;
      block->references_.store(1, std::memory_order_relaxed);
      return block;
    }
  }
  const uint32_t capacity = std::max(bytes, kBlockBytes);
  void* memory = std::malloc(sizeof(RxBlock) + capacity);
  RC_CHECK_MSG(memory != nullptr, "out of memory for received messages");
  return new (memory) RxBlock(capacity);
}

void RxBlockPool::drop(RxBlock* block) noexcept {
  if (block->references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  borrowed_bytes_.fetch_sub(block->capacity_, std::memory_order_relaxed);
  if (block->capacity_ == kBlockBytes) {
    SpinGuard guard(lock_);
    if (free_count_ < kKeptMax) {
      block->next_ = first_free_;
      first_free_ = block;
      ++free_count_;
      block = nullptr;
    }
  }
  if (block != nullptr) freeBlock(block);
  // This comes last: the pool may be destroyed as soon as the count is zero.
  outstanding_.fetch_sub(1, std::memory_order_release);
}

}  // namespace ramcore::transport
