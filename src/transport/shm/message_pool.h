#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "transport/memory/home_thread.h"
#include "transport/message.h"

namespace ramcore::transport::shm {

/// Memory of one received message.
struct MessageBlock {
  MessageBlock* next = nullptr;
  uint32_t size_class = 0;
  uint32_t counted_bytes = 0;  ///< of MessagePool::borrowedBytes()

  std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
};
static_assert(sizeof(MessageBlock) % 8 == 0);

/// Gives out blocks for received messages and takes them back from any thread. Blocks of up to kPooledBytesMax are kept
/// in lists by size; longer ones come from the heap and go back to it. The pool outlives its messages.
class MessagePool final : public RxOwner {
 public:
  static constexpr uint32_t kPooledBytesMax = 64 * 1024;

  explicit MessagePool(const HomeThread& home) : home_(home) {}
  MessagePool(const MessagePool&) = delete;
  MessagePool& operator=(const MessagePool&) = delete;
  ~MessagePool();

  /// A block with room for `bytes`. The endpoint's thread; no lock and no allocation once the lists are filled.
  MessageBlock* take(uint32_t bytes);
  /// Gives back a block that no message has borrowed. Any thread.
  void drop(MessageBlock* block) { releaseMessage(reinterpret_cast<uint64_t>(block)); }
  void releaseMessage(uint64_t token) noexcept override;
  /// Blocks of at least kCountedBytesMin that are out now. Shorter ones are many, and bounded by the slots of sessions.
  uint64_t borrowedBytes() const { return borrowed_bytes_.load(std::memory_order_relaxed); }
  static constexpr uint32_t kCountedBytesMin = 4 * 1024;

 private:
  static constexpr uint32_t kSmallestClassBits = 8;  // 256 B
  static constexpr uint32_t kClassCount = 9;         // 256 B .. 64 KB
  static constexpr uint32_t kHeapClass = kClassCount;

  struct SizeClass {
    MessageBlock* free = nullptr;                   // the endpoint's thread
    std::atomic<MessageBlock*> returned = nullptr;  // other threads push, the endpoint's takes all
  };

  MessageBlock* takeBlock(uint32_t bytes);

  const HomeThread& home_;
  std::array<SizeClass, kClassCount> classes_;
  std::atomic<uint64_t> borrowed_bytes_{0};
};

}  // namespace ramcore::transport::shm
