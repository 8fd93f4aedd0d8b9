#include "transport/datagram/packet_seal.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sodium/crypto_shorthash.h>
#include <sodium/crypto_stream_chacha20.h>

#include "base/check.h"

namespace ramcore::transport::datagram {
namespace {

static_assert(crypto_shorthash_KEYBYTES == 16 && crypto_shorthash_BYTES == sizeof(uint64_t));
static_assert(crypto_stream_chacha20_KEYBYTES == sizeof(Handshake::Key));
static_assert(wire::kPacketBytesMax <= UniversalKey::kBytesMax);

Handshake::Key derive(const Handshake::Key& key, uint8_t direction) {
  constexpr std::string_view kPurpose = "ramcore datagram";
  std::array<uint8_t, kPurpose.size() + 1> text;
  std::copy(kPurpose.begin(), kPurpose.end(), text.begin());
  text[kPurpose.size()] = direction;
  Handshake::Key derived{};
  unsigned int bytes = 0;
  const auto* result =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), text.data(), text.size(), derived.data(), &bytes);
  RC_CHECK_MSG(result != nullptr && bytes == derived.size(), "the crypto library cannot compute HMAC-SHA256");
  return derived;
}

}  // namespace

// HMAC-SHA256 makes a key of the session's, and ChaCha20 as many bytes of that as there are keys.
PacketSeal::PacketSeal(const Handshake::Key& key, bool from_initiator, bool has_key) : has_key_(has_key) {
  static_assert(std::is_trivially_copyable_v<Keys> && std::has_unique_object_representations_v<Keys>);
  const Handshake::Key base = derive(has_key ? key : Handshake::Key{}, from_initiator ? 'I' : 'A');
  std::array<unsigned char, sizeof(Keys)> stream;
  constexpr std::array<unsigned char, crypto_stream_chacha20_NONCEBYTES> kNonce{};  // the key is used once
  RC_CHECK(crypto_stream_chacha20(stream.data(), stream.size(), kNonce.data(), base.data()) == 0);
  std::memcpy(&keys_, stream.data(), stream.size());
}

uint64_t PacketSeal::of(const Words& words, std::span<const ByteSpan> payload) const {
  if (payload.size() == 1 && payload[0].size() <= UniversalKey::kBlockBytes) [[likely]] {
    return sealOf(nh(words, keys_.header.data()) + UniversalHash::ofShort(keys_.payload, payload[0]));
  }
  UniversalHash hash(keys_.payload);
  const ByteSpan last = payload.empty() ? ByteSpan() : payload.back();
  for (size_t i = 0; i + 1 < payload.size(); ++i) hash.add(payload[i]);
  // Their keys do not depend on each other, so the sum is NH of both together.
  return sealOf(nh(words, keys_.header.data()) + hash.finish(last));
}

uint64_t PacketSeal::sealOf(Wide sum) const {
  const std::array<uint64_t, 2> mixed = {static_cast<uint64_t>(sum), static_cast<uint64_t>(sum >> 64)};
  if (!has_key_) return mixed[0] ^ mixed[1];
  uint64_t mac = 0;
  crypto_shorthash(reinterpret_cast<unsigned char*>(&mac), reinterpret_cast<const unsigned char*>(mixed.data()),
                   sizeof(mixed), keys_.mac.data());
  return mac;
}

}  // namespace ramcore::transport::datagram
