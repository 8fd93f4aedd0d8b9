#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "runtime/executor.h"

namespace ramcore::transport {

/// The number that `Transport::registerMemory` gave a piece of memory; by it a transport finds the memory's key or
/// mapping without a search. 0 = not registered: such bytes are copied where the hardware needs registration.
using RegionId = uint16_t;

/// The owner of bytes that a message borrows while it is being sent. It is told once per chunk, when the transport will
/// not read the bytes again: tcp, shm and sim: when they are copied out; verbs: at completion, or when the broken queue
/// pair is drained; dpdk: when the driver frees the buffer. The call comes on the endpoint's thread. It must be quick
/// and must not call the endpoint.
class ChunkOwner {
 public:
  virtual void releaseChunk(uint64_t token) noexcept = 0;

 protected:
  ~ChunkOwner() = default;
};

/// Bytes of a message that stand somewhere else (in the log, in a user's buffer) and are sent from there.
struct Chunk {
  const std::byte* address = nullptr;
  uint32_t bytes = 0;
  RegionId region = 0;
  ChunkOwner* owner =
      nullptr;         ///< nullptr: the caller guarantees the bytes until the call completes or the reply is out
  uint64_t token = 0;  ///< handed back to the owner
};

class BufferPool;

/// One message on its way out: a head from the pool, followed by chunks. Used through TxMessage.
struct TxBuffer {
  static constexpr uint32_t kHeaderRoomBytes = 64;  ///< room in front of the head, for the transport's own headers
  static constexpr uint32_t kHeadBytesMin = 256;
  static constexpr uint32_t kChunkCountMax = 32;

  BufferPool* pool = nullptr;
  TxBuffer* next = nullptr;   ///< free list of the pool, send queue of a session
  std::byte* head = nullptr;  ///< 8-byte aligned, kHeaderRoomBytes writable bytes in front
  uint32_t head_capacity = 0;
  uint32_t head_bytes = 0;        ///< used so far
  uint32_t contiguous_bytes = 0;  ///< leading bytes the receiver needs in one piece; 0 = head_bytes
  uint32_t chunk_count = 0;
  RegionId region = 0;  ///< the region of the head
  /// Since when the transport borrows the chunks (runtime::Clock); set by transports in which a message can wait.
  int64_t borrowed_since_ns = 0;
  std::array<Chunk, kChunkCountMax> chunks;
};

/// Gives out head buffers. Any thread; about 10 ns. The pool outlives its messages.
class BufferPool {
 public:
  virtual ~BufferPool() = default;
  virtual TxBuffer* takeBuffer(uint32_t head_bytes) = 0;
  virtual void returnBuffer(TxBuffer* buffer) noexcept = 0;
};

/// Owns a TxBuffer. Dropping it releases the owners of its chunks and gives the buffer back.
class TxMessage {
 public:
  TxMessage() = default;
  explicit TxMessage(TxBuffer* buffer) : buffer_(buffer) {}
  TxMessage(TxMessage&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  TxMessage& operator=(TxMessage&& other) noexcept {
    if (this != &other) {
      reset();
      buffer_ = std::exchange(other.buffer_, nullptr);
    }
    return *this;
  }
  ~TxMessage() { reset(); }

  explicit operator bool() const { return buffer_ != nullptr; }
  TxBuffer& operator*() const { return *buffer_; }
  TxBuffer* operator->() const { return buffer_; }
  /// Gives up ownership, to the transport.
  TxBuffer* release() { return std::exchange(buffer_, nullptr); }

  /// Bytes of the whole message; UINT32_MAX stands for everything that long or longer.
  uint32_t messageBytes() const {
    uint64_t bytes = buffer_->head_bytes;
    for (uint32_t i = 0; i < buffer_->chunk_count; ++i) bytes += buffer_->chunks[i].bytes;
    return static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX));
  }
  uint32_t headRoom() const { return buffer_->head_capacity - buffer_->head_bytes; }
  bool hasChunkRoom() const { return buffer_->chunk_count < TxBuffer::kChunkCountMax; }

  /// Appends `bytes` writable bytes to the head and returns them; there is headRoom() for them (checked: lengths come
  /// from outside, and what stands behind the head belongs to others). Only before the first chunk.
  std::byte* extendHead(uint64_t bytes) {
    RC_CHECK(buffer_ != nullptr && bytes <= headRoom());
    RC_DCHECK(buffer_->chunk_count == 0);
    std::byte* at = buffer_->head + buffer_->head_bytes;
    buffer_->head_bytes += static_cast<uint32_t>(bytes);
    return at;
  }
  /// Appends a fixed struct to the head.
  template <Fixed T>
  void appendHead(const T& value) {
    storeAs(extendHead(sizeof(T)), value);
  }
  void appendHead(ByteSpan bytes) {
    if (!bytes.empty()) std::memcpy(extendHead(bytes.size()), bytes.data(), bytes.size());
  }
  /// Appends bytes to be sent from where they are; the caller has checked hasChunkRoom().
  void appendChunk(const Chunk& chunk) {
    RC_CHECK(hasChunkRoom());
    buffer_->chunks[buffer_->chunk_count++] = chunk;
  }
  /// Releases the owners of all chunks, once; the transport calls it when it has copied or sent the bytes.
  static void releaseChunks(TxBuffer& buffer) noexcept {
    for (uint32_t i = 0; i < buffer.chunk_count; ++i) {
      const Chunk& chunk = buffer.chunks[i];
      if (chunk.owner != nullptr) chunk.owner->releaseChunk(chunk.token);
    }
    buffer.chunk_count = 0;
  }

 private:
  void reset() noexcept {
    if (buffer_ == nullptr) return;
    releaseChunks(*buffer_);
    buffer_->pool->returnBuffer(buffer_);
    buffer_ = nullptr;
  }

  TxBuffer* buffer_ = nullptr;
};

/// A session of one endpoint. Never reused by that endpoint; 0 = none.
struct SessionId {
  uint32_t index = 0;
  uint32_t generation = 0;  ///< > 0 in a real one
  bool operator==(const SessionId&) const = default;
  explicit operator bool() const { return generation != 0; }
};

/// Where the answer to a request goes. Plain data: it may outlive the session, and the answer is then dropped.
struct ReplyTo {
  SessionId session;
  uint32_t sequence = 0;
  uint16_t slot = 0;
  uint32_t response_bytes_max = 0;
};

/// The owner of the bytes of a received message. It is told once, on any thread.
class RxOwner {
 public:
  virtual void releaseMessage(uint64_t token) noexcept = 0;

 protected:
  ~RxOwner() = default;
};

/// A complete received message. Its bytes belong to the endpoint and are borrowed: dropping the message gives them
/// back, on any thread. Messages held for long starve the receiver: copy what outlives the call.
///
/// The head (at least the sender's contiguous bytes, so fixed struct and key) is contiguous, 8-byte aligned and
/// private: no peer can change it after it was delivered. The tail may be several spans. On verbs, that of a long
/// answer is memory that the peer can still write: read each byte of it once.
class RxMessage {
 public:
  RxMessage() = default;
  RxMessage(ByteSpan head, std::span<const ByteSpan> tail, RxOwner* owner, uint64_t token)
      : head_(head), tail_(tail), owner_(owner), token_(token) {}
  RxMessage(RxMessage&& other) noexcept { *this = std::move(other); }
  RxMessage& operator=(RxMessage&& other) noexcept {
    if (this != &other) {
      reset();
      head_ = other.head_;
      tail_ = other.tail_;
      owner_ = std::exchange(other.owner_, nullptr);
      token_ = other.token_;
      reply_to = other.reply_to;
      priority = other.priority;
    }
    return *this;
  }
  ~RxMessage() { reset(); }

  ByteSpan head() const { return head_; }
  std::span<const ByteSpan> tail() const { return tail_; }
  uint32_t messageBytes() const {
    size_t bytes = head_.size();
    for (const ByteSpan& span : tail_) bytes += span.size();
    return static_cast<uint32_t>(bytes);
  }

  ReplyTo reply_to;  ///< in requests: where the answer goes
  runtime::Priority priority = runtime::Priority::Client;

 private:
  void reset() noexcept {
    if (owner_ != nullptr) std::exchange(owner_, nullptr)->releaseMessage(token_);
  }

  ByteSpan head_;
  std::span<const ByteSpan> tail_;
  RxOwner* owner_ = nullptr;
  uint64_t token_ = 0;
};

}  // namespace ramcore::transport
