#include "transport/verbs/registered_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include "base/bytes.h"
#include "base/check.h"

namespace ramcore::transport::verbs {
namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE;

}  // namespace

RegisteredPool::~RegisteredPool() {
  RC_CHECK_MSG(outstanding() == 0, "registered memory outlives the pool that borrowed it");
  SpinGuard guard(lock_);
  for (uint32_t size_class = 0; size_class < kClassCount; ++size_class) {
    if (isFromSlab(size_class)) continue;
    while (Block* block = free_[size_class]) {
      free_[size_class] = block->next;
      freeLarge(block);
    }
  }
  for (Slab& slab : slabs_) {
    slab.region.reset();
    std::free(slab.base);
  }
}

uint32_t RegisteredPool::classOf(uint32_t bytes) {
  const uint32_t total = bytes + static_cast<uint32_t>(sizeof(Block));
  const auto bits = static_cast<uint32_t>(std::bit_width(total - 1));
  return bits <= kSmallestBits ? 0 : bits - kSmallestBits;
}

Block* RegisteredPool::take(uint32_t bytes) {
  RC_CHECK(bytes <= kBlockBytesMax - sizeof(Block));
  const uint32_t size_class = classOf(bytes);
  Block* block = nullptr;
  {
    SpinGuard guard(lock_);
    block = free_[size_class];
    if (block != nullptr) {
      free_[size_class] = block->next;
      if (!isFromSlab(size_class)) kept_large_bytes_ -= totalBytes(size_class);
    } else if (isFromSlab(size_class)) {
      block = cutSlab(size_class);
    }
  }
  if (block == nullptr && !isFromSlab(size_class)) block = makeLarge(size_class);
  if (block == nullptr) return nullptr;
  outstanding_.fetch_add(1, std::memory_order_relaxed);
  return block;
}

// Cuts a whole slab for this class.
Block* RegisteredPool::cutSlab(uint32_t size_class) {
  constexpr size_t kSlabBytes = size_t{1} << kSlabBits;
  auto* const base = static_cast<std::byte*>(std::aligned_alloc(kSlabBytes, kSlabBytes));
  if (base == nullptr) return nullptr;
  auto region = device_.registerMemory(base, kSlabBytes, kAccess);
  if (!region.ok()) {
    std::free(base);
    return nullptr;
  }
  registered_bytes_.fetch_add(kSlabBytes, std::memory_order_relaxed);
  const uint64_t block_bytes = totalBytes(size_class);
  for (size_t at = kSlabBytes; at >= block_bytes; at -= block_bytes) {
    auto* const block = new (base + at - block_bytes) Block;
    block->region = region->get();
    block->size_class = size_class;
    block->capacity = static_cast<uint32_t>(block_bytes - sizeof(Block));
    block->next = free_[size_class];
    free_[size_class] = block;
  }
  slabs_.push_back(Slab{base, std::move(region).value()});
  Block* const first = free_[size_class];
  free_[size_class] = first->next;
  return first;
}

Block* RegisteredPool::makeLarge(uint32_t size_class) {
  const uint64_t bytes = totalBytes(size_class);
  void* const memory = std::aligned_alloc(kPageBytes, bytes);
  if (memory == nullptr) return nullptr;
  auto region = device_.registerMemory(memory, bytes, kAccess);
  if (!region.ok()) {
    std::free(memory);
    return nullptr;
  }
  registered_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  auto* const block = new (memory) Block;
  block->region = std::move(region).value().release();
  block->size_class = size_class;
  block->capacity = static_cast<uint32_t>(bytes - sizeof(Block));
  return block;
}

void RegisteredPool::freeLarge(Block* block) noexcept {
  registered_bytes_.fetch_sub(totalBytes(block->size_class), std::memory_order_relaxed);
  MemoryRegion(block->region).reset();
  std::free(block);
}

void RegisteredPool::drop(Block* block) noexcept {
  const uint32_t size_class = block->size_class;
  bool is_kept = true;
  {
    SpinGuard guard(lock_);
    if (!isFromSlab(size_class)) {
      is_kept = kept_large_bytes_ + totalBytes(size_class) <= kKeptLargeBytesMax;
      if (is_kept) kept_large_bytes_ += totalBytes(size_class);
    }
    if (is_kept) {
      block->next = free_[size_class];
      free_[size_class] = block;
    }
  }
  if (!is_kept) freeLarge(block);
  // This comes last: the pool may be destroyed as soon as the count is zero.
  outstanding_.fetch_sub(1, std::memory_order_release);
}

}  // namespace ramcore::transport::verbs
