#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <unordered_set>
#include <vector>

#include "base/spin_lock.h"
#include "transport/message.h"
#include "transport/verbs/device.h"

namespace ramcore::transport::verbs {

/// Memory that a peer may read or write in one transfer: nothing else stands in it, and it has a key of its own.
struct Place {
  std::byte* bytes = nullptr;
  uint32_t capacity = 0;
  uint32_t tag = 0;  ///< of the session whose peer knows the key
  MemoryRegion region;
  std::vector<uint64_t> private_head;  ///< while a message is lent that came into it
  std::array<ByteSpan, 1> tail;        ///< the rest of that

  Place(std::byte* memory, uint32_t memory_bytes) : bytes(memory), capacity(memory_bytes) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place();
};

/// Lends places for transfers, and to whoever gets the message that came into one. Some are kept for the next transfer
/// of the same session, because registering pins pages; no other one gets them, for its peer has learnt the key. Any
/// thread. The pool outlives its places (checked), the device the pool.
class PlacePool final : public RxOwner {
 public:
  explicit PlacePool(const Device& device) : device_(device) {}
  PlacePool(const PlacePool&) = delete;
  PlacePool& operator=(const PlacePool&) = delete;
  ~PlacePool();

  /// nullptr: no more memory can be registered.
  std::unique_ptr<Place> take(uint32_t bytes, uint32_t tag);
  /// A session begins, or has ended: what is kept for it goes.
  void admit(uint32_t tag);
  void forget(uint32_t tag);
  void drop(std::unique_ptr<Place> place) noexcept;
  /// The message that came into a place. Its head is copied out of the peer's reach.
  RxMessage lend(std::unique_ptr<Place> place, uint32_t message_bytes, uint32_t head_bytes);
  void releaseMessage(uint64_t token) noexcept override;
  uint64_t outstanding() const { return outstanding_.load(std::memory_order_acquire); }

 private:
  static constexpr uint64_t kKeptBytesMax = 32u << 20;

  const Device& device_;
  SpinLock lock_;  // a leaf
  std::vector<std::unique_ptr<Place>> free_ RC_GUARDED_BY(lock_);
  uint64_t kept_bytes_ RC_GUARDED_BY(lock_) = 0;
  std::unordered_set<uint32_t> live_ RC_GUARDED_BY(lock_);
  std::atomic<uint64_t> outstanding_{0};
};

}  // namespace ramcore::transport::verbs
