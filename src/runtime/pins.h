#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace ramcore::runtime {

/// What the holder of a pin gives back: small enough to be the token of a transport's chunk.
struct PinToken {
  uint64_t epoch : 48 = 0;  // 0 = no pin
  uint64_t slot : 16 = 0;

  constexpr explicit operator bool() const { return epoch != 0; }
  constexpr uint64_t toU64() const { return static_cast<uint64_t>(slot) << 48 | epoch; }
  static constexpr PinToken fromU64(uint64_t raw) {
    PinToken token;
    token.epoch = raw & ((uint64_t{1} << 48) - 1);
    token.slot = raw >> 48;
    return token;
  }
};

class PinRegistry;

/// A pin that is given back at the end of a scope. Movable.
class Pin {
 public:
  Pin() = default;
  Pin(PinRegistry& registry, PinToken token) : registry_(&registry), token_(token) {}
  Pin(Pin&& other) noexcept : registry_(other.registry_), token_(std::exchange(other.token_, PinToken{})) {}
  Pin& operator=(Pin&& other) noexcept;
  ~Pin() { reset(); }

  explicit operator bool() const { return static_cast<bool>(token_); }
  /// Gives the pin back now.
  void reset();
  /// Passes the duty to give the pin back to the holder of the returned token.
  [[nodiscard]] PinToken detach() { return std::exchange(token_, PinToken{}); }

 private:
  PinRegistry* registry_ = nullptr;
  PinToken token_;
};

/// Long pins: keep log memory readable past the end of a read section, for responses and replica writes in
/// transmission. A pin names no memory: it carries the number of the epoch it was taken in, and memory unlinked before
/// the end of an epoch is kept until all pins of that epoch and of earlier ones are back.
///
/// Order in which memory is freed (each step needs the one before):
///   1. unlink it: no lookup finds it any more;
///   2. wait for a grace period (Rcu): a reader that found it earlier has taken its pin by now, or will take none;
///   3. `epoch = advance(now)`: every pin on it has this epoch or an earlier one;
///   4. when `quiesced(epoch)`: free it.
/// The grace period comes first because of the reader that found the memory, was interrupted, and takes its pin after
/// the epoch moved on.
///
/// Counts are per slot (one per thread or executor, a cache line each) and epoch; nothing is shared on the way of a
/// request. A window of `kEpochsOpen` epochs is counted; `advance` refuses to overrun a pin that is older.
class PinRegistry {
 public:
  static constexpr uint32_t kEpochsOpen = 16;
  static constexpr uint32_t kSlotsMax = 1 << 10;

  /// @param slot_count  1..kSlotsMax
  explicit PinRegistry(uint32_t slot_count);
  PinRegistry(const PinRegistry&) = delete;
  PinRegistry& operator=(const PinRegistry&) = delete;
  /// All pins are back (checked).
  ~PinRegistry();

  /// Takes a pin for `slot`. Called inside the read section in which the memory was found. Any thread, best the one
  /// whose slot it is. One uncontended locked instruction.
  [[nodiscard]] Pin take(uint32_t slot) { return Pin(*this, takeToken(slot)); }
  [[nodiscard]] PinToken takeToken(uint32_t slot);
  /// Gives a pin back: exactly once, from any thread.
  void release(PinToken token);

  /// Ends the current epoch and returns its number, or nothing when a pin is `kEpochsOpen` - 1 epochs old: try again
  /// later. Thread: the reclaimer only.
  /// @param now_ns  any monotonic clock; for `oldestAgeNs`
  std::optional<uint64_t> advance(uint64_t now_ns);
  /// True if no pin of `epoch` or an earlier one is out. Final for an epoch returned by `advance` when the order above
  /// was kept. Thread: the reclaimer only. Cost: one cache line per slot.
  bool quiesced(uint64_t epoch) const;

  uint64_t epoch() const { return epoch_.load(std::memory_order_relaxed); }
  /// How long ago, at most, the oldest pin that is out was taken; 0 if none is. Thread: the reclaimer only.
  uint64_t oldestAgeNs(uint64_t now_ns) const;
  /// Pins out now; exact while no thread takes pins or gives them back. Any thread.
  uint64_t outstanding() const;

 private:
  struct alignas(64) Slot {
    std::array<std::atomic<uint32_t>, kEpochsOpen> counts{};
  };

  uint64_t outIn(uint64_t epoch) const;
  uint64_t oldestOpen() const;

  alignas(64) std::atomic<uint64_t> epoch_{1};
  alignas(64) std::vector<Slot> slots_;
  std::array<uint64_t, kEpochsOpen> began_ns_{};  // the reclaimer's own
};

}  // namespace ramcore::runtime
