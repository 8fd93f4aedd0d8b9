#include "master/pinned/pinned_values.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/check.h"

namespace ramcore::master {
namespace {

// The largest part of the log's memory that may be pinned: most of it stays for writes.
constexpr uint64_t kShareMax = 8;

}  // namespace

// One chunk of one message. On the heap: values that are borrowed have more than 4 KB, beside which that does not
// count.
struct PinnedValues::Loan {
  runtime::PinToken pin;              // none for a copy
  std::unique_ptr<std::byte[]> copy;  // none for a pin
  uint64_t bytes = 0;
};

PinnedValues::PinnedValues(const PinningOptions& options, uint64_t memory_bytes, const log::LogStats& log,
                           runtime::PinRegistry& pins)
    : bytes_max_(std::min(options.pinned_bytes_max, memory_bytes / kShareMax)),
      region_(options.region),
      log_(log),
      pins_(pins) {}

PinnedValues::~PinnedValues() { RC_CHECK_MSG(!isBorrowed(), "a message shows values of a log that ends"); }

bool PinnedValues::isBorrowed() const { return stats_.pinned_bytes.load() != 0 || stats_.copied_bytes.load() != 0; }

// While nothing is taken, a value finds room however long it is.
bool PinnedValues::takeRoom(std::atomic<uint64_t>& used, uint64_t bytes, uint64_t bytes_max) {
  const uint64_t before = used.fetch_add(bytes, std::memory_order_relaxed);
  if (before == 0 || before + bytes <= bytes_max) return true;
  used.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

transport::Chunk PinnedValues::borrow(ByteSpan value, uint32_t pin_slot) {
  RC_DCHECK(!value.empty());
  // Earlier answers hold memory that has left the log, and give it back within the transport's time. Until then no
  // further answer pins any.
  const bool is_held_up = log_.pinned_bytes.load(std::memory_order_relaxed) > bytes_max_;
  if (is_held_up || !takeRoom(stats_.pinned_bytes, value.size(), bytes_max_)) return copyOf(value);
  stats_.values_borrowed.fetch_add(1, std::memory_order_relaxed);
  auto* loan = new Loan{.pin = pins_.takeToken(pin_slot), .copy = nullptr, .bytes = value.size()};
  return {.address = value.data(),
          .bytes = static_cast<uint32_t>(value.size()),
          .region = region_,
          .owner = this,
          .token = reinterpret_cast<uint64_t>(loan)};
}

transport::Chunk PinnedValues::copyOf(ByteSpan value) {
  if (!takeRoom(stats_.copied_bytes, value.size(), bytes_max_)) {
    stats_.refused.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  stats_.values_copied.fetch_add(1, std::memory_order_relaxed);
  auto* loan =
      new Loan{.pin = {}, .copy = std::make_unique_for_overwrite<std::byte[]>(value.size()), .bytes = value.size()};
  std::memcpy(loan->copy.get(), value.data(), value.size());
  return {.address = loan->copy.get(),
          .bytes = static_cast<uint32_t>(value.size()),
          .region = 0,
          .owner = this,
          .token = reinterpret_cast<uint64_t>(loan)};
}

bool PinnedValues::copyOut(transport::TxBuffer& message) {
  for (uint32_t i = 0; i < message.chunk_count; ++i) {
    transport::Chunk& chunk = message.chunks[i];
    if (chunk.owner != this || !reinterpret_cast<const Loan*>(chunk.token)->pin) continue;
    const transport::Chunk copy = copyOf(ByteSpan(chunk.address, chunk.bytes));
    if (copy.address == nullptr) return false;
    releaseChunk(chunk.token);
    chunk = copy;
  }
  return true;
}

void PinnedValues::releaseChunk(uint64_t token) noexcept {
  const std::unique_ptr<Loan> loan(reinterpret_cast<Loan*>(token));
  if (loan->pin) pins_.release(loan->pin);
  if (loan->pin) stats_.values_back.fetch_add(1, std::memory_order_relaxed);
  (loan->pin ? stats_.pinned_bytes : stats_.copied_bytes).fetch_sub(loan->bytes, std::memory_order_release);
}

}  // namespace ramcore::master
