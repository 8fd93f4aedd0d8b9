#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>

#include "transport/message.h"

namespace ramcore::transport {

/// Heads of one size that wait to be used again; the one that came last goes first. Their memory is from std::malloc or
/// std::aligned_alloc. The pool that owns the list guards it.
class HeadList {
 public:
  /// Makes a head for `pool`.
  /// @param memory         of head_offset + head_capacity bytes
  /// @param head_offset    a multiple of 8, with room for the buffer's own struct and kHeaderRoomBytes before it
  /// @param head_capacity  in bytes
  static TxBuffer* make(BufferPool& pool, void* memory, size_t head_offset, uint32_t head_capacity) {
    auto* const buffer = new (memory) TxBuffer;
    buffer->pool = &pool;
    buffer->head = static_cast<std::byte*>(memory) + head_offset;
    buffer->head_capacity = head_capacity;
    return buffer;
  }
  /// Makes a head from a list empty, for its next message.
  static void clear(TxBuffer& buffer) {
    buffer.next = nullptr;
    buffer.head_bytes = 0;
    buffer.contiguous_bytes = 0;
    buffer.chunk_count = 0;
  }

  /// Keeps the head. False: the list has `kept_max` already, and the caller still has this one.
  bool push(TxBuffer* buffer, uint32_t kept_max) {
    if (count_ >= kept_max) return false;
    buffer->next = first_;
    first_ = buffer;
    ++count_;
    return true;
  }
  /// Hands out a head; nullptr: there is none. The caller clears it, outside of its lock.
  TxBuffer* pop() {
    TxBuffer* const buffer = first_;
    if (buffer == nullptr) return nullptr;
    first_ = buffer->next;
    --count_;
    return buffer;
  }
  /// Gives the memory of all heads back.
  void freeAll() {
    static_assert(std::is_trivially_destructible_v<TxBuffer>);
    while (TxBuffer* const buffer = pop()) std::free(buffer);
  }

 private:
  TxBuffer* first_ = nullptr;
  uint32_t count_ = 0;
};

}  // namespace ramcore::transport
