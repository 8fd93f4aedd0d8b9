#include "transport/verbs/decoding.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>

#include "base/check.h"
#include "runtime/executor.h"
#include "wire/frame.h"

namespace ramcore::transport::verbs {
namespace {

constexpr size_t kProvenBytes = offsetof(wire::VerbsAddress, mac);

// Whether the call slot and the priority of a valid header exist.
bool isInRange(const wire::VerbsHeader& header, uint16_t slot_count) {
  return header.kind == wire::VerbsKind::Close ||
         (header.slot < slot_count && header.priority < runtime::kPriorityCount);
}

// Whether the part behind the header has a length that is right for this kind.
bool isLengthRight(const wire::VerbsHeader& header, size_t body_bytes) {
  switch (header.kind) {
    case wire::VerbsKind::Request:
    case wire::VerbsKind::Response:
      return body_bytes == header.message_bytes;
    case wire::VerbsKind::RequestOffer:
      return body_bytes != 0 && body_bytes % sizeof(wire::VerbsPiece) == 0 &&
             body_bytes / sizeof(wire::VerbsPiece) <= wire::kVerbsPiecesMax;
    case wire::VerbsKind::ResponsePlace:
      return body_bytes == sizeof(wire::VerbsPiece);
    case wire::VerbsKind::Close:
    case wire::VerbsKind::ResponseOffer:
    case wire::VerbsKind::ResponseWritten:
      return body_bytes == 0;
  }
  return false;
}

}  // namespace

std::string_view decodeMessage(ByteSpan bytes, uint16_t slot_count, VerbsMessage& message) {
  if (bytes.size() < sizeof(wire::VerbsHeader)) return "a message without a header";
  wire::VerbsHeader header;
  const ByteSpan body = bytes.subspan(sizeof(header));
  if (!wire::decode(bytes, header) || !isInRange(header, slot_count) || !isLengthRight(header, body.size())) {
    return "a frame header that makes no sense";
  }
  message = {header, body};
  return {};
}

bool decodeOffer(const VerbsMessage& offer, std::vector<wire::VerbsPiece>& pieces) {
  RC_DCHECK(offer.header.kind == wire::VerbsKind::RequestOffer && isLengthRight(offer.header, offer.body.size()));
  const size_t count = offer.body.size() / sizeof(wire::VerbsPiece);
  pieces.clear();
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!wire::decode(offer.body.subspan(i * sizeof(wire::VerbsPiece)), pieces.emplace_back())) return false;
    bytes += pieces.back().bytes;
  }
  return bytes == offer.header.message_bytes;
}

std::optional<wire::VerbsPiece> decodePlace(const VerbsMessage& place, uint32_t response_bytes) {
  RC_DCHECK(place.header.kind == wire::VerbsKind::ResponsePlace && isLengthRight(place.header, place.body.size()));
  wire::VerbsPiece piece;
  if (!wire::decode(place.body, piece) || piece.bytes < response_bytes) return std::nullopt;
  return piece;
}

Handshake::Key proofOf(const wire::VerbsAddress& address, bool of_server, const Handshake::Key& key) {
  std::array<std::byte, 1 + kProvenBytes> text;
  text[0] = std::byte{of_server ? uint8_t{'A'} : uint8_t{'I'}};
  std::copy_n(bytesOf(address).begin(), kProvenBytes, text.begin() + 1);
  Handshake::Key proof{};
  unsigned int proof_bytes = 0;
  const auto* result =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
           text.size(), proof.data(), &proof_bytes);
  RC_CHECK_MSG(result != nullptr && proof_bytes == proof.size(), "the crypto library cannot compute HMAC-SHA256");
  return proof;
}

std::string_view checkAddress(const wire::VerbsAddress& address, bool of_server, const Handshake::Key& key) {
  const Handshake::Key proof = proofOf(address, of_server, key);
  if (CRYPTO_memcmp(proof.data(), address.mac.data(), proof.size()) != 0) {
    return "its queue pair's address is not proven: somebody changed it on the way";
  }
  if (address.receive_bytes < sizeof(wire::VerbsHeader) + sizeof(wire::VerbsPiece) * wire::kVerbsPiecesMax) {
    return "it takes no messages";
  }
  return address.isValid() ? "" : "an address of a queue pair that makes no sense";
}

}  // namespace ramcore::transport::verbs
