#pragma once

#include "base/bytes.h"
#include "base/ids.h"
#include "base/status.h"
#include "wire/message.h"
#include "wire/opcodes.h"

namespace ramcore::wire {

/// First in every request.
struct RequestHeader {
  Opcode opcode;
  uint16_t reserved16 = 0;  ///< zero, verified
  uint32_t reserved32 = 0;  ///< zero, verified
  ServerId target;          ///< the incarnation that is meant; another one answers WrongServerId. 0: none in particular

  constexpr bool isValid() const { return reserved16 == 0 && reserved32 == 0; }
};
static_assert(Message<RequestHeader> && sizeof(RequestHeader) == 16);

/// First in every response. Whatever follows is there only if the opcode's description says so for this status.
struct ResponseHeader {
  Status status;
  uint16_t reserved = 0;
  uint32_t retry_after_us = 0;  ///< with a retryable status: the earliest time at which repeating makes sense

  /// The reader checks whether the status is known.
  constexpr bool isValid() const { return reserved == 0; }
};
static_assert(Message<ResponseHeader> && sizeof(ResponseHeader) == 8);

/// In every mutating request: which call of which client this is, so that a repeated one is answered and not repeated.
struct CallIdentity {
  ClientId client;
  Sequence sequence;      ///< unique for the client, ever growing; in a multi-operation each part has its own
  Sequence acknowledged;  ///< the client has the answers of all calls up to this one: their result records may go
};
static_assert(Fixed<CallIdentity> && sizeof(CallIdentity) == 24);

/// Walks over received bytes; every step checks what is left. After the first failure, also of a message that is not
/// valid, everything fails.
class Cursor {
 public:
  explicit Cursor(ByteSpan bytes) : rest_(bytes) {}
  template <Message T>
  [[nodiscard]] bool take(T& out) {
    ByteSpan bytes;
    if (!takeBytes(sizeof(T), bytes)) return false;
    out = loadAs<T>(bytes.data());
    return out.isValid() || fail();
  }
  [[nodiscard]] bool takeBytes(size_t count, ByteSpan& out) {
    if (count > rest_.size()) return fail();
    out = rest_.first(count);
    rest_ = rest_.subspan(count);
    return !failed_;
  }
  /// Skips the padding of an item of `item_bytes` to a multiple of 8.
  [[nodiscard]] bool takePadding(size_t item_bytes) {
    ByteSpan padding;
    return takeBytes(alignUp(item_bytes, 8) - item_bytes, padding);
  }
  bool atEnd() const { return !failed_ && rest_.empty(); }
  ByteSpan rest() const { return rest_; }

 private:
  bool fail() {
    rest_ = {};
    failed_ = true;
    return false;
  }

  ByteSpan rest_;
  bool failed_ = false;
};

}  // namespace ramcore::wire
