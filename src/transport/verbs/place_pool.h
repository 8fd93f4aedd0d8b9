#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/spin_lock.h"
#include "transport/message.h"
#include "transport/verbs/device.h"

namespace ramcore::transport::verbs {

/// Memory that a peer may read or write in one transfer: nothing else stands in it, and it has a key of its own.
///
/// With a window the key is that of the window, which is good at the queue pair alone where it is bound: the memory
/// itself is registered without remote rights. Without one the key is that of the memory, and is good at every queue
/// pair of the device's protection domain.
struct Place {
  std::byte* bytes = nullptr;
  uint32_t capacity = 0;
  uint32_t tag = 0;      ///< of the session whose peer knows the key
  uint32_t key = 0;      ///< that opens it, once is_open
  bool is_open = false;  ///< false: the window has still to be bound
  MemoryRegion region;
  MemoryWindow window;                 ///< goes before the region does
  std::vector<uint64_t> private_head;  ///< of a message that came into it, while that is borrowed
  std::array<ByteSpan, 1> tail;        ///< the rest of that message
  std::shared_ptr<Place> borrowed;     ///< itself, for the same time

  Place(std::byte* memory, uint32_t memory_bytes) : bytes(memory), capacity(memory_bytes) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place();
};

/// Gives out places for transfers, and owns the messages that came into them. Some places are kept for the next
/// transfer of the same session, because registering pins pages. No other session gets them, because the peer has
/// learnt the key. Any thread. The pool outlives its places (checked), the device the pool.
class PlacePool final : public RxOwner {
 public:
  /// @param uses_windows  only if the device has them
  PlacePool(const Device& device, bool uses_windows) : device_(device), uses_windows_(uses_windows) {}
  PlacePool(const PlacePool&) = delete;
  PlacePool& operator=(const PlacePool&) = delete;
  ~PlacePool();

  /// Failure: NoSpace, IoError: no more memory can be registered, or there are no more windows. With cause and remedy.
  Outcome<std::shared_ptr<Place>> take(uint32_t bytes, uint32_t tag);
  /// To be called when a session begins.
  void admit(uint32_t tag);
  /// To be called when a session has ended: the places that are kept for it are freed, and the windows of all its
  /// places are closed, also of those that are out. Its queue pair is still there: some devices do not destroy it
  /// before the windows that are bound to it.
  void forget(uint32_t tag);
  void drop(std::shared_ptr<Place> place) noexcept;
  /// Makes a message of what came into a place. Its head is copied out of the peer's reach.
  RxMessage borrow(std::shared_ptr<Place> place, uint32_t message_bytes, uint32_t head_bytes);
  void releaseMessage(uint64_t token) noexcept override;
  uint64_t outstanding() const { return outstanding_.load(std::memory_order_acquire); }

 private:
  static constexpr uint64_t kKeptBytesMax = 32u << 20;

  Outcome<std::shared_ptr<Place>> make(uint32_t capacity, uint32_t tag) const;

  const Device& device_;
  const bool uses_windows_;
  SpinLock lock_;  // a leaf; a window is closed under it, which is a system call, but seldom
  std::vector<std::shared_ptr<Place>> free_ RC_GUARDED_BY(lock_);
  uint64_t kept_bytes_ RC_GUARDED_BY(lock_) = 0;
  /// All places of each session that is there, kept or out.
  std::unordered_map<uint32_t, std::vector<std::shared_ptr<Place>>> live_ RC_GUARDED_BY(lock_);
  std::atomic<uint64_t> outstanding_{0};
};

}  // namespace ramcore::transport::verbs
