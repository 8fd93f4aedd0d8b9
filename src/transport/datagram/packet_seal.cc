#include "transport/datagram/packet_seal.h"

#include <algorithm>
#include <cstring>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sodium/crypto_shorthash.h>
#define XXH_INLINE_ALL  // a packet takes two of them, most of them short
#include <xxhash.h>

#include "base/check.h"

namespace ramcore::transport::datagram {
namespace {

static_assert(crypto_shorthash_KEYBYTES == 16 && crypto_shorthash_BYTES == sizeof(uint64_t));

Handshake::Key derive(const Handshake::Key& key, uint8_t direction, uint8_t number) {
  constexpr std::string_view kPurpose = "ramcore datagram";
  std::array<uint8_t, kPurpose.size() + 2> text;
  std::copy(kPurpose.begin(), kPurpose.end(), text.begin());
  text[kPurpose.size()] = direction;
  text[kPurpose.size() + 1] = number;
  Handshake::Key derived{};
  unsigned int bytes = 0;
  const auto* result =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), text.data(), text.size(), derived.data(), &bytes);
  RC_CHECK_MSG(result != nullptr && bytes == derived.size(), "the crypto library cannot compute HMAC-SHA256");
  return derived;
}

}  // namespace

PacketSeal::PacketSeal(const Handshake::Key& key, bool from_initiator, bool has_key) : has_key_(has_key) {
  const Handshake::Key& base = has_key ? key : Handshake::Key{};
  const uint8_t direction = from_initiator ? 'I' : 'A';
  const Handshake::Key first = derive(base, direction, 0);
  std::copy_n(first.begin(), mac_key_.size(), mac_key_.begin());
  for (size_t at = 0; at < kSecretBytes; at += first.size()) {
    const Handshake::Key piece = derive(base, direction, static_cast<uint8_t>(1 + at / first.size()));
    std::copy(piece.begin(), piece.end(), payload_secret_.begin() + static_cast<ptrdiff_t>(at));
  }
}

uint64_t PacketSeal::fingerprintOf(std::span<const ByteSpan> payload) const {
  if (payload.empty()) return XXH3_64bits_withSecret(nullptr, 0, payload_secret_.data(), kSecretBytes);
  if (payload.size() == 1) [[likely]] {
    return XXH3_64bits_withSecret(payload[0].data(), payload[0].size(), payload_secret_.data(), kSecretBytes);
  }
  XXH3_state_t state;
  XXH3_64bits_reset_withSecret(&state, payload_secret_.data(), kSecretBytes);
  for (const ByteSpan& piece : payload) XXH3_64bits_update(&state, piece.data(), piece.size());
  return XXH3_64bits_digest(&state);
}

uint64_t PacketSeal::of(uint8_t version, wire::PacketKind kind, const wire::PacketHeader& header,
                        std::span<const ByteSpan> payload) const {
  // Word by word: a copy of a header whose fields were just set would wait for all of them. The fingerprint comes last,
  // so that it is made while the words before it are mixed.
  const auto pair = [](uint64_t low, uint64_t high) { return low | high << 32; };
  const std::array<uint64_t, sizeof(wire::PacketHeader) / 8> sealed = {
      header.session,
      pair(header.sequence, header.message_bytes),
      pair(header.head_bytes, header.offset),
      pair(header.response_bytes_max, header.slot | uint32_t{header.payload_bytes} << 16),
      pair(header.priority | uint32_t{header.flags} << 8 | uint32_t{header.reserved1} << 16,
           header.reserved2 ^ (static_cast<uint32_t>(kind) << 8 | version)),
      fingerprintOf(payload)};
  if (!has_key_) return XXH3_64bits_withSecret(sealed.data(), sizeof(sealed), payload_secret_.data(), kSecretBytes);
  uint64_t mac = 0;
  crypto_shorthash(reinterpret_cast<unsigned char*>(&mac), reinterpret_cast<const unsigned char*>(sealed.data()),
                   sizeof(sealed), mac_key_.data());
  return mac;
}

}  // namespace ramcore::transport::datagram
