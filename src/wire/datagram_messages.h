#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace ramcore::wire {

/// What an Ethernet frame of ours carries. The first numbers mean what FrameKind means elsewhere.
enum class PacketKind : uint8_t {
  Request = 1,   ///< a piece of a request
  Response = 2,  ///< a piece of an answer
  Close = 3,     ///< the sender ended the session; answered by Closed
  Greeting = 4,  ///< a piece of the handshake, a GreetingBody in front; not sealed
  Progress = 5,  ///< a ProgressBody: how far a message has come, and how much of it may be sent
  Taken = 6,     ///< TakenEntry[]: answers that arrived whole and are not to be kept any more
  Probe = 7,     ///< asks whether the session is still there; answered by Here
  Here = 8,      ///< it is
  Closed = 9,    ///< the answer to Close
  Gone = 10,     ///< the sender's end of the session broke
  Unknown = 11,  ///< the sender has no session of the number that the body names; not sealed, so only a reason to ask
};

inline constexpr uint16_t kDatagramEtherType = 0x88b5;  ///< IEEE 802: for local experiments
inline constexpr uint8_t kDatagramVersion = 4;

/// The first 16 bytes of each frame.
struct FrameStart {
  std::array<uint8_t, 6> to;
  std::array<uint8_t, 6> from;
  std::array<uint8_t, 2> ether_type;  ///< kDatagramEtherType, high byte first
  uint8_t version;                    ///< kDatagramVersion
  PacketKind kind;
};
static_assert(Fixed<FrameStart> && sizeof(FrameStart) == 16);

/// The next 48. What follows is the payload, at a multiple of 64 bytes from the start of the frame.
struct PacketHeader {
  uint64_t session;             ///< the receiver's number of the session, random; 0 in the first Greeting
  uint64_t seal;                ///< over version, kind, the rest of this header and the payload
  uint32_t sequence;            ///< of the slot
  uint32_t message_bytes;       ///< of the whole message
  uint32_t head_bytes;          ///< leading bytes that the receiver hands over contiguous
  uint32_t offset;              ///< of the payload in the message: a multiple of the session's packet length
  uint32_t response_bytes_max;  ///< of requests
  uint16_t slot;
  uint16_t payload_bytes;
  uint8_t priority;    ///< of requests
  uint8_t flags;       ///< kPacketAgain, kPacketOfResponse, kPacketOverdue; others zero, verified
  uint16_t reserved1;  ///< zero, verified
  uint32_t reserved2;  ///< zero, verified
};
static_assert(Fixed<PacketHeader> && sizeof(PacketHeader) == 48);

inline constexpr uint32_t kPacketHeaderBytes = sizeof(FrameStart) + sizeof(PacketHeader);
/// Longest payload of a packet: what its length is written in allows more, but pieces stay below a page of a jumbo
/// frame.
inline constexpr uint32_t kPacketBytesMax = 9000;
inline constexpr uint32_t kPacketBytesMin = 512;

inline constexpr uint8_t kPacketAgain = 1;       ///< of Request, Response: it was sent before
inline constexpr uint8_t kPacketOfResponse = 2;  ///< of Progress: about an answer
inline constexpr uint8_t kPacketOverdue = 4;     ///< of Progress: what was sent and is not there is lost

/// Behind the header of a Greeting; bytes of the handshake follow. A stream of bytes in both directions, of which one
/// packet is under way at a time: `offset` says where its bytes belong.
struct GreetingBody {
  uint64_t session;          ///< the sender's number of the session
  uint32_t received_bytes;   ///< of the other direction, so far
  uint16_t port;             ///< whom the initiator looks for: the number behind the address in a locator
  uint16_t packet_bytes;     ///< longest payload that the sender's port takes
  uint16_t unasked_packets;  ///< of each message, which the sender takes before it says more
  uint8_t wants_seal;        ///< 1: packets carry a MAC and not a checksum; so if either side wants it
  uint8_t reserved1;         ///< zero, verified
  uint32_t reserved2;        ///< zero, verified
};
static_assert(Fixed<GreetingBody> && sizeof(GreetingBody) == 24);

/// The body of a Progress, about the message of its header's slot and sequence.
struct ProgressBody {
  uint64_t later;             ///< bit i: the packet received_packets + 1 + i is there
  uint32_t received_packets;  ///< all before this one are there
  uint32_t granted_packets;   ///< those before this one may be sent
};
static_assert(Fixed<ProgressBody> && sizeof(ProgressBody) == 16);

struct TakenEntry {
  uint32_t sequence;
  uint16_t slot;
  uint16_t reserved;  ///< zero, verified
};
static_assert(Fixed<TakenEntry> && sizeof(TakenEntry) == 8);
inline constexpr uint32_t kTakenEntriesMax = 32;

}  // namespace ramcore::wire
