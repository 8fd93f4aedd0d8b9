#include "transport/datagram/packet_seal.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sodium/crypto_stream_chacha20.h>

#include "base/check.h"

namespace ramcore::transport::datagram {
namespace {

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
  if (has_key_) mac_ = AesBlock(keys_.mac);
}

uint64_t PacketSeal::ofLong(uint8_t version, wire::PacketKind kind, const HeaderWords& header,
                            std::span<const ByteSpan> payload) const {
  uint64_t length = 0;
  for (const ByteSpan& piece : payload) length += piece.size();
  UniversalHash hash(keys_.payload);
  const ByteSpan last = payload.empty() ? ByteSpan() : payload.back();
  for (size_t i = 0; i + 1 < payload.size(); ++i) hash.add(payload[i]);
  // The keys of header and payload do not depend on each other, so the sum is NH of both together.
  return sealOf(ofHeader(version, kind, header, length) + hash.finish(last));
}

}  // namespace ramcore::transport::datagram
