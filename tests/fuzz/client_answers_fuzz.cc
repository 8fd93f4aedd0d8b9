/// The client library's decoders with answers that no honest server gives. The first bytes of the input say which
/// decoder is called, how many parts it expects and where the message is cut into spans.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "client/master_stub.h"
#include "fuzz/planted.h"

namespace {

using namespace ramcore;

struct Input {
  uint8_t kind;
  uint8_t parts;
  uint8_t head_bytes;
  uint8_t span_bytes;
};

// A message over a copy of exactly these bytes, in up to three pieces of their own, so that one byte too many is seen.
class Pieces {
 public:
  Pieces(ByteSpan bytes, const Input& input) {
    // Transports deliver a head of at least a ResponseHeader, or all there is.
    const size_t head =
        std::min<size_t>(bytes.size(), std::max<size_t>(input.head_bytes, sizeof(wire::ResponseHeader)));
    head_.assign(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(head));
    ByteSpan rest = bytes.subspan(head);
    for (size_t i = 0; i < tails_.size() && !rest.empty(); ++i) {
      const bool last = i + 1 == tails_.size();
      const size_t now = last ? rest.size() : std::min<size_t>(rest.size(), 1 + input.span_bytes);
      tails_[i].assign(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(now));
      spans_[count_++] = tails_[i];
      rest = rest.subspan(now);
    }
  }
  transport::RxMessage message() const { return {ByteSpan(head_), std::span(spans_).first(count_), nullptr, 0}; }

 private:
  std::vector<std::byte> head_;
  std::array<std::vector<std::byte>, 2> tails_;
  std::array<ByteSpan, 2> spans_;
  size_t count_ = 0;
};

void decodePointAnswer(wire::Opcode opcode, const Pieces& pieces) {
  const client::PointResult result = client::decodePoint(opcode, pieces.message());
  if (result.version > kVersionMax) std::abort();
  if (opcode != wire::Opcode::Read || result.status != Status::Ok) return;
  fuzz::crashIfPlanted(result.value_bytes == 0);
  std::string value;
  result.takeValue(value);
  if (value.size() != result.value_bytes) std::abort();
  std::array<std::byte, 16> start;
  result.copyValue(start);
}

void decodeMultiAnswer(bool reads, uint8_t count, const Pieces& pieces) {
  std::vector<client::MultiPart> parts(count);
  for (uint32_t i = 0; i < count; ++i) parts[i].item = i;
  if (reads) {
    std::vector<ReadItem> items(count);
    static_cast<void>(client::decodeMultiRead(pieces.message(), parts, items));
  } else {
    std::vector<MutateItem> items(count);
    static_cast<void>(client::decodeMultiMutate(pieces.message(), parts, items));
  }
}

void decodeScanAnswer(KeyHash cursor, const Pieces& pieces) {
  std::vector<Object> objects;
  client::ScanAnswer answer;
  if (!client::decodeScan(pieces.message(), TableId(1), cursor, objects, answer)) return;
  if (!answer.is_end && answer.next_cursor <= cursor) std::abort();  // it would go in circles
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < sizeof(Input)) return 0;
  Input input;
  std::memcpy(&input, data, sizeof(input));
  const Pieces pieces(std::as_bytes(std::span(data + sizeof(input), size - sizeof(input))), input);
  switch (input.kind % 6) {
    case 0:
      decodePointAnswer(wire::Opcode::Read, pieces);
      break;
    case 1:
      decodePointAnswer(wire::Opcode::Write, pieces);
      break;
    case 2:
      decodePointAnswer(wire::Opcode::Increment, pieces);
      break;
    case 3:
      decodeMultiAnswer(true, input.parts % 8, pieces);
      break;
    case 4:
      decodeMultiAnswer(false, input.parts % 8, pieces);
      break;
    default:
      decodeScanAnswer(input.parts, pieces);
  }
  return 0;
}
