#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "transport/handshake.h"
#include "wire/datagram_messages.h"

namespace ramcore::transport::datagram {

/// What proves that a packet is from the other end of the session and as it was sent ([R20] in docs/transport.md).
///
/// With a key: SipHash-2-4 (Aumasson, Bernstein 2012) over what NH makes of kind, version, header and a fingerprint of
/// the payload, under keys that nobody else knows and never travel. NH (Black et al., UMAC, CRYPTO 1999, section 4.2)
/// makes 128 bits of six words, and gives any two headers the same with a chance of 2^-64; the fingerprint is XXH3-64.
/// Without a key: XXH3-64 of the same, which finds what wires do and not what people do. Each direction has keys of its
/// own, so that a packet sent back to its sender fits nowhere. Cost: about 25 ns, and 10 GB/s for the payload.
class PacketSeal {
 public:
  /// Of one direction. `key`: of the session; not used if `has_key` is false.
  PacketSeal(const Handshake::Key& key, bool from_initiator, bool has_key);

  /// What belongs into header.seal. `payload` may be in pieces.
  uint64_t of(uint8_t version, wire::PacketKind kind, const wire::PacketHeader& header,
              std::span<const ByteSpan> payload) const {
    // Words, and here, where callers have the fields in registers: a header whose fields were just set cannot be read
    // in other pieces before all of them are in the cache.
    const auto pair = [](uint64_t low, uint64_t high) { return low | high << 32; };
    Words words = {header.session,
                   pair(header.sequence, header.message_bytes),
                   pair(header.head_bytes, header.offset),
                   pair(header.response_bytes_max, header.slot | uint32_t{header.payload_bytes} << 16),
                   pair(header.priority | uint32_t{header.flags} << 8 | uint32_t{header.reserved1} << 16,
                        header.reserved2 ^ (static_cast<uint32_t>(kind) << 8 | version)),
                   0};
    return of(words, payload);
  }

 private:
  static constexpr size_t kSecretBytes = 192;
  /// The header but for its seal, and room for the fingerprint: it is last, so that it can be made while the words
  /// before it are mixed.
  using Words = std::array<uint64_t, sizeof(wire::PacketHeader) / sizeof(uint64_t)>;
  uint64_t of(Words& words, std::span<const ByteSpan> payload) const;
  uint64_t fingerprintOf(std::span<const ByteSpan> payload) const;

  std::array<uint8_t, 16> mac_key_{};
  Words header_key_{};
  alignas(64) std::array<uint8_t, kSecretBytes> payload_secret_{};
  bool has_key_;
};

}  // namespace ramcore::transport::datagram
