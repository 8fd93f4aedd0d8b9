#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "transport/message.h"

namespace ramcore::transport {

/// Heads of messages, each a block of the heap of its own, so that AddressSanitizer sees every use after its return
/// (without it the descriptions of messages are used again).
/// Fresh ones are filled with a pattern: bytes that nobody wrote are the same in every run.
class SimBufferPool final : public BufferPool {
 public:
  SimBufferPool();
  SimBufferPool(const SimBufferPool&) = delete;
  SimBufferPool& operator=(const SimBufferPool&) = delete;
  /// All buffers are back (checked).
  ~SimBufferPool() override;

  TxBuffer* takeBuffer(uint32_t head_bytes) override;
  void returnBuffer(TxBuffer* buffer) noexcept override;
  uint64_t outstanding() const { return outstanding_; }

 private:
  struct OwnedBuffer;
  std::vector<std::unique_ptr<OwnedBuffer>> free_;
  uint64_t outstanding_ = 0;
};

}  // namespace ramcore::transport
