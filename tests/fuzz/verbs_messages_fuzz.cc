/// What a peer at the other end of a queue pair may send: messages of any bytes, and the address of its queue pair.
/// Messages that pass the checks are within the bounds that the endpoint relies on, and nothing is read beyond what was
/// received.
///
/// Input: Head, then the bytes of a message or of an address.

#include <cstring>
#include <vector>

#include "base/check.h"
#include "fuzz/planted.h"
#include "runtime/executor.h"
#include "transport/verbs/decoding.h"
#include "wire/frame.h"

namespace ramcore::transport::verbs {
namespace {

struct Head {
  uint8_t what;         // bit 0: an address; bit 1: said by the server; bit 2: proven by whoever knows the key
  uint8_t slot_count;   // of the session
  uint16_t wait_bytes;  // in units of 256: the answer for which there is a place
};

bool isWithin(ByteSpan part, ByteSpan whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void judgeMessage(const Head& head, ByteSpan bytes) {
  VerbsMessage message;
  const std::string_view why_bad = decodeMessage(bytes, head.slot_count, message);
  if (!why_bad.empty()) return;
  const wire::VerbsHeader& header = message.header;
  const auto kind = static_cast<uint8_t>(header.kind);
  RC_CHECK(isWithin(message.body, bytes) && message.body.size() + sizeof(header) == bytes.size());
  RC_CHECK(header.message_bytes <= wire::kMessageBytesMax && header.head_bytes <= header.message_bytes);
  RC_CHECK(header.head_bytes <= wire::kHeadBytesMax && kind >= 1 && kind <= 7);
  // The endpoint uses these as indices.
  RC_CHECK(header.kind == wire::VerbsKind::Close ||
           (header.slot < head.slot_count && header.priority < runtime::kPriorityCount));
  if (header.kind == wire::VerbsKind::RequestOffer) {
    std::vector<wire::VerbsPiece> pieces;
    if (!decodeOffer(message, pieces)) return;
    uint64_t sum_bytes = 0;
    for (const wire::VerbsPiece& piece : pieces) {
      RC_CHECK(piece.bytes != 0);
      sum_bytes += piece.bytes;
    }
    RC_CHECK(!pieces.empty() && pieces.size() <= wire::kVerbsPiecesMax && sum_bytes == header.message_bytes);
    fuzz::crashIfPlanted(pieces.back().key == 0);
  }
  if (header.kind == wire::VerbsKind::ResponsePlace) {
    const uint32_t response_bytes = uint32_t{head.wait_bytes} * 256;
    const auto place = decodePlace(message, response_bytes);
    RC_CHECK(!place || place->bytes >= response_bytes);
  }
}

void judgeAddress(const Head& head, ByteSpan bytes) {
  wire::VerbsAddress address;
  if (bytes.size() != sizeof(address)) return;
  std::memcpy(&address, bytes.data(), sizeof(address));
  const Handshake::Key key = {1, 2, 3};
  const bool of_server = (head.what & 2) != 0;
  const bool is_proven = (head.what & 4) != 0;
  if (is_proven) address.mac = proofOf(address, of_server, key);
  if (!checkAddress(address, of_server, key).empty()) return;
  RC_CHECK(is_proven);
  RC_CHECK(address.mtu >= 1 && address.mtu <= 5 && address.reads_max != 0);
  RC_CHECK(address.queue_pair < 1u << 24 && address.first_packet < 1u << 24);
  RC_CHECK(address.receive_bytes >= sizeof(wire::VerbsHeader) + sizeof(wire::VerbsPiece) * wire::kVerbsPiecesMax);
}

}  // namespace
}  // namespace ramcore::transport::verbs

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ramcore;
  using namespace ramcore::transport::verbs;
  Head head;
  if (size < sizeof(head)) return 0;
  std::memcpy(&head, data, sizeof(head));
  // Of their own, so that a look behind them is one that the sanitizer sees.
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data) + sizeof(head),
                                     reinterpret_cast<const std::byte*>(data) + size);
  (head.what & 1) != 0 ? judgeAddress(head, bytes) : judgeMessage(head, bytes);
  return 0;
}
