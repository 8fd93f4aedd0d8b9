#include "transport/sim/sim_buffers.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/check.h"

namespace ramcore::transport {
namespace {

constexpr int kFreshByte = 0xA5;

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RC_SIM_BUFFERS_FRESH 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(RC_SIM_BUFFERS_FRESH)
constexpr size_t kKept = 0;
#else
constexpr size_t kKept = 1024;
#endif

}  // namespace

struct SimBufferPool::OwnedBuffer : TxBuffer {
  std::unique_ptr<std::byte[]> storage;
};

SimBufferPool::SimBufferPool() = default;

SimBufferPool::~SimBufferPool() { RC_CHECK_MSG(outstanding_ == 0, "a message outlived the simulated network"); }

TxBuffer* SimBufferPool::takeBuffer(uint32_t head_bytes) {
  std::unique_ptr<OwnedBuffer> buffer;
  if (free_.empty()) {
    buffer = std::make_unique<OwnedBuffer>();
  } else {
    buffer = std::move(free_.back());
    free_.pop_back();
  }
  const auto capacity = static_cast<uint32_t>(alignUp(std::max(head_bytes, TxBuffer::kHeadBytesMin), 8));
  buffer->storage = std::make_unique_for_overwrite<std::byte[]>(TxBuffer::kHeaderRoomBytes + capacity);
  std::memset(buffer->storage.get(), kFreshByte, TxBuffer::kHeaderRoomBytes + capacity);
  buffer->pool = this;
  buffer->head = buffer->storage.get() + TxBuffer::kHeaderRoomBytes;
  buffer->head_capacity = capacity;
  ++outstanding_;
  return buffer.release();
}

void SimBufferPool::returnBuffer(TxBuffer* buffer) noexcept {
  --outstanding_;
  std::unique_ptr<OwnedBuffer> owned(static_cast<OwnedBuffer*>(buffer));
  owned->storage.reset();
  if (free_.size() >= kKept) return;
  // As new; chunks behind their count mean nothing.
  owned->next = nullptr;
  owned->head = nullptr;
  owned->head_capacity = 0;
  owned->head_bytes = 0;
  owned->contiguous_bytes = 0;
  owned->chunk_count = 0;
  owned->region = 0;
  free_.push_back(std::move(owned));
}

}  // namespace ramcore::transport
