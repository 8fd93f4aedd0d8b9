#pragma once

#include <array>
#include <cstdint>

#include "base/check.h"

namespace ramcore::log {

/// The reservations of the log head that are being filled outside the log's lock, in log order. The committed prefix of
/// the head ends before the oldest reservation that is not filled yet, so a group that was appended behind it waits in
/// the ring as well. Every call is made under the log's lock.
class CommitRing {
 public:
  static constexpr uint32_t kReservationsMax = 64;

  bool empty() const { return first_ == next_; }
  bool full() const { return next_ - first_ == kReservationsMax; }

  /// @param end  logical offset behind the reservation
  /// @return its number, for `finish`
  uint32_t reserve(uint32_t end) {
    RC_CHECK(!full());
    slots_[next_ % kReservationsMax] = {end, false};
    return next_++;
  }
  /// Adds a group whose bytes are already in place but which lies behind open reservations. The ring is not empty
  /// (checked).
  /// @return false: the ring is full
  bool append(uint32_t end) {
    RC_CHECK(!empty());
    Slot& last = slots_[(next_ - 1) % kReservationsMax];
    if (last.filled) {
      last.end = end;  // one slot for a run of filled ones: small appends do not exhaust the ring
      return true;
    }
    if (full()) return false;
    slots_[next_++ % kReservationsMax] = {end, true};
    return true;
  }
  /// Marks a reservation filled. Returns the new end of the committed prefix, or 0 if it did not move.
  uint32_t finish(uint32_t number) {
    slots_[number % kReservationsMax].filled = true;
    uint32_t committed = 0;
    while (!empty() && slots_[first_ % kReservationsMax].filled) committed = slots_[first_++ % kReservationsMax].end;
    return committed;
  }

 private:
  struct Slot {
    uint32_t end = 0;
    bool filled = false;
  };
  std::array<Slot, kReservationsMax> slots_;
  uint32_t first_ = 0;  // wraps; numbers are compared by difference only
  uint32_t next_ = 0;
};

}  // namespace ramcore::log
