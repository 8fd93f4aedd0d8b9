#pragma once

#include <cstdint>

#include "wire/message.h"

namespace ramcore::wire {

/// Messages longer than this are refused on every transport: 8 MB of payload plus room for headers.
inline constexpr uint32_t kMessageBytesMax = 8 * 1024 * 1024 + 64 * 1024;
/// The contiguous head of a message holds at most a fixed struct and one key.
inline constexpr uint32_t kHeadBytesMax = 72 * 1024;
inline constexpr uint16_t kSlotCountMax = 1024;

/// What a stream header announces.
enum class FrameKind : uint8_t {
  Request = 1,
  Response = 2,
  Close = 3,  ///< the sender will neither send nor answer any more; no message follows
};

/// The stream header, in front of every message on a stream or ring. It is readable before the message is parsed, so
/// that priority and slot do not depend on what the message means. Each stream header starts at a multiple of 8 bytes.
/// The message behind it is padded with zero bytes to a multiple of 8.
struct FrameHeader {
  uint32_t message_bytes;  ///< length of the message behind this header, padding excluded; <= the receiver's limit
  uint32_t head_bytes;     ///< leading bytes that the receiver hands over contiguous (fixed struct and key)
  uint32_t sequence;       ///< the slot's call number; a response has its request's. A wrong one is ignored (late copy)
  uint16_t slot;           ///< call slot, < the number agreed in the handshake; at most one call in flight on each
  FrameKind kind;
  uint8_t priority;             ///< in requests: runtime::Priority
  uint32_t response_bytes_max;  ///< in requests: the longest answer the caller takes
  uint32_t reserved;            ///< zero, verified

  /// The reader checks whether the call slot and the priority exist.
  constexpr bool isValid() const {
    const bool has_lengths =
        message_bytes <= kMessageBytesMax && head_bytes <= message_bytes && head_bytes <= kHeadBytesMax;
    const bool has_kind =
        kind == FrameKind::Request || kind == FrameKind::Response || (kind == FrameKind::Close && message_bytes == 0);
    return has_lengths && has_kind && reserved == 0;
  }
};
static_assert(Message<FrameHeader> && sizeof(FrameHeader) == 24);

/// Number of bytes that a message of `message_bytes` takes on a stream or ring, with its stream header and its padding.
constexpr uint64_t frameBytes(uint32_t message_bytes) { return sizeof(FrameHeader) + alignUp(message_bytes, 8); }

}  // namespace ramcore::wire
