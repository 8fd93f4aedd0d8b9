#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <vector>

#include "base/spin_lock.h"
#include "transport/message.h"
#include "transport/verbs/device.h"

namespace ramcore::transport::verbs {

/// Where one message arrives.
struct ReceiveBuffer {
  std::byte* bytes = nullptr;
  uint32_t key = 0;
};

/// The receive buffers of an endpoint, on one shared receive queue. A message that arrived is borrowed where it is;
/// when it is dropped, by any thread, its buffer goes back to the queue with the endpoint's next round.
///
/// Adapters make senders wait while there is no buffer, but a message that waits may be what ends the use of the
/// others: when few are left, messages are copied to the heap, and their buffers go back at once.
class ReceiveBuffers final : public RxOwner {
 public:
  /// Length of a buffer: one message with its header.
  static constexpr uint32_t kBytes = 16 * 1024 + 64;

  /// @param count_max  buffers at most, within what the device takes.
  /// @param wake       called by another thread that gave back a buffer which is wanted before the endpoint looks by
  ///                   itself
  ReceiveBuffers(const Device& device, uint32_t count_max, std::function<void()> wake);
  ReceiveBuffers(const ReceiveBuffers&) = delete;
  ReceiveBuffers& operator=(const ReceiveBuffers&) = delete;
  ~ReceiveBuffers();

  /// Makes the queue. Failure: NoSpace, IoError.
  Outcome<bool> open();
  ibv_srq* queue() const { return queue_.get(); }
  /// Makes and posts buffers until there are `count`, but not more than the maximum. Sessions beyond that share them.
  /// Failure: NoSpace: no more memory can be registered.
  Outcome<bool> want(uint32_t count);

  /// To be called when a message has arrived: its buffer is not posted any more.
  void arrived() { --posted_; }
  /// Hands out what stands behind `skip` bytes of header.
  RxMessage borrow(ReceiveBuffer& buffer, uint32_t skip, uint32_t message_bytes);
  /// Hands out a copy of bytes that are in no buffer any more.
  RxMessage borrowCopy(ByteSpan bytes);
  /// Gives back a buffer that was not borrowed. The endpoint's thread.
  void recycle(ReceiveBuffer& buffer) { free_.push_back(&buffer); }
  /// Posts free buffers. The endpoint's thread, once a round.
  void post();

  void releaseMessage(uint64_t token) noexcept override;
  /// Messages that are borrowed now.
  uint64_t outstanding() const { return outstanding_.load(std::memory_order_acquire); }
  uint32_t count() const { return count_; }
  uint64_t registeredBytes() const { return registered_bytes_; }
  /// Bytes of copies that are borrowed now.
  uint64_t copiedBytes() const { return copied_bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kSlabBuffers = 64;  // 1 MB
  static constexpr uint32_t kPostAtOnce = 16;

  /// Owns messages that were copied to the heap.
  class HeapMessages final : public RxOwner {
   public:
    explicit HeapMessages(ReceiveBuffers& buffers) : buffers_(buffers) {}
    void releaseMessage(uint64_t token) noexcept override;

   private:
    ReceiveBuffers& buffers_;
  };
  struct Slab {
    std::byte* base;
    MemoryRegion region;
  };

  bool isShort() const { return posted_ + free_.size() < count_ / 4; }
  void takeReturned();
  bool addSlab(Failure& failure);

  const Device& device_;
  const uint32_t count_max_;
  const std::function<void()> wake_;
  HeapMessages heap_{*this};
  std::vector<Slab> slabs_;
  SharedReceiveQueue queue_;
  std::deque<ReceiveBuffer> buffers_;  // addresses stay
  uint32_t count_ = 0;
  uint32_t posted_ = 0;
  std::vector<ReceiveBuffer*> free_;
  uint64_t registered_bytes_ = 0;

  std::atomic<uint64_t> outstanding_{0};
  std::atomic<uint64_t> copied_bytes_{0};
  std::atomic<bool> is_waiting_{false};  // the next one that comes back is wanted at once
  std::atomic<uint32_t> returned_count_{0};
  SpinLock lock_;  // a leaf
  std::vector<ReceiveBuffer*> returned_ RC_GUARDED_BY(lock_);
};

}  // namespace ramcore::transport::verbs
