#include "transport/memory/tx_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace ramcore::transport {
namespace {

constexpr size_t kPlainHeadOffset = sizeof(TxBuffer) + TxBuffer::kHeaderRoomBytes;
static_assert(kPlainHeadOffset % 8 == 0);

}  // namespace

TxPool::~TxPool() {
  for (HeadList& list : home_lists_) list.freeAll();
  SpinGuard guard(lock_);
  for (HeadList& list : shared_lists_) list.freeAll();
}

uint32_t TxPool::classOf(uint32_t capacity) {
  return static_cast<uint32_t>(std::bit_width(capacity - 1)) - kSmallestClassBits;
}

TxBuffer* TxPool::makeBuffer(uint32_t head_capacity) {
  void* memory = std::malloc(kPlainHeadOffset + head_capacity);
  RC_CHECK_MSG(memory != nullptr, "out of memory for messages");
  return HeadList::make(*this, memory, kPlainHeadOffset, head_capacity);
}

TxBuffer* TxPool::takeBuffer(uint32_t head_bytes) {
  const uint32_t wanted = std::max(head_bytes, TxBuffer::kHeadBytesMin);
  if (wanted > kPooledBytesMax) return makeBuffer(static_cast<uint32_t>(alignUp(wanted, 8)));
  const uint32_t size_class = classOf(wanted);
  TxBuffer* buffer = nullptr;
  if (home_.isHere()) buffer = home_lists_[size_class].pop();
  if (buffer == nullptr) {
    SpinGuard guard(lock_);
    buffer = shared_lists_[size_class].pop();
  }
  if (buffer == nullptr) return makeBuffer(TxBuffer::kHeadBytesMin << size_class);
  HeadList::clear(*buffer);
  return buffer;
}

void TxPool::returnBuffer(TxBuffer* buffer) noexcept {
  if (buffer->head_capacity <= kPooledBytesMax) {
    const uint32_t size_class = classOf(buffer->head_capacity);
    if (home_.isHere() && home_lists_[size_class].push(buffer, kKeptMax)) return;
    SpinGuard guard(lock_);
    if (shared_lists_[size_class].push(buffer, kKeptMax)) return;
  }
  std::free(buffer);
}

}  // namespace ramcore::transport
