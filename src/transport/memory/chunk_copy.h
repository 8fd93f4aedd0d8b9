#pragma once

#include <cstring>

#include "transport/message.h"

namespace ramcore::transport {

/// Owns the copies that take the place of lent chunks; has no state.
class ChunkCopies final : public ChunkOwner {
 public:
  /// Copies the bytes of `chunk`, which then lie on the heap, and releases whoever lent them.
  void replace(Chunk& chunk) {
    auto* copy = new std::byte[chunk.bytes];
    if (chunk.bytes != 0) std::memcpy(copy, chunk.address, chunk.bytes);
    if (chunk.owner != nullptr) chunk.owner->releaseChunk(chunk.token);
    chunk = Chunk{copy, chunk.bytes, 0, this, reinterpret_cast<uint64_t>(copy)};
  }
  /// The same for all chunks of a message that are not copies yet; with `and_unowned` also for those that no owner
  /// waits for. Returns false if there was nothing to do.
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
  /// The same for those alone that no owner waits for.
  void replaceUnowned(TxBuffer& buffer) {
    for (uint32_t i = 0; i < buffer.chunk_count; ++i) {
      Chunk& chunk = buffer.chunks[i];
      if (chunk.owner == nullptr && chunk.bytes != 0) replace(chunk);
    }
  }
  void releaseChunk(uint64_t token) noexcept override { delete[] reinterpret_cast<std::byte*>(token); }
};

inline ChunkCopies chunk_copies;

/// True if bytes of the message still are somebody else's who waits for them.
inline bool holdsLent(const TxBuffer& buffer) {
  for (uint32_t i = 0; i < buffer.chunk_count; ++i) {
    const ChunkOwner* owner = buffer.chunks[i].owner;
    if (owner != nullptr && owner != &chunk_copies) return true;
  }
  return false;
}

}  // namespace ramcore::transport
