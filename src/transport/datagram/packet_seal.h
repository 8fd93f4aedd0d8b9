#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "transport/datagram/aes_block.h"
#include "transport/datagram/universal_hash.h"
#include "transport/session/handshake.h"
#include "wire/datagram_messages.h"

namespace ramcore::transport::datagram {

/// A PacketHeader as it stands in a frame, as 64-bit words. A read that is wider than the writes just before it waits
/// until all of these are in the cache, so hot paths have headers in this form alone.
using HeaderWords = std::array<uint64_t, sizeof(wire::PacketHeader) / sizeof(uint64_t)>;

/// Proves that a packet is from the other end of the session and was not changed ("The seal" in docs/datagram.md).
///
/// With a key, a seal is the first half of AES-128 of the 128-bit NH hash of kind, version, header and payload. Only
/// the two ends know the keys, which never travel. Two different packets get the same hash with a probability of 2^-63.
/// So only AES of one block has to be trusted. Without a key, a seal is the NH hash under keys that everybody knows: it
/// detects transmission errors, but not forgery. Each direction has keys of its own, so a packet that is sent back to
/// its sender is not valid there. Cost: about 20 ns, and 20 GB/s for the payload; 1.4 KB for the keys.
///
/// Thread: one at a time, copies included.
class PacketSeal {
 public:
  /// The seal of one direction. `key` is the session's key; it is not used if `has_key` is false.
  PacketSeal(const Handshake::Key& key, bool from_initiator, bool has_key);

  /// The value for header.seal. `payload` may be in pieces; at most UniversalKey::kBytesMax.
  uint64_t of(uint8_t version, wire::PacketKind kind, const wire::PacketHeader& header,
              std::span<const ByteSpan> payload) const {
    return of(version, kind, std::bit_cast<HeaderWords>(header), payload);
  }
  uint64_t of(uint8_t version, wire::PacketKind kind, const HeaderWords& header,
              std::span<const ByteSpan> payload) const {
    if (payload.size() == 1 && payload[0].size() <= UniversalKey::kBlockBytes) [[likely]] {
      return sealOf(ofHeader(version, kind, header, payload[0].size()) +
                    UniversalHash::ofShort(keys_.payload, payload[0]));
    }
    return ofLong(version, kind, header, payload);
  }

 private:
  struct Keys {
    AesBlock::Key mac{};
    HeaderWords header{};
    UniversalKey payload;
  };

  /// The hash of the header and of the payload's length. The payload's own hash therefore need not tell lengths apart.
  Wide ofHeader(uint8_t version, wire::PacketKind kind, const HeaderWords& header, uint64_t payload_bytes) const {
    static_assert(offsetof(wire::PacketHeader, seal) == 8 && offsetof(wire::PacketHeader, reserved2) == 44);
    const uint64_t last = header[5] ^ uint64_t { static_cast<uint32_t>(kind) << 8 | version } << 32;
    return nh(std::array{header[0], header[2], header[3], header[4], last, payload_bytes}, keys_.header.data());
  }
  uint64_t ofLong(uint8_t version, wire::PacketKind kind, const HeaderWords& header,
                  std::span<const ByteSpan> payload) const;
  uint64_t sealOf(Wide sum) const {
    const AesBlock::Block mixed = {static_cast<uint64_t>(sum), static_cast<uint64_t>(sum >> 64)};
    return has_key_ ? mac_.encrypt(mixed)[0] : mixed[0] ^ mixed[1];
  }

  alignas(64) Keys keys_;
  AesBlock mac_{{}};
  bool has_key_;
};

}  // namespace ramcore::transport::datagram
