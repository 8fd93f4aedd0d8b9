// What a hostile peer can put into the shared memory of a session: positions and bytes of the ring that we read, and
// the position up to which it says it has read what we write.
//
// Input: steps of 16 bytes (what, a position, an offset), then bytes for the ring.
#include <cstdint>
#include <cstring>
#include <memory>

#include "fuzz/planted.h"
#include "transport/memory/tx_pool.h"
#include "transport/shm/frame_reader.h"
#include "transport/shm/frame_writer.h"

namespace ramcore::transport::shm {
namespace {

constexpr uint32_t kRingBytes = kRingBytesMin;
constexpr uint16_t kSlots = 8;

struct Step {
  uint64_t position;
  uint32_t offset;
  uint16_t what;
  uint16_t bytes;
};
static_assert(sizeof(Step) == 16);

/// Zeroed for each input and made once: new memory for each would be most of the work. Each ring is a block of its own,
/// so that one byte beside it is seen.
class Rings {
 public:
  void clear() {
    for (RingIndices* indices : {&control->to_server, &control->to_client}) {
      indices->produced.store(0, std::memory_order_relaxed);
      indices->consumed.store(0, std::memory_order_relaxed);
    }
    std::memset(read.get(), 0, kRingBytes);
    std::memset(written.get(), 0, kRingBytes);
  }

  const std::unique_ptr<SharedControl> control = std::make_unique<SharedControl>();
  const std::unique_ptr<std::byte[]> read = std::make_unique<std::byte[]>(kRingBytes);
  const std::unique_ptr<std::byte[]> written = std::make_unique<std::byte[]>(kRingBytes);
};

void run(const uint8_t* data, size_t bytes) {
  static Rings rings;
  rings.clear();
  HomeThread home;
  home.enter();
  MessagePool messages(home);
  TxPool buffers(home);
  FrameReader reader(RingReader(rings.control->to_server, rings.read.get(), kRingBytes), messages, kSlots);
  FrameWriter writer(RingWriter(rings.control->to_client, rings.written.get(), kRingBytes));
  bool is_read_bad = false;
  bool is_write_bad = false;
  uint64_t checksum = 0;
  while (bytes >= sizeof(Step)) {
    Step step;
    std::memcpy(&step, data, sizeof(step));
    data += sizeof(step);
    bytes -= sizeof(step);
    switch (step.what % 4) {
      case 0: {  // the peer writes bytes
        const size_t count = std::min<size_t>({step.bytes, bytes, kRingBytes});
        const size_t at = step.offset % (kRingBytes - count + 1);
        if (count != 0) std::memcpy(rings.read.get() + at, data, count);
        data += count;
        bytes -= count;
        break;
      }
      case 1:  // the peer moves its writing position, we read
        rings.control->to_server.produced.store(step.bytes % 2 ? step.position
                                                               : step.position % (4 * kRingBytes) & ~7u);
        if (is_read_bad) break;
        is_read_bad = !reader.refresh();
        while (!is_read_bad) {
          const FrameStep found = reader.step();
          if (found == FrameStep::Nothing) break;
          is_read_bad = found != FrameStep::Message;
          if (is_read_bad) break;
          const RxMessage message = reader.takeMessage();
          fuzz::crashIfPlanted(reader.header().sequence > 0xff && message.head().size() > 8);
          for (const std::byte byte : message.head()) checksum += static_cast<uint8_t>(byte);
        }
        (void)reader.giveBack();
        break;
      case 2: {  // we write a message
        if (is_write_bad) break;
        TxMessage message(buffers.takeBuffer(step.bytes));
        std::memset(message.extendHead(step.bytes), 7, step.bytes);
        wire::FrameHeader header{};
        header.message_bytes = step.bytes;
        is_write_bad = !writer.send(header, std::move(message));
        writer.publish();
        break;
      }
      case 3:  // the peer moves its reading position, we go on
        rings.control->to_client.consumed.store(step.position);
        if (!is_write_bad) is_write_bad = !writer.pump() || !writer.copyOutQueue(1 << 20, runtime::kNever);
        writer.publish();
        break;
    }
  }
  asm volatile("" : : "r"(checksum));
}

}  // namespace
}  // namespace ramcore::transport::shm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  ramcore::transport::shm::run(data, bytes);
  return 0;
}
