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

// Numbers of derived keys. The secret of payloads has those from 1 on.
constexpr uint8_t kHeaderKeys = 128;

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

// NH. The multiplications do not wait for each other, as the rounds of SipHash do.
template <size_t kCount>
std::array<uint64_t, 2> mixedHeader(const std::array<uint64_t, kCount>& words,
                                    const std::array<uint64_t, kCount>& key) {
  static_assert(kCount % 2 == 0);
  __extension__ using Wide = unsigned __int128;
  Wide sum = 0;
  for (size_t i = 0; i < kCount; i += 2) sum += static_cast<Wide>(words[i] + key[i]) * (words[i + 1] + key[i + 1]);
  return {static_cast<uint64_t>(sum), static_cast<uint64_t>(sum >> 64)};
}

}  // namespace

PacketSeal::PacketSeal(const Handshake::Key& key, bool from_initiator, bool has_key) : has_key_(has_key) {
  const Handshake::Key& base = has_key ? key : Handshake::Key{};
  const uint8_t direction = from_initiator ? 'I' : 'A';
  const Handshake::Key first = derive(base, direction, 0);
  std::copy_n(first.begin(), mac_key_.size(), mac_key_.begin());
  std::array<uint8_t, 2 * sizeof(Handshake::Key)> header_key;
  for (uint8_t half : {0, 1}) {
    std::ranges::copy(derive(base, direction, kHeaderKeys + half), header_key.begin() + half * sizeof(Handshake::Key));
  }
  static_assert(sizeof(header_key_) <= sizeof(header_key));
  std::memcpy(header_key_.data(), header_key.data(), sizeof(header_key_));
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

uint64_t PacketSeal::of(Words& words, std::span<const ByteSpan> payload) const {
  words.back() = fingerprintOf(payload);
  if (!has_key_) return XXH3_64bits_withSecret(words.data(), sizeof(words), payload_secret_.data(), kSecretBytes);
  const std::array<uint64_t, 2> mixed = mixedHeader(words, header_key_);
  uint64_t mac = 0;
  crypto_shorthash(reinterpret_cast<unsigned char*>(&mac), reinterpret_cast<const unsigned char*>(mixed.data()),
                   sizeof(mixed), mac_key_.data());
  return mac;
}

}  // namespace ramcore::transport::datagram
