#include "transport/verbs/place_pool.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace ramcore::transport::verbs {
namespace {

constexpr uint32_t kPlaceBytesMin = 64 * 1024;

}  // namespace

Place::~Place() {
  window.reset();
  // Memory that the device does not give up is not freed: a peer may still reach it.
  if (region != nullptr && ibv_dereg_mr(region.release()) != 0) return;
  std::free(bytes);
}

PlacePool::~PlacePool() {
  RC_CHECK_MSG(outstanding() == 0, "a received message outlives the endpoint that borrowed it");
}

Outcome<std::shared_ptr<Place>> PlacePool::take(uint32_t bytes, uint32_t tag) {
  const uint32_t capacity = std::bit_ceil(std::max(bytes, kPlaceBytesMin));
  {
    SpinGuard guard(lock_);
    for (std::shared_ptr<Place>& kept : free_) {
      if (kept->capacity != capacity || kept->tag != tag) continue;
      std::swap(kept, free_.back());
      std::shared_ptr<Place> place = std::move(free_.back());
      free_.pop_back();
      kept_bytes_ -= capacity;
      outstanding_.fetch_add(1, std::memory_order_relaxed);
      return place;
    }
  }
  auto made = make(capacity, tag);
  if (!made.ok()) return made;
  const std::shared_ptr<Place>& place = *made;
  SpinGuard guard(lock_);
  const auto session = live_.find(tag);
  RC_CHECK_MSG(session != live_.end(), "a place for a session that has ended");
  session->second.push_back(place);
  outstanding_.fetch_add(1, std::memory_order_relaxed);
  return made;
}

Outcome<std::shared_ptr<Place>> PlacePool::make(uint32_t capacity, uint32_t tag) const {
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, capacity));
  if (memory == nullptr) return Failure{Status::NoSpace, "there is no memory"};
  // The peer may read all of the place, which is more than the message, and must not see what this memory held before.
  // Places that are kept need no clearing: they hold what the same session left.
  std::memset(memory, 0, capacity);
  auto place = std::make_shared<Place>(memory, capacity);
  place->tag = tag;
  const int access =
      IBV_ACCESS_LOCAL_WRITE | (uses_windows_ ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
  auto region = device_.registerMemory(memory, capacity, access);
  if (!region.ok()) return std::move(region).error();
  place->region = std::move(region).value();
  if (!uses_windows_) {
    place->key = place->region->rkey;
    place->is_open = true;
    return place;
  }
  place->window = device_.makeWindow();
  if (place->window == nullptr) {
    return Failure{Status::NoSpace, "RDMA device " + device_.name() + " gives no memory window: " +
                                        std::strerror(errno) + "; it has as many as 'ibv_devinfo -v' says (max_mw)"};
  }
  // The lowest byte of a window's key is ours to choose, and has to change with each binding.
  place->key = ibv_inc_rkey(place->window->rkey);
  return place;
}

void PlacePool::admit(uint32_t tag) {
  SpinGuard guard(lock_);
  live_[tag];
}

void PlacePool::forget(uint32_t tag) {
  std::vector<std::shared_ptr<Place>> gone;  // their regions end outside of the lock
  {
    SpinGuard guard(lock_);
    if (const auto session = live_.find(tag); session != live_.end()) {
      gone = std::move(session->second);
      live_.erase(session);
    }
    for (std::shared_ptr<Place>& kept : free_) {
      if (kept->tag != tag) continue;
      kept_bytes_ -= kept->capacity;
      kept.reset();
    }
    std::erase(free_, nullptr);
  }
  // A thread that drops one of these meanwhile leaves its window alone, and does not hold the last reference.
  for (const std::shared_ptr<Place>& place : gone) place->window.reset();
}

void PlacePool::drop(std::shared_ptr<Place> place) noexcept {
  {
    SpinGuard guard(lock_);
    const auto session = live_.find(place->tag);
    if (session != live_.end() && kept_bytes_ + place->capacity <= kKeptBytesMax) {
      kept_bytes_ += place->capacity;
      free_.push_back(std::move(place));
    } else if (session != live_.end()) {
      // forget() does not see this place any more, and its window has to go before the queue pair does.
      place->window.reset();
      std::erase(session->second, place);
    }
  }
  place.reset();
  // This comes last: the pool may be destroyed as soon as the count is zero.
  outstanding_.fetch_sub(1, std::memory_order_release);
}

RxMessage PlacePool::borrow(std::shared_ptr<Place> place, uint32_t message_bytes, uint32_t head_bytes) {
  place->private_head.resize((head_bytes + 7) / 8);
  if (head_bytes != 0) std::memcpy(place->private_head.data(), place->bytes, head_bytes);
  place->tail[0] = ByteSpan(place->bytes + head_bytes, message_bytes - head_bytes);
  const ByteSpan head(reinterpret_cast<const std::byte*>(place->private_head.data()), head_bytes);
  const std::span<const ByteSpan> tail(place->tail.data(), message_bytes == head_bytes ? 0 : 1);
  Place& itself = *place;
  itself.borrowed = std::move(place);
  return RxMessage(head, tail, this, reinterpret_cast<uint64_t>(&itself));
}

void PlacePool::releaseMessage(uint64_t token) noexcept { drop(std::move(reinterpret_cast<Place*>(token)->borrowed)); }

}  // namespace ramcore::transport::verbs
