#include "unit/transport/shm/shm_harness.h"

#include <memory>

namespace ramcore::transport::shm {
namespace {

// Owns the bytes of one chunk.
class VectorOwner final : public ChunkOwner {
 public:
  void releaseChunk(uint64_t token) noexcept override { delete reinterpret_cast<std::vector<std::byte>*>(token); }
};
VectorOwner vector_owner;

constexpr uint32_t kChunkBytes = 300'001;

}  // namespace

TxMessage makeMessage(Endpoint& endpoint, uint32_t bytes, uint8_t seed) {
  TxMessage message = endpoint.allocate(64);
  const uint32_t head_bytes = std::min<uint32_t>(bytes, 61);
  uint8_t next = seed;
  std::byte* head = message.extendHead(head_bytes);
  for (uint32_t i = 0; i < head_bytes; ++i) head[i] = std::byte{next++};
  for (uint32_t done = head_bytes; done < bytes;) {
    const uint32_t piece = std::min(kChunkBytes, bytes - done);
    auto* chunk = new std::vector<std::byte>(piece);
    for (std::byte& byte : *chunk) byte = std::byte{next++};
    message.appendChunk(Chunk{chunk->data(), piece, 0, &vector_owner, reinterpret_cast<uint64_t>(chunk)});
    done += piece;
  }
  return message;
}

bool hasPattern(const RxMessage& message, uint32_t bytes, uint8_t seed) {
  if (message.messageBytes() != bytes) return false;
  uint8_t next = seed;
  for (const std::byte byte : message.head()) {
    if (byte != std::byte{next++}) return false;
  }
  for (const ByteSpan& span : message.tail()) {
    for (const std::byte byte : span) {
      if (byte != std::byte{next++}) return false;
    }
  }
  return true;
}

void echo(Endpoint& endpoint, RxMessage& request) {
  TxMessage response = endpoint.allocate(64);
  if (request.messageBytes() <= response.headRoom()) {
    response.appendHead(request.head());
  } else {
    auto* copy = new std::vector<std::byte>(request.head().begin(), request.head().end());
    for (const ByteSpan& span : request.tail()) copy->insert(copy->end(), span.begin(), span.end());
    response.appendChunk(
        Chunk{copy->data(), static_cast<uint32_t>(copy->size()), 0, &vector_owner, reinterpret_cast<uint64_t>(copy)});
  }
  endpoint.reply(request.reply_to, std::move(response));
}

}  // namespace ramcore::transport::shm
