#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "transport/datagram/universal_hash.h"
#include "transport/handshake.h"
#include "wire/datagram_messages.h"

namespace ramcore::transport::datagram {

/// What proves that a packet is from the other end of the session and as it was sent ("The seal" in docs/transport.md).
///
/// With a key: SipHash-2-4 (Aumasson, Bernstein 2012) of what NH makes of kind, version, header and payload (128 bits),
/// under keys that nobody else knows and never travel: two different packets get the same with a chance of 2^-63. So
/// only SipHash, of 16 bytes, has to be believed. Without a key: NH under keys that everybody knows, which finds what
/// wires do and not what people do. Each direction has keys of its own, so that a packet sent back to its sender fits
/// nowhere. Cost: about 20 ns, and 20 GB/s for the payload; 1.2 KB for the keys.
class PacketSeal {
 public:
  /// Of one direction. `key`: of the session; not used if `has_key` is false.
  PacketSeal(const Handshake::Key& key, bool from_initiator, bool has_key);

  /// What belongs into header.seal. `payload` may be in pieces; at most UniversalKey::kBytesMax.
  uint64_t of(uint8_t version, wire::PacketKind kind, const wire::PacketHeader& header,
              std::span<const ByteSpan> payload) const {
    // Words, and here, where callers have the fields in registers: a header whose fields were just set cannot be read
    // in other pieces before all of them are in the cache. The length of the payload is among them, so it need not be
    // told by what is made of that.
    const auto pair = [](uint64_t low, uint64_t high) { return low | high << 32; };
    uint64_t length = 0;
    for (const ByteSpan& piece : payload) length += piece.size();
    const Words words = {header.session,
                         pair(header.sequence, header.message_bytes),
                         pair(header.head_bytes, header.offset),
                         pair(header.response_bytes_max, header.slot | uint32_t{header.payload_bytes} << 16),
                         pair(header.priority | uint32_t{header.flags} << 8 | uint32_t{header.reserved1} << 16,
                              header.reserved2 ^ (static_cast<uint32_t>(kind) << 8 | version)),
                         length};
    return of(words, payload);
  }

 private:
  /// The header but for its seal, and the length.
  using Words = std::array<uint64_t, sizeof(wire::PacketHeader) / sizeof(uint64_t)>;
  struct Keys {
    std::array<uint8_t, 16> mac{};
    Words header{};
    UniversalKey payload;
  };
  uint64_t of(const Words& words, std::span<const ByteSpan> payload) const;
  uint64_t sealOf(Wide sum) const;

  alignas(64) Keys keys_;
  bool has_key_;
};

}  // namespace ramcore::transport::datagram
