#pragma once

#include <array>

#include "base/spin_lock.h"
#include "transport/memory/head_list.h"
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

  using HeadLists = std::array<HeadList, kClassCount>;

  static uint32_t classOf(uint32_t capacity);
  TxBuffer* makeBuffer(uint32_t head_capacity);

  const HomeThread& home_;
  HeadLists home_lists_;  // the home thread's
  SpinLock lock_;         // a leaf
  HeadLists shared_lists_ RC_GUARDED_BY(lock_);
};

}  // namespace ramcore::transport
