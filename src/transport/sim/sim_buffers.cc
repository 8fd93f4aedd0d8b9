#include "transport/sim/sim_buffers.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/check.h"

namespace ramcore::transport {
namespace {

constexpr int kFreshByte = 0xA5;

struct OwnedBuffer : TxBuffer {
  std::unique_ptr<std::byte[]> storage;
};

}  // namespace

SimBufferPool::~SimBufferPool() { RC_CHECK_MSG(outstanding_ == 0, "a message outlived the simulated network"); }

TxBuffer* SimBufferPool::takeBuffer(uint32_t head_bytes) {
  auto buffer = std::make_unique<OwnedBuffer>();
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
  delete static_cast<OwnedBuffer*>(buffer);
}

}  // namespace ramcore::transport
