#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

#include "base/spin_lock.h"
#include "transport/verbs/device.h"

namespace ramcore::transport::verbs {

/// The header in front of memory that the adapter reads and writes.
struct alignas(64) Block {
  Block* next = nullptr;
  ibv_mr* region = nullptr;  ///< whose key reaches it
  uint32_t size_class = 0;
  uint32_t capacity = 0;  ///< of bytes()

  std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
  static Block* of(std::byte* bytes) { return reinterpret_cast<Block*>(bytes) - 1; }
};
static_assert(sizeof(Block) == 64);

/// Registered memory in blocks of powers of two. Peers cannot reach it: it is registered for the adapter's own use.
///
/// Small blocks are cut from slabs of 2 MB, which stay; large ones are registered one by one, and some are kept for the
/// next users, because registering pins pages. Any thread. The pool outlives its blocks (checked), the device the pool.
class RegisteredPool {
 public:
  /// Length of the largest block, its header included.
  static constexpr uint32_t kBlockBytesMax = 1u << 24;

  explicit RegisteredPool(const Device& device) : device_(device) {}
  RegisteredPool(const RegisteredPool&) = delete;
  RegisteredPool& operator=(const RegisteredPool&) = delete;
  ~RegisteredPool();

  /// A block with room for `bytes`, at most kBlockBytesMax - sizeof(Block). nullptr: no more memory can be registered.
  Block* take(uint32_t bytes);
  void drop(Block* block) noexcept;
  uint64_t outstanding() const { return outstanding_.load(std::memory_order_acquire); }
  /// Bytes of all memory that is registered.
  uint64_t registeredBytes() const { return registered_bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kSmallestBits = 11;  // 2 KB
  static constexpr uint32_t kSlabBits = 21;      // 2 MB
  static constexpr uint32_t kLargestFromSlabBits = 17;
  static constexpr uint32_t kClassCount = 24 - kSmallestBits + 1;
  static constexpr uint64_t kKeptLargeBytesMax = 64u << 20;

  struct Slab {
    std::byte* base;
    MemoryRegion region;
  };

  static uint32_t classOf(uint32_t bytes);
  static uint64_t totalBytes(uint32_t size_class) { return uint64_t{1} << (kSmallestBits + size_class); }
  static bool isFromSlab(uint32_t size_class) { return size_class + kSmallestBits <= kLargestFromSlabBits; }
  Block* cutSlab(uint32_t size_class) RC_REQUIRES(lock_);
  Block* makeLarge(uint32_t size_class);
  void freeLarge(Block* block) noexcept;

  const Device& device_;
  SpinLock lock_;  // a leaf; a slab is registered under it, which is seldom
  std::array<Block*, kClassCount> free_ RC_GUARDED_BY(lock_) = {};
  std::vector<Slab> slabs_ RC_GUARDED_BY(lock_);
  uint64_t kept_large_bytes_ RC_GUARDED_BY(lock_) = 0;
  std::atomic<uint64_t> outstanding_{0};
  std::atomic<uint64_t> registered_bytes_{0};
};

}  // namespace ramcore::transport::verbs
