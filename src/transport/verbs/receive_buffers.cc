#include "transport/verbs/receive_buffers.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace ramcore::transport::verbs {

ReceiveBuffers::ReceiveBuffers(const Device& device, uint32_t count_max, std::function<void()> wake)
    : device_(device), count_max_(std::min(count_max, device.limits().receive_buffers)), wake_(std::move(wake)) {}

ReceiveBuffers::~ReceiveBuffers() {
  RC_CHECK_MSG(outstanding() == 0, "a received message outlives the endpoint that borrowed it");
  queue_.reset();
  for (Slab& slab : slabs_) {
    slab.region.reset();
    std::free(slab.base);
  }
}

Outcome<bool> ReceiveBuffers::open() {
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = count_max_;
  attributes.attr.max_sge = 1;
  queue_.reset(count_max_ == 0 ? nullptr : ibv_create_srq(device_.domain(), &attributes));
  if (queue_ == nullptr) {
    return Failure{Status::IoError, "RDMA device " + device_.name() + " gives no shared receive queue of " +
                                        std::to_string(count_max_) + " buffers: " + std::strerror(errno)};
  }
  return true;
}

Outcome<bool> ReceiveBuffers::want(uint32_t count) {
  Failure failure;
  while (count_ < std::min(count, count_max_)) {
    if (!addSlab(failure)) return failure;
  }
  post();
  return true;
}

bool ReceiveBuffers::addSlab(Failure& failure) {
  const uint32_t count = std::min(kSlabBuffers, count_max_ - count_);
  const size_t bytes = (size_t{count} * kBytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  auto* const base = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, bytes));
  RC_CHECK_MSG(base != nullptr, "out of memory for received messages");
  auto region = device_.registerMemory(base, bytes, IBV_ACCESS_LOCAL_WRITE);
  if (!region.ok()) {
    std::free(base);
    failure = region.error();
    return false;
  }
  for (uint32_t i = 0; i < count; ++i) {
    buffers_.push_back(ReceiveBuffer{base + size_t{i} * kBytes, (*region)->lkey});
    free_.push_back(&buffers_.back());
  }
  slabs_.push_back(Slab{base, std::move(region).value()});
  count_ += count;
  registered_bytes_ += bytes;
  return true;
}

void ReceiveBuffers::takeReturned() {
  if (returned_count_.load(std::memory_order_relaxed) == 0) return;
  SpinGuard guard(lock_);
  free_.insert(free_.end(), returned_.begin(), returned_.end());
  returned_.clear();
  returned_count_.store(0, std::memory_order_relaxed);
}

void ReceiveBuffers::post() {
  takeReturned();
  // Few at a time would cost a doorbell each; while enough buffers are posted no sender waits.
  if (free_.empty() || (free_.size() < kPostAtOnce && posted_ >= count_ / 2)) return;
  std::array<ibv_recv_wr, kPostAtOnce> requests;
  std::array<ibv_sge, kPostAtOnce> pieces;
  while (!free_.empty()) {
    const size_t count = std::min<size_t>(free_.size(), kPostAtOnce);
    for (size_t i = 0; i < count; ++i) {
      ReceiveBuffer* const buffer = free_[free_.size() - 1 - i];
      pieces[i] = {reinterpret_cast<uint64_t>(buffer->bytes), kBytes, buffer->key};
      requests[i] = {};
      requests[i].wr_id = reinterpret_cast<uint64_t>(buffer);
      requests[i].next = i + 1 < count ? &requests[i + 1] : nullptr;
      requests[i].sg_list = &pieces[i];
      requests[i].num_sge = 1;
    }
    ibv_recv_wr* refused = nullptr;
    const int error = ibv_post_srq_recv(queue_.get(), requests.data(), &refused);
    const auto taken = error == 0 ? count : static_cast<size_t>(refused - requests.data());
    free_.resize(free_.size() - taken);
    posted_ += static_cast<uint32_t>(taken);
    if (error != 0) break;  // tried again with the next round
  }
  is_waiting_.store(isShort(), std::memory_order_seq_cst);
}

RxMessage ReceiveBuffers::borrow(ReceiveBuffer& buffer, uint32_t skip, uint32_t message_bytes) {
  const ByteSpan bytes(buffer.bytes + skip, message_bytes);
  if (isShort()) [[unlikely]] {
    RxMessage copy = borrowCopy(bytes);
    recycle(buffer);
    return copy;
  }
  outstanding_.fetch_add(1, std::memory_order_relaxed);
  return RxMessage(bytes, {}, this, reinterpret_cast<uint64_t>(&buffer));
}

RxMessage ReceiveBuffers::borrowCopy(ByteSpan bytes) {
  // The length of a copy stands in front of it.
  auto* const copy = static_cast<uint64_t*>(std::malloc(sizeof(uint64_t) + bytes.size()));
  RC_CHECK_MSG(copy != nullptr, "out of memory for received messages");
  *copy = bytes.size();
  if (!bytes.empty()) std::memcpy(copy + 1, bytes.data(), bytes.size());
  outstanding_.fetch_add(1, std::memory_order_relaxed);
  copied_bytes_.fetch_add(bytes.size(), std::memory_order_relaxed);
  return RxMessage(ByteSpan(reinterpret_cast<const std::byte*>(copy + 1), bytes.size()), {}, &heap_,
                   reinterpret_cast<uint64_t>(copy));
}

void ReceiveBuffers::HeapMessages::releaseMessage(uint64_t token) noexcept {
  auto* const copy = reinterpret_cast<uint64_t*>(token);
  buffers_.copied_bytes_.fetch_sub(*copy, std::memory_order_relaxed);
  std::free(copy);
  buffers_.outstanding_.fetch_sub(1, std::memory_order_release);
}

void ReceiveBuffers::releaseMessage(uint64_t token) noexcept {
  {
    SpinGuard guard(lock_);
    returned_.push_back(reinterpret_cast<ReceiveBuffer*>(token));
    returned_count_.store(static_cast<uint32_t>(returned_.size()), std::memory_order_relaxed);
  }
  if (is_waiting_.exchange(false, std::memory_order_seq_cst)) wake_();
  // This comes last: the endpoint may be destroyed as soon as the count is zero.
  outstanding_.fetch_sub(1, std::memory_order_release);
}

}  // namespace ramcore::transport::verbs
