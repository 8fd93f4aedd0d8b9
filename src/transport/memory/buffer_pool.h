#pragma once

#include <array>

#include "base/spin_lock.h"
#include "transport/memory/head_list.h"
#include "transport/message.h"

namespace ramcore::transport {

/// Heads for outgoing messages, from the heap, kept in lists by size. Any thread takes, any thread gives back, under a
/// lock held for some nanoseconds. Buffers that find their list full go back to the heap, and so do heads longer than
/// the largest class. The pool outlives its messages (checked).
class SimpleBufferPool final : public BufferPool {
 public:
  SimpleBufferPool() = default;
  SimpleBufferPool(const SimpleBufferPool&) = delete;
  SimpleBufferPool& operator=(const SimpleBufferPool&) = delete;
  ~SimpleBufferPool() override;

  TxBuffer* takeBuffer(uint32_t head_bytes) override;
  void returnBuffer(TxBuffer* buffer) noexcept override;
  /// Messages that are out now. Any thread.
  uint64_t outstanding() const;

 private:
  struct SizeClass {
    uint32_t head_bytes;
    uint32_t kept_max;  // free ones kept for the next messages
  };
  static constexpr std::array<SizeClass, 4> kClasses = {
      {{TxBuffer::kHeadBytesMin, 1024}, {1024, 512}, {4 * 1024, 256}, {64 * 1024, 16}}};

  static size_t classOf(uint32_t head_bytes);
  TxBuffer* makeBuffer(uint32_t head_capacity);

  mutable SpinLock lock_;  // a leaf
  std::array<HeadList, kClasses.size()> free_ RC_GUARDED_BY(lock_);
  uint64_t outstanding_ RC_GUARDED_BY(lock_) = 0;
};

}  // namespace ramcore::transport
