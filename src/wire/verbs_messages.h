#pragma once

#include <array>
#include <cstdint>

#include "wire/frame.h"

namespace ramcore::wire {

/// The kind of a message between two queue pairs. The first three values have the meaning that they have in FrameKind.
enum class VerbsKind : uint8_t {
  Request = 1,
  Response = 2,
  Close = 3,            ///< the sender will neither send nor answer any more
  RequestOffer = 4,     ///< VerbsPiece[] follow: the memory that holds the request, for the receiver to read
  ResponseOffer = 5,    ///< an answer of message_bytes waits for memory that it can be written to
  ResponsePlace = 6,    ///< one VerbsPiece follows: that memory, of at least as many bytes
  ResponseWritten = 7,  ///< the answer is in that memory
};

/// In front of each message between two queue pairs. The layout is that of FrameHeader, so that the two are checked
/// alike.
struct VerbsHeader {
  uint32_t message_bytes;  ///< length of the request or response itself, wherever its bytes are
  uint32_t head_bytes;     ///< leading bytes that the receiver hands over contiguous
  uint32_t sequence;       ///< number of the slot's call
  uint16_t slot;
  VerbsKind kind;
  uint8_t priority;             ///< in requests: runtime::Priority
  uint32_t response_bytes_max;  ///< in requests: the longest answer the caller takes
  uint32_t reserved;            ///< zero, verified

  /// The reader checks whether the call slot and the priority exist.
  constexpr bool isValid() const {
    const bool has_lengths =
        message_bytes <= kMessageBytesMax && head_bytes <= message_bytes && head_bytes <= kHeadBytesMax;
    const bool has_kind =
        (kind == VerbsKind::Close && message_bytes == 0) ||
        (kind != VerbsKind::Close && kind >= VerbsKind::Request && kind <= VerbsKind::ResponseWritten);
    return has_lengths && has_kind && reserved == 0;
  }
};
static_assert(Message<VerbsHeader> && sizeof(VerbsHeader) == 24);

/// Registered memory of the sender, which the receiver may read or write in one transfer.
struct VerbsPiece {
  uint64_t address;
  uint32_t key;
  uint32_t bytes;

  /// A length of 0 is not valid: there are adapters that take it for 2 GB.
  constexpr bool isValid() const { return bytes != 0; }
};
static_assert(Message<VerbsPiece> && sizeof(VerbsPiece) == 16);
inline constexpr uint32_t kVerbsPiecesMax = 40;

/// Sent by each side after the handshake, over the same stream: how the other side reaches its queue pair.
struct VerbsAddress {
  std::array<uint8_t, 16> gid;
  uint32_t queue_pair;          ///< 24 bits
  uint32_t first_packet;        ///< 24 bits: number of the first packet that this side sends
  uint32_t receive_bytes;       ///< longest message, header included, that is received without a transfer
  uint16_t lid;                 ///< InfiniBand only
  uint8_t mtu;                  ///< ibv_mtu: 1 (256 B) to 5 (4096 B)
  uint8_t reads_max;            ///< transfers that may read from this side at a time
  std::array<uint8_t, 32> mac;  ///< under the session key: over the sender's side of the session and all fields above

  /// The reader checks whether the MAC is right, and whether the lengths make sense.
  constexpr bool isValid() const {
    constexpr uint32_t kNumberMax = 0xffffff;  // of queue pairs and packets
    constexpr uint8_t kMtuMin = 1;
    constexpr uint8_t kMtuMax = 5;
    return mtu >= kMtuMin && mtu <= kMtuMax && reads_max != 0 && queue_pair <= kNumberMax && first_packet <= kNumberMax;
  }
};
static_assert(Message<VerbsAddress> && sizeof(VerbsAddress) == 64);

}  // namespace ramcore::wire
