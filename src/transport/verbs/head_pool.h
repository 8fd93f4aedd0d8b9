#pragma once

#include <algorithm>
#include <new>

#include "base/check.h"
#include "transport/message.h"
#include "transport/verbs/registered_pool.h"

namespace ramcore::transport::verbs {

/// Heads of outgoing messages in registered memory. Any thread. The pool of blocks outlives it.
class HeadPool final : public BufferPool {
 public:
  explicit HeadPool(RegisteredPool& blocks) : blocks_(blocks) {}

  TxBuffer* takeBuffer(uint32_t head_bytes) override {
    const uint32_t wanted = std::max(head_bytes, TxBuffer::kHeadBytesMin);
    Block* const block = blocks_.take(kHeadOffset + wanted);
    RC_CHECK_MSG(block != nullptr, "no memory left that can be registered for messages; raise 'ulimit -l'");
    auto* const buffer = new (block->bytes()) TxBuffer;
    buffer->pool = this;
    buffer->head = block->bytes() + kHeadOffset;
    buffer->head_capacity = block->capacity - kHeadOffset;
    return buffer;
  }
  void returnBuffer(TxBuffer* buffer) noexcept override {
    blocks_.drop(Block::of(reinterpret_cast<std::byte*>(buffer)));
  }
  /// Returns the message in a buffer of this pool: a head from another pool is copied.
  TxMessage adopt(TxMessage message) {
    if (message->pool == this) [[likely]]
      return message;
    TxMessage own(takeBuffer(message->head_bytes));
    own.appendHead(ByteSpan(message->head, message->head_bytes));
    own->contiguous_bytes = message->contiguous_bytes;
    own->borrowed_since_ns = message->borrowed_since_ns;
    for (uint32_t i = 0; i < message->chunk_count; ++i) own.appendChunk(message->chunks[i]);
    message->chunk_count = 0;  // the new one releases their owners
    return own;
  }
  /// The key of the memory of a buffer of this pool.
  static uint32_t keyOf(const TxBuffer& buffer) {
    auto* const at = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(&buffer));
    return Block::of(at)->region->lkey;
  }

 private:
  static constexpr uint32_t kHeadOffset = alignUp(sizeof(TxBuffer), 64) + TxBuffer::kHeaderRoomBytes;
  RegisteredPool& blocks_;
};

}  // namespace ramcore::transport::verbs
