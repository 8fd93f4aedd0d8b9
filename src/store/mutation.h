#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/status.h"
#include "store/durability.h"
#include "wire/master_messages.h"

namespace ramcore::store {

/// A mutating call; borrows key and value until apply() has returned.
struct Mutation {
  wire::Opcode opcode{};  ///< Write, Remove or Increment
  wire::CallIdentity identity;
  TabletEpoch epoch;
  TableId table;
  KeyHash hash = 0;
  ByteSpan key;
  std::span<const ByteSpan> value;  ///< what a write stores
  int64_t delta = 0;                ///< what an increment adds
  wire::Condition condition = wire::Condition::None;
  Version condition_version = 0;
  /// The caller has seen that the hash has arrived, under this epoch. ArrivingRange forgets some.
  bool has_waited = false;

  /// True: it does the same whether the key exists or not, and answers nothing of what was there.
  bool isBlind() const { return opcode == wire::Opcode::Write && condition == wire::Condition::None; }
};

/// The answer of a call, and how far the log must be before the answer may be given.
struct Answer {
  Status status = Status::Ok;
  Version version = 0;
  int64_t value = 0;          ///< of an increment
  ShowAfter show_after = {};  ///< nothing in the answer is younger than this
  bool is_duplicate = false;  ///< answered from the record of an earlier run
  bool lacks_room = false;    ///< RetryLater, because the log had no room: it will have some soon
  /// RetryLater, because it is not known whether the key exists: the tablet is Arriving, and this key has not arrived.
  bool awaits_arrival = false;
  /// RetryLater, because the tablet is Frozen: another server is about to own it, or this one goes on soon.
  bool awaits_hand_over = false;
};

/// Whether a thread waits for the stripe of a key, or gives up if another thread has it.
enum class Locking : uint8_t { Wait, Try };

}  // namespace ramcore::store
