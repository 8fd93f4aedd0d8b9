#pragma once

#include <cstring>

#include "transport/message.h"

namespace ramcore::transport {

/// Owns the copies that take the place of borrowed chunks; has no state.
class ChunkCopies final : public ChunkOwner {
 public:
  /// Replaces the bytes of `chunk` by a copy on the heap, and releases their owner.
  void replace(Chunk& chunk) {
    auto* copy = new std::byte[chunk.bytes];
    if (chunk.bytes != 0) std::memcpy(copy, chunk.address, chunk.bytes);
    if (chunk.owner != nullptr) chunk.owner->releaseChunk(chunk.token);
    chunk = Chunk{copy, chunk.bytes, 0, this, reinterpret_cast<uint64_t>(copy)};
  }
  /// Replaces all chunks of a message that are not copies yet. Chunks without an owner are replaced only with
  /// `and_unowned`. Returns false if there was nothing to do.
  bool replaceAll(TxBuffer& buffer, bool and_unowned) {
    bool found = false;
    for (uint32_t i = 0; i < buffer.chunk_count; ++i) {
      Chunk& chunk = buffer.chunks[i];
      if (chunk.owner == this || (chunk.owner == nullptr && (!and_unowned || chunk.bytes == 0))) continue;
      replace(chunk);
      found = true;
    }
    return found;
  }
  /// Replaces only the chunks of a message that have no owner.
  void replaceUnowned(TxBuffer& buffer) {
    for (uint32_t i = 0; i < buffer.chunk_count; ++i) {
      Chunk& chunk = buffer.chunks[i];
      if (chunk.owner == nullptr && chunk.bytes != 0) replace(chunk);
    }
  }
  void releaseChunk(uint64_t token) noexcept override { delete[] reinterpret_cast<std::byte*>(token); }
};

inline ChunkCopies chunk_copies;

/// True if the message still borrows bytes whose owner waits for them.
inline bool holdsBorrowed(const TxBuffer& buffer) {
  for (uint32_t i = 0; i < buffer.chunk_count; ++i) {
    const ChunkOwner* owner = buffer.chunks[i].owner;
    if (owner != nullptr && owner != &chunk_copies) return true;
  }
  return false;
}

}  // namespace ramcore::transport
