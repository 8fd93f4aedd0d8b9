// The byte stream of a session, cut as the input says: whatever comes, the reader gives messages that lie within their
// limits or calls the stream bad.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "fuzz/planted.h"
#include "transport/tcp/frame_reader.h"

namespace ramcore::transport::tcp {
namespace {

constexpr uint16_t kSlots = 16;
constexpr size_t kHeldMax = 8;

void check(const wire::FrameHeader& header, const RxMessage& message) {
  RC_CHECK(message.messageBytes() == header.message_bytes && message.tail().empty());
  RC_CHECK(header.message_bytes <= wire::kMessageBytesMax && header.slot < kSlots);
  RC_CHECK(header.head_bytes <= message.head().size());
  RC_CHECK(isAligned(reinterpret_cast<uintptr_t>(message.head().data()), 8));
  fuzz::crashIfPlanted(header.slot == 7 && header.sequence > 0x1000);
}

void run(ByteSpan input) {
  RxBlockPool pool;
  SharedBlock shared(pool);
  FrameReader reader(pool, shared, kSlots);
  std::vector<RxMessage> held;
  if (input.empty()) return;
  // The first byte says how the stream is cut.
  const size_t piece_bytes = static_cast<size_t>(input[0]) * 7 + 1;
  input = input.subspan(1);
  uint64_t sum = 0;
  while (!input.empty()) {
    const MutableByteSpan room = reader.room();
    RC_CHECK(!room.empty());
    const size_t count = std::min({room.size(), input.size(), piece_bytes});
    std::memcpy(room.data(), input.data(), count);
    reader.received(static_cast<uint32_t>(count));
    input = input.subspan(count);
    FrameStep step = reader.step();
    for (; step == FrameStep::Message; step = reader.step()) {
      held.push_back(reader.takeMessage());
      check(reader.header(), held.back());
      for (const std::byte byte : held.back().head()) sum += static_cast<uint64_t>(byte);
      if (held.size() > kHeldMax) held.erase(held.begin());
    }
    if (step != FrameStep::Nothing) break;
  }
  RC_CHECK(sum <= UINT64_MAX / 2);
}

}  // namespace
}  // namespace ramcore::transport::tcp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ramcore::transport::tcp::run(std::as_bytes(std::span(data, size)));
  return 0;
}
