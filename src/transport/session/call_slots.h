#pragma once

#include <vector>

#include "transport/transport.h"

namespace ramcore::transport {

/// The calls of one session that wait for an answer: at most one a slot. One thread.
class CallSlots {
 public:
  explicit CallSlots(uint16_t slot_count) : slots_(slot_count) {
    free_.reserve(slot_count);
    for (uint16_t slot = slot_count; slot > 0; --slot) free_.push_back(slot - 1);
  }

  uint16_t slotCount() const { return static_cast<uint16_t>(slots_.size()); }
  bool isFull() const { return free_.empty(); }
  /// The sequence that the next call will have. 0: all numbers of its slot are used, and begin again.
  uint32_t nextSequence() const { return slots_[free_.back()].sequence + 1; }
  /// Takes a free slot (checked) for `call` and writes slot and sequence into it.
  void begin(PendingCall& call) {
    RC_CHECK(!free_.empty() && !call.in_flight);
    const uint16_t number = free_.back();
    free_.pop_back();
    Slot& slot = slots_[number];
    slot.call = &call;
    slot.is_taken = true;
    call.slot = number;
    call.sequence = ++slot.sequence;
    call.in_flight = true;
  }
  /// Frees the slot of an answer. Returns the call that waits for it; nullptr if none does: it was abandoned, or the
  /// answer belongs to nothing that was asked.
  PendingCall* finish(uint16_t number, uint32_t sequence) {
    Slot& slot = slots_[number];
    if (!slot.is_taken || slot.sequence != sequence) return nullptr;
    slot.is_taken = false;
    free_.push_back(number);
    return detach(slot);
  }
  /// Whether an answer to this call may still come, wanted or not.
  bool isOut(uint16_t number, uint32_t sequence) const {
    return slots_[number].is_taken && slots_[number].sequence == sequence;
  }
  /// The caller no longer waits; the slot stays taken.
  void abandon(PendingCall& call) {
    if (!call.in_flight) return;
    Slot& slot = slots_[call.slot];
    RC_CHECK(slot.call == &call);
    detach(slot);
  }
  /// Any call that still waits, taken out of its slot, or nullptr: for the end of a session.
  PendingCall* takeAny() {
    for (; next_to_take_ < slots_.size(); ++next_to_take_) {
      if (PendingCall* call = detach(slots_[next_to_take_]); call != nullptr) return call;
    }
    return nullptr;
  }

 private:
  struct Slot {
    PendingCall* call = nullptr;
    uint32_t sequence = 0;
    bool is_taken = false;
  };

  static PendingCall* detach(Slot& slot) {
    PendingCall* call = std::exchange(slot.call, nullptr);
    if (call != nullptr) call->in_flight = false;
    return call;
  }

  std::vector<Slot> slots_;
  std::vector<uint16_t> free_;
  size_t next_to_take_ = 0;
};

/// The requests of one session that were delivered and not answered: at most one a slot, so that a peer that does not
/// wait for answers cannot make the receiver hold more than its slots. One thread.
class RequestSlots {
 public:
  explicit RequestSlots(uint16_t slot_count) : slots_(slot_count) {}

  /// False if the slot is taken: the peer broke the rule.
  bool begin(uint16_t number, uint32_t sequence) {
    Slot& slot = slots_[number];
    if (slot.is_taken) return false;
    slot = Slot{sequence, true};
    return true;
  }
  /// False if no such request waits for an answer.
  bool finish(uint16_t number, uint32_t sequence) {
    if (number >= slots_.size() || !slots_[number].is_taken || slots_[number].sequence != sequence) return false;
    slots_[number].is_taken = false;
    return true;
  }

 private:
  struct Slot {
    uint32_t sequence = 0;
    bool is_taken = false;
  };
  std::vector<Slot> slots_;
};

}  // namespace ramcore::transport
