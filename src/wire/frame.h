#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace ramcore::wire {

/// What a frame on a stream, ring or datagram carries.
enum class FrameKind : uint8_t {
  Request = 1,
  Response = 2,
  Close = 3,  ///< the sender will neither send nor answer any more; no message follows
};

/// In front of every message, on every transport. Readable before the message is parsed, so that priority and slot do
/// not depend on what the message means. On streams and rings each frame starts at a multiple of 8 bytes; the message
/// behind the header is padded with zero bytes to a multiple of 8.
struct FrameHeader {
  uint32_t message_bytes;  ///< that follow this header, padding excluded; <= the receiver's limit
  uint32_t head_bytes;     ///< leading bytes that the receiver hands over contiguous (fixed struct and key)
  uint32_t sequence;       ///< of the slot; a response carries its request's. A wrong one is ignored (late copy)
  uint16_t slot;           ///< < the slots agreed in the handshake; at most one call in flight on each
  FrameKind kind;
  uint8_t priority;             ///< runtime::Priority; of requests
  uint32_t response_bytes_max;  ///< of requests: the longest answer the caller takes
  uint32_t reserved;            ///< zero, verified
};
static_assert(Fixed<FrameHeader> && sizeof(FrameHeader) == 24);

/// Messages longer than this are refused on every transport: 8 MB of payload plus room for headers.
inline constexpr uint32_t kMessageBytesMax = 8 * 1024 * 1024 + 64 * 1024;
/// The contiguous head of a message holds at most a fixed struct and one key.
inline constexpr uint32_t kHeadBytesMax = 72 * 1024;
inline constexpr uint16_t kSlotCountMax = 1024;

/// Number of bytes a frame with a message of `message_bytes` takes on a stream or ring.
constexpr uint64_t frameBytes(uint32_t message_bytes) { return sizeof(FrameHeader) + alignUp(message_bytes, 8); }

}  // namespace ramcore::wire
