#pragma once

#include <atomic>

#include "base/spin_lock.h"
#include "transport/message.h"

namespace ramcore::transport {

class RxBlockPool;

/// Memory that received bytes are read into and that delivered messages point into. The reader holds one reference,
/// each delivered message another; the last one to go gives the block back.
class RxBlock {
 public:
  std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
  uint32_t capacity() const { return capacity_; }
  /// Adds the reference of another message that points into it. Only by a holder of a reference.
  void addReference() { references_.fetch_add(1, std::memory_order_relaxed); }
  /// True if only the caller holds it: no message points into it any more, and its bytes may be overwritten.
  bool isExclusive() const { return references_.load(std::memory_order_acquire) == 1; }

 private:
  friend class RxBlockPool;
  explicit RxBlock(uint32_t capacity) : capacity_(capacity) {}

  RxBlock* next_ = nullptr;
  std::atomic<uint32_t> references_{1};
  uint32_t capacity_;
};
static_assert(sizeof(RxBlock) % 8 == 0, "messages start at multiples of 8");

/// Gives out blocks and takes them back, from any thread. Blocks of kBlockBytes are kept for the next user, up to a
/// bound; others come from the heap and go back to it. As the owner of messages its token is the block's address. The
/// pool outlives its blocks (checked).
class RxBlockPool final : public RxOwner {
 public:
  static constexpr uint32_t kBlockBytes = 64 * 1024;

  RxBlockPool() = default;
  RxBlockPool(const RxBlockPool&) = delete;
  RxBlockPool& operator=(const RxBlockPool&) = delete;
  ~RxBlockPool();

  /// A block with room for at least `bytes` (and at least kBlockBytes), with one reference: the caller's.
  RxBlock* take(uint32_t bytes);
  /// Gives up one reference. Any thread.
  void drop(RxBlock* block) noexcept;
  /// A message's way to give up its reference. Any thread.
  void releaseMessage(uint64_t token) noexcept override { drop(reinterpret_cast<RxBlock*>(token)); }
  static uint64_t tokenOf(RxBlock* block) { return reinterpret_cast<uint64_t>(block); }
  /// Blocks that are out now, for tests and metrics. Any thread.
  uint64_t outstanding() const { return outstanding_.load(std::memory_order_acquire); }
  /// Bytes of those blocks. Any thread.
  uint64_t borrowedBytes() const { return borrowed_bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kKeptMax = 64;  // 4 MB of memory that is not in use

  SpinLock lock_;  // a leaf
  RxBlock* first_free_ RC_GUARDED_BY(lock_) = nullptr;
  uint32_t free_count_ RC_GUARDED_BY(lock_) = 0;
  std::atomic<uint64_t> outstanding_{0};
  std::atomic<uint64_t> borrowed_bytes_{0};
};

}  // namespace ramcore::transport
