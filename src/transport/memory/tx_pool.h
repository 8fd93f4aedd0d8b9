#pragma once

#include <array>

#include "base/spin_lock.h"
#include "transport/memory/home_thread.h"
#include "transport/message.h"

namespace ramcore::transport {

/// Heads for messages to be sent, in lists by size: one set for the endpoint's thread without a lock, one for all
/// others. What the lists do not keep goes back to the heap. The pool outlives its messages.
class TxPool final : public BufferPool {
 public:
  static constexpr uint32_t kPooledBytesMax = 8 * 1024;

  explicit TxPool(const HomeThread& home) : home_(home) {}
  TxPool(const TxPool&) = delete;
  TxPool& operator=(const TxPool&) = delete;
  ~TxPool() override;

  TxBuffer* takeBuffer(uint32_t head_bytes) override;
  void returnBuffer(TxBuffer* buffer) noexcept override;

 private:
  static constexpr uint32_t kSmallestClassBits = 8;  // 256 B
  static constexpr uint32_t kClassCount = 6;         // 256 B .. 8 KB
  static constexpr uint32_t kKeptMax = 256;          // per list

  struct FreeList {
    TxBuffer* first = nullptr;
    uint32_t count = 0;

    bool push(TxBuffer* buffer);
    TxBuffer* pop();
    void freeAll();
  };
  using FreeLists = std::array<FreeList, kClassCount>;

  static uint32_t classOf(uint32_t capacity);
  TxBuffer* makeBuffer(uint32_t head_capacity);

  const HomeThread& home_;
  FreeLists home_lists_;  // the home thread's
  SpinLock lock_;         // a leaf
  FreeLists shared_lists_ RC_GUARDED_BY(lock_);
};

}  // namespace ramcore::transport
