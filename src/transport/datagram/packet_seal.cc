#include "transport/datagram/packet_seal.h"

#include <algorithm>
#include <cstring>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sodium/crypto_shorthash.h>
#define XXH_STATIC_LINKING_ONLY  // the size of the state
#include <xxhash.h>

#include "base/check.h"

namespace ramcore::transport::datagram {
namespace {

/// What the MAC is over.
struct Sealed {
  uint64_t kind_and_version;
  wire::PacketHeader header;  ///< its seal: the fingerprint of the payload
};
static_assert(Fixed<Sealed> && sizeof(Sealed) == 56);
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
  Sealed sealed{.kind_and_version = static_cast<uint64_t>(kind) << 8 | version, .header = header};
  sealed.header.seal = fingerprintOf(payload);
  if (!has_key_) return XXH3_64bits_withSecret(&sealed, sizeof(sealed), payload_secret_.data(), kSecretBytes);
  uint64_t mac = 0;
  crypto_shorthash(reinterpret_cast<unsigned char*>(&mac), reinterpret_cast<const unsigned char*>(&sealed),
                   sizeof(sealed), mac_key_.data());
  return mac;
}

}  // namespace ramcore::transport::datagram
