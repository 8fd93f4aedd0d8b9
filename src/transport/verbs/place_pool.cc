#include "transport/verbs/place_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace ramcore::transport::verbs {
namespace {

constexpr uint32_t kPlaceBytesMin = 64 * 1024;
constexpr size_t kPageBytes = 4096;

}  // namespace

Place::~Place() {
  region.reset();
  std::free(bytes);
}

PlacePool::~PlacePool() { RC_CHECK_MSG(outstanding() == 0, "a received message outlives the endpoint that lent it"); }

std::unique_ptr<Place> PlacePool::take(uint32_t bytes, uint32_t tag) {
  const uint32_t capacity = std::bit_ceil(std::max(bytes, kPlaceBytesMin));
  {
    SpinGuard guard(lock_);
    for (std::unique_ptr<Place>& kept : free_) {
      if (kept->capacity != capacity || kept->tag != tag) continue;
      std::swap(kept, free_.back());
      std::unique_ptr<Place> place = std::move(free_.back());
      free_.pop_back();
      kept_bytes_ -= capacity;
      outstanding_.fetch_add(1, std::memory_order_relaxed);
      return place;
    }
  }
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, capacity));
  if (memory == nullptr) return nullptr;
  // The peer may read all of it, more than the message: what others left in this memory is not for it to see. Kept
  // places hold what the same session left.
  std::memset(memory, 0, capacity);
  auto place = std::make_unique<Place>(memory, capacity);
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  auto region = device_.registerMemory(memory, capacity, kAccess);
  if (!region.ok()) return nullptr;
  place->region = std::move(region).value();
  place->tag = tag;
  outstanding_.fetch_add(1, std::memory_order_relaxed);
  return place;
}

void PlacePool::admit(uint32_t tag) {
  SpinGuard guard(lock_);
  live_.insert(tag);
}

void PlacePool::forget(uint32_t tag) {
  std::vector<std::unique_ptr<Place>> gone;  // their regions end outside of the lock
  SpinGuard guard(lock_);
  live_.erase(tag);
  for (std::unique_ptr<Place>& kept : free_) {
    if (kept->tag != tag) continue;
    kept_bytes_ -= kept->capacity;
    gone.push_back(std::move(kept));
  }
  std::erase(free_, nullptr);
}

void PlacePool::drop(std::unique_ptr<Place> place) noexcept {
  {
    SpinGuard guard(lock_);
    if (kept_bytes_ + place->capacity <= kKeptBytesMax && live_.contains(place->tag)) {
      kept_bytes_ += place->capacity;
      free_.push_back(std::move(place));
    }
  }
  place.reset();
  // Last: whoever destroys the pool waits for zero.
  outstanding_.fetch_sub(1, std::memory_order_release);
}

RxMessage PlacePool::lend(std::unique_ptr<Place> place, uint32_t message_bytes, uint32_t head_bytes) {
  place->private_head.resize((head_bytes + 7) / 8);
  if (head_bytes != 0) std::memcpy(place->private_head.data(), place->bytes, head_bytes);
  place->tail[0] = ByteSpan(place->bytes + head_bytes, message_bytes - head_bytes);
  const ByteSpan head(reinterpret_cast<const std::byte*>(place->private_head.data()), head_bytes);
  const std::span<const ByteSpan> tail(place->tail.data(), message_bytes == head_bytes ? 0 : 1);
  return RxMessage(head, tail, this, reinterpret_cast<uint64_t>(place.release()));
}

void PlacePool::releaseMessage(uint64_t token) noexcept {
  drop(std::unique_ptr<Place>(reinterpret_cast<Place*>(token)));
}

}  // namespace ramcore::transport::verbs
