#include "runtime/pins.h"

#include <algorithm>

#include "base/check.h"

namespace ramcore::runtime {

Pin& Pin::operator=(Pin&& other) noexcept {
  if (this != &other) {
    reset();
    registry_ = other.registry_;
    token_ = std::exchange(other.token_, PinToken{});
  }
  return *this;
}

void Pin::reset() {
  if (token_) registry_->release(std::exchange(token_, PinToken{}));
}

PinRegistry::PinRegistry(uint32_t slot_count) : slots_(slot_count) {
  RC_CHECK(slot_count >= 1 && slot_count <= kSlotsMax);
}

PinRegistry::~PinRegistry() { RC_CHECK_MSG(outstanding() == 0, "a pin was not given back"); }

PinToken PinRegistry::takeToken(uint32_t slot) {
  RC_DCHECK(slot < slots_.size());
  // Between this load and the increment the epoch may move on, even by a whole window, so that the pin is counted in
  // the cell of a later epoch. That is safe: the caller is inside a read section. Before the reclaimer asks about
  // memory that was found there, it waits for a grace period, which ends after the section, and then calls `advance`:
  // the epoch that this returns covers every cell of the window.
  const uint64_t epoch = epoch_.load(std::memory_order_acquire);
  const uint32_t before = slots_[slot].counts[epoch % kEpochsOpen].fetch_add(1, std::memory_order_relaxed);
  RC_DCHECK(before != UINT32_MAX);
  static_cast<void>(before);
  PinToken token;
  token.epoch = epoch;
  token.slot = slot;
  return token;
}

void PinRegistry::release(PinToken token) {
  RC_CHECK(token && token.slot < slots_.size());
  // Release: the holder has read the memory before a thread that sees the zero uses it again.
  const uint32_t before = slots_[token.slot].counts[token.epoch % kEpochsOpen].fetch_sub(1, std::memory_order_release);
  RC_CHECK_MSG(before > 0, "a pin was given back twice");
}

uint64_t PinRegistry::outIn(uint64_t epoch) const {
  uint64_t out = 0;
  for (const Slot& slot : slots_) out += slot.counts[epoch % kEpochsOpen].load(std::memory_order_acquire);
  return out;
}

uint64_t PinRegistry::oldestOpen() const {
  const uint64_t now = epoch_.load(std::memory_order_relaxed);
  return now < kEpochsOpen ? 1 : now - kEpochsOpen + 1;
}

std::optional<uint64_t> PinRegistry::advance(uint64_t now_ns) {
  const uint64_t ended = epoch_.load(std::memory_order_relaxed);
  const uint64_t next = ended + 1;
  // The next epoch takes over the cell of the oldest one.
  if (outIn(next) != 0) return std::nullopt;
  began_ns_[next % kEpochsOpen] = now_ns;
  epoch_.store(next, std::memory_order_release);
  return ended;
}

bool PinRegistry::quiesced(uint64_t epoch) const {
  const uint64_t last = std::min(epoch, epoch_.load(std::memory_order_relaxed));
  for (uint64_t open = oldestOpen(); open <= last; ++open) {
    if (outIn(open) != 0) return false;
  }
  return true;
}

uint64_t PinRegistry::oldestAgeNs(uint64_t now_ns) const {
  const uint64_t now = epoch_.load(std::memory_order_relaxed);
  for (uint64_t open = oldestOpen(); open <= now; ++open) {
    if (outIn(open) != 0) return now_ns - std::min(now_ns, began_ns_[open % kEpochsOpen]);
  }
  return 0;
}

uint64_t PinRegistry::outstanding() const {
  uint64_t out = 0;
  for (const Slot& slot : slots_) {
    for (const auto& count : slot.counts) out += count.load(std::memory_order_acquire);
  }
  return out;
}

}  // namespace ramcore::runtime
