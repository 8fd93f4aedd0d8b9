// The send queue of a session over a real queue pair: nothing that is borrowed stays out for want of a completion that
// was not asked for, and no more is given to the adapter than it has places for.
#include "transport/verbs/send_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <random>

#include "contract/transport_suite.h"
#include "transport/verbs/receive_buffers.h"

namespace ramcore::transport::verbs {
namespace {

using contract::CountingOwner;
using wire::VerbsHeader;
using wire::VerbsKind;

constexpr uint64_t kTag = 5;
constexpr std::byte kTheirs{7};  // at the other end
constexpr int kRemoteAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
constexpr ConnectionTiming kTiming{.ack_timeout = 18};

Device openDevice(const char* variable) {
  const char* name = std::getenv(variable);
  auto device = Device::open({.device = name == nullptr ? "" : name, .host = ""});
  RC_CHECK_MSG(device.ok(), device.error().message.c_str());
  return std::move(device).value();
}

/// The other end: takes every message, and lets memory of its own be read and written.
struct TakingEnd {
  explicit TakingEnd(uint32_t first_packet) : memory(size_t{4} << 20, kTheirs) {
    completions.reset(ibv_create_cq(device.context(), 1024, nullptr, nullptr, 0));
    EXPECT_TRUE(receives.open().ok());
    EXPECT_TRUE(receives.want(256).ok());
    region = std::move(device.registerMemory(memory.data(), memory.size(), kRemoteAccess)).value();
    pair = std::move(QueuePair::make({device, completions.get(), completions.get(), receives.queue()}, {16, 1, 0}, true,
                                     first_packet))
               .value();
  }
  void step() {
    ibv_wc completion{};
    while (ibv_poll_cq(completions.get(), 1, &completion) == 1) {
      if (completion.status != IBV_WC_SUCCESS) continue;
      ++taken_count;
      receives.arrived();
      receives.recycle(*reinterpret_cast<ReceiveBuffer*>(completion.wr_id));
    }
    receives.post();
  }
  wire::VerbsPiece pieceToRead(uint32_t bytes) const {
    return {reinterpret_cast<uint64_t>(memory.data()), region->rkey, bytes};
  }
  wire::VerbsPiece pieceToWrite() const {
    const size_t half = memory.size() / 2;
    return {reinterpret_cast<uint64_t>(memory.data() + half), region->rkey, static_cast<uint32_t>(half)};
  }

  Device device = openDevice("RDMA_DEV1");
  std::vector<std::byte> memory;
  CompletionQueue completions;
  ReceiveBuffers receives{device, 256, [] {}};
  MemoryRegion region;
  std::unique_ptr<QueuePair> pair;
  uint64_t taken_count = 0;
};

class VerbsSendQueue : public ::testing::Test {
 protected:
  VerbsSendQueue() {
    completions.reset(ibv_create_cq(device.context(), 4096, nullptr, nullptr, 0));
    EXPECT_TRUE(receives.open().ok());
    contract::ChunkArena& arena = contract::chunkArena();
    if (arena.base == nullptr) {
      arena.base = static_cast<std::byte*>(std::aligned_alloc(2u << 20, contract::ChunkArena::kBytes));
    }
    arena.used_bytes = 0;
    constexpr size_t kArenaBytes = contract::ChunkArena::kBytes;
    auto region = device.registerMemory(arena.base, kArenaBytes, IBV_ACCESS_LOCAL_WRITE);
    arena.region = regions.add(arena.base, kArenaBytes, std::move(region).value());
  }

  /// A queue with room for so many requests, at the other end of which everything is taken.
  void open(uint32_t sends) {
    auto pair = QueuePair::make({device, completions.get(), completions.get(), receives.queue()},
                                {sends, TxBuffer::kChunkCountMax + 1, 256}, false, 100);
    ASSERT_TRUE(pair.ok());
    ASSERT_TRUE((*pair)->connect(other.pair->address(ReceiveBuffers::kBytes), kTiming).ok());
    ASSERT_TRUE(other.pair->connect((*pair)->address(ReceiveBuffers::kBytes), kTiming).ok());
    queue = std::make_unique<SendQueue>(parts, std::move(pair).value(), kTag);
    ASSERT_EQ(queue->pair().size().sends, sends);
  }
  TxMessage message(uint32_t head_bytes, uint32_t chunk_bytes) {
    TxMessage made(heads.takeBuffer(head_bytes));
    static_cast<void>(made.extendHead(head_bytes));
    if (chunk_bytes != 0) made.appendChunk(owner.borrow(chunk_bytes, 1));
    return made;
  }
  void send(uint32_t head_bytes, uint32_t chunk_bytes) {
    VerbsHeader header{};
    header.kind = VerbsKind::Request;
    queue->send(header, message(head_bytes, chunk_bytes));
    ++sent_count;
  }
  /// Takes what is done, and sees that the adapter never had more than it has places for.
  void step() {
    other.step();
    std::array<ibv_wc, 64> found;
    const int count = ibv_poll_cq(completions.get(), static_cast<int>(found.size()), found.data());
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = found[static_cast<size_t>(i)];
      ASSERT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
      ASSERT_EQ(tagOf(completion.wr_id), kTag);
      const uint32_t position = positionOf(completion.wr_id);
      longest_silence = std::max(longest_silence, position - queue->completedPosition());
      queue->complete(position, read_slots);
    }
    ASSERT_LT(queue->postedPosition() - queue->completedPosition(), queue->pair().size().sends);
  }
  bool until(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      step();
      if (HasFatalFailure() || std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
  }

  Device device = openDevice("RDMA_DEV0");
  Regions regions;
  RegisteredPool blocks{device};
  HeadPool heads{blocks};
  SendScratch scratch;
  SendCounts counts;
  const SendQueue::Parts parts{heads, blocks, regions, scratch, counts, 256, TxBuffer::kChunkCountMax + 1};
  CountingOwner owner;
  TakingEnd other{200};
  CompletionQueue completions;
  ReceiveBuffers receives{device, 16, [] {}};
  std::unique_ptr<SendQueue> queue;
  std::vector<uint16_t> read_slots;
  uint64_t sent_count = 0;
  uint32_t longest_silence = 0;  // requests from one completion to the next
};

// Every owner is released, however many messages are sent at once, and although nothing is sent behind them.
TEST_F(VerbsSendQueue, EveryOwnerIsReleasedWithoutAnotherSend) {
  open(256);
  for (const uint32_t count : {1u, 2u, 31u, 32u, 33u, 63u, 64u, 65u, 100u, 200u, 300u}) {
    for (uint32_t i = 0; i < count; ++i) send(32, 1000);
    const bool posts_at_once = count <= 200;
    ASSERT_TRUE(queue->post());
    EXPECT_EQ(queue->hasWaiting(), !posts_at_once);
    EXPECT_TRUE(queue->awaitsCompletion());
    ASSERT_TRUE(until([&] {
      if (!posts_at_once) EXPECT_TRUE(queue->post());
      return owner.releasedOnce() == owner.borrowedCount();
    })) << count;
    EXPECT_TRUE(queue->isEmpty());
  }
  EXPECT_LE(longest_silence, uint32_t{SendScratch::kRequestsMax}) << "a completion for each chain";
  EXPECT_TRUE(until([&] { return other.taken_count == sent_count; }));
}

// One message borrows bytes, among many that borrow nothing and ask for no completion.
TEST_F(VerbsSendQueue, AnOwnerDoesNotWaitForThoseWhoAskForNothing) {
  open(256);
  for (uint32_t before = 0; before < 40; ++before) {
    for (uint32_t i = 0; i < before; ++i) {
      send(32, 0);
      ASSERT_TRUE(queue->post()) << "each by itself";
    }
    send(32, 1000);
    ASSERT_TRUE(queue->post());
    ASSERT_TRUE(until([&] { return owner.releasedOnce() == owner.borrowedCount(); })) << before;
  }
  EXPECT_TRUE(until([&] { return other.taken_count == sent_count; }));
}

TEST_F(VerbsSendQueue, NoMoreIsPostedThanThereIsRoomFor) {
  std::mt19937 random(1);
  const auto upTo = [&](uint32_t most) { return static_cast<uint32_t>(random() % (most + 1)); };
  for (const uint32_t sends : {12u, 67u, 256u}) {
    open(sends);
    std::vector<std::pair<Block*, uint32_t>> reads;
    std::vector<uint16_t> expected_slots;
    read_slots.clear();
    for (uint32_t i = 0; i < 3000; ++i) {
      switch (upTo(9)) {
        case 0: {
          VerbsHeader header{};
          header.kind = VerbsKind::ResponseWritten;
          queue->write(header, message(upTo(200), 20'000), other.pieceToWrite());
          ++sent_count;
          break;
        }
        case 1: {
          const std::array pieces = {other.pieceToRead(1000 + upTo(1000)), other.pieceToRead(1),
                                     other.pieceToRead(5000)};
          const uint32_t bytes = pieces[0].bytes + pieces[1].bytes + pieces[2].bytes;
          reads.emplace_back(blocks.take(bytes), bytes);
          expected_slots.push_back(static_cast<uint16_t>(i));
          queue->read(expected_slots.back(), *reads.back().first, pieces);
          break;
        }
        case 2:
          send(upTo(200), 300 + upTo(10'000));
          break;
        default:
          send(upTo(1000), 0);
      }
      if (upTo(3) == 0) ASSERT_TRUE(queue->post());
      if (upTo(7) == 0) ASSERT_NO_FATAL_FAILURE(step());
      // The queue does not bound what waits in it: its users do.
      ASSERT_TRUE(until([&] {
        EXPECT_TRUE(queue->post());
        return queue->waitingCount() < 100;
      }));
    }
    ASSERT_TRUE(until([&] {
      EXPECT_TRUE(queue->post());
      return !queue->hasWaiting() && !queue->awaitsCompletion() && other.taken_count == sent_count;
    }));
    EXPECT_EQ(owner.releasedOnce(), owner.borrowedCount());
    EXPECT_EQ(read_slots, expected_slots) << "each once, and in order";
    for (const auto& [block, bytes] : reads) {
      EXPECT_TRUE(
          std::ranges::all_of(std::span(block->bytes(), bytes), [](std::byte byte) { return byte == kTheirs; }));
      blocks.drop(block);
    }
    queue.reset();
    other.pair = std::move(QueuePair::make(
                               {other.device, other.completions.get(), other.completions.get(), other.receives.queue()},
                               {16, 1, 0}, true, 200))
                     .value();
  }
}

}  // namespace
}  // namespace ramcore::transport::verbs
