#pragma once

#include <array>
#include <cstdint>

#include "wire/message.h"

namespace ramcore::wire {

/// The kind of a packet, which is what an Ethernet frame of this protocol carries. The first three values have the
/// meaning that they have in FrameKind.
enum class PacketKind : uint8_t {
  Request = 1,     ///< a piece of a request
  Response = 2,    ///< a piece of an answer
  Close = 3,       ///< the sender ended the session; answered by Closed
  Greeting = 4,    ///< a GreetingBody and a part of the handshake; not sealed
  Grant = 5,       ///< with a GrantBody: how far a message has come, and how much of it may be sent
  Ack = 6,         ///< the acknowledgement, with AckEntry[]: answers that arrived whole and need not be kept any more
  Probe = 7,       ///< asks whether the session is still there; answered by ProbeReply
  ProbeReply = 8,  ///< the session is still there
  Closed = 9,      ///< the answer to Close
  Reset = 10,      ///< the sender's end of the session failed
  Unknown = 11,  ///< the sender has no session of the number in the body; not sealed, so an open session is only probed
};

inline constexpr uint16_t kDatagramEtherType = 0x88b5;  ///< IEEE 802: for local experiments
inline constexpr uint8_t kDatagramVersion = 4;
/// Longest payload of a packet. The field of its length allows more, but pieces stay below a page of a jumbo frame.
inline constexpr uint32_t kPacketBytesMax = 9000;
inline constexpr uint32_t kPacketBytesMin = 512;

/// The first 16 bytes of each Ethernet frame.
struct FrameStart {
  std::array<uint8_t, 6> to;
  std::array<uint8_t, 6> from;
  std::array<uint8_t, 2> ether_type;  ///< kDatagramEtherType, high byte first
  uint8_t version;                    ///< kDatagramVersion
  PacketKind kind;
};
static_assert(Fixed<FrameStart> && sizeof(FrameStart) == 16);

/// The next 48 bytes of each Ethernet frame. The payload follows, at a multiple of 64 bytes from the start of the
/// frame.
struct PacketHeader {
  uint64_t session;             ///< the receiver's number of the session, random; 0 in the first Greeting
  uint64_t seal;                ///< MAC or checksum of version, kind, the rest of this header and the payload
  uint32_t sequence;            ///< number of the call in its call slot
  uint32_t message_bytes;       ///< length of the whole message
  uint32_t head_bytes;          ///< leading bytes that the receiver hands over contiguous
  uint32_t offset;              ///< position of the payload in the message: a multiple of the session's packet length
  uint32_t response_bytes_max;  ///< in requests: the longest answer the caller takes
  uint16_t slot;
  uint16_t payload_bytes;
  uint8_t priority;    ///< in requests: runtime::Priority
  uint8_t flags;       ///< kPacketAgain, kPacketOfResponse, kPacketOverdue; others zero, verified
  uint16_t reserved1;  ///< zero, verified
  uint32_t reserved2;  ///< zero, verified

  /// Which values make sense depends on the packet's kind, so the reader checks them once it knows the sender.
  constexpr bool isValid() const { return payload_bytes <= kPacketBytesMax && reserved1 == 0 && reserved2 == 0; }
};
static_assert(Message<PacketHeader> && sizeof(PacketHeader) == 48);

inline constexpr uint32_t kPacketHeaderBytes = sizeof(FrameStart) + sizeof(PacketHeader);

inline constexpr uint8_t kPacketAgain = 1;       ///< in Request and Response: the packet was sent before
inline constexpr uint8_t kPacketOfResponse = 2;  ///< in Grant: the message is an answer
inline constexpr uint8_t kPacketOverdue = 4;     ///< in Grant: packets sent that the body shows as missing are lost

/// Stands behind the header of a Greeting; bytes of the handshake follow it. The handshake is a stream of bytes in both
/// directions, of which one packet is under way at a time. The header's `offset` is the position of the packet's bytes
/// in that stream.
struct GreetingBody {
  uint64_t session;          ///< the sender's number of the session
  uint32_t received_bytes;   ///< bytes of the other direction that the sender has received so far
  uint16_t port;             ///< the port that the initiator looks for: the number behind the address in a locator
  uint16_t packet_bytes;     ///< longest payload that all ports of the sender take
  uint16_t unasked_packets;  ///< packets of each message that the sender takes without a grant
  uint8_t wants_seal;        ///< 1: the sender wants a MAC in each packet, not a checksum; one side's wish is enough
  uint8_t reserved1;         ///< zero, verified
  uint32_t reserved2;        ///< zero, verified

  constexpr bool isValid() const {
    return session != 0 && packet_bytes >= kPacketBytesMin && unasked_packets != 0 && wants_seal <= 1 &&
           reserved1 == 0 && reserved2 == 0;
  }
};
static_assert(Message<GreetingBody> && sizeof(GreetingBody) == 24);

/// The body of a Grant, about the message with the slot and the sequence of its header.
struct GrantBody {
  uint64_t later;             ///< bit i: the packet received_packets + 1 + i has arrived
  uint32_t received_packets;  ///< all packets before this one have arrived
  uint32_t granted_packets;   ///< the packets before this one may be sent

  /// The reader checks whether the message has as many packets.
  constexpr bool isValid() const { return true; }
};
static_assert(Message<GrantBody> && sizeof(GrantBody) == 16);

struct AckEntry {
  uint32_t sequence;
  uint16_t slot;
  uint16_t reserved;  ///< zero, verified

  /// The reader checks whether the call slot exists.
  constexpr bool isValid() const { return reserved == 0; }
};
static_assert(Message<AckEntry> && sizeof(AckEntry) == 8);
inline constexpr uint32_t kAckEntriesMax = 32;

}  // namespace ramcore::wire
