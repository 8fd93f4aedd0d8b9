#include <gtest/gtest.h>

#include <vector>

#include "runtime/random.h"
#include "transport/memory/buffer_pool.h"
#include "transport/tcp/frame_reader.h"
#include "transport/tcp/send_queue.h"

namespace ramcore::transport::tcp {
namespace {

constexpr uint16_t kSlots = 8;

struct Owner final : ChunkOwner {
  void releaseChunk(uint64_t) noexcept override { ++releases; }
  int releases = 0;
};

class TcpFrames : public ::testing::Test {
 protected:
  wire::FrameHeader headerFor(uint16_t slot, uint32_t sequence = 1) {
    wire::FrameHeader header{};
    header.kind = wire::FrameKind::Request;
    header.slot = slot;
    header.sequence = sequence;
    return header;
  }
  // Pushes a message of `bytes` bytes of a pattern in a head and chunks of `chunk_bytes`.
  void push(uint32_t bytes, uint8_t first, uint32_t chunk_bytes, int64_t borrowed_since_ns = 0) {
    TxMessage message(buffers.takeBuffer(64));
    auto& pattern = patterns.emplace_back(bytes);
    for (std::byte& byte : pattern) byte = std::byte{first++};
    const uint32_t head_bytes = std::min(bytes, 50u);
    message.appendHead(ByteSpan(pattern).first(head_bytes));
    for (uint32_t done = head_bytes; done < bytes; done += std::min(chunk_bytes, bytes - done)) {
      message.appendChunk(Chunk{pattern.data() + done, std::min(chunk_bytes, bytes - done), 0, &owner, 0});
    }
    message->borrowed_since_ns = borrowed_since_ns;
    queue.push(std::move(message), headerFor(0));
  }
  // Takes up to `bytes` bytes off the queue, as a socket would.
  std::vector<std::byte> takeBytes(size_t bytes, size_t pieces_max = 64) {
    std::vector<ByteSpan> pieces(pieces_max);
    pieces.resize(queue.gather(pieces));
    std::vector<std::byte> taken;
    for (const ByteSpan& piece : pieces) {
      const ByteSpan part = piece.first(std::min(piece.size(), bytes - taken.size()));
      taken.insert(taken.end(), part.begin(), part.end());
    }
    queue.advance(taken.size());
    return taken;
  }
  void feed(FrameReader& reader, ByteSpan bytes, std::vector<RxMessage>& out) {
    while (!bytes.empty()) {
      const MutableByteSpan room = reader.room();
      const size_t count = std::min(room.size(), bytes.size());
      std::memcpy(room.data(), bytes.data(), count);
      reader.received(static_cast<uint32_t>(count));
      bytes = bytes.subspan(count);
      for (;;) {
        const FrameStep step = reader.step();
        if (step == FrameStep::Nothing) break;
        ASSERT_EQ(step, FrameStep::Message);
        out.push_back(reader.takeMessage());
      }
    }
  }

  SimpleBufferPool buffers;
  RxBlockPool blocks;
  Owner owner;
  std::vector<std::vector<std::byte>> patterns;
  uint64_t unsent_bytes = 0;
  SendQueue queue{unsent_bytes};
};

TEST_F(TcpFrames, WhatIsQueuedArrivesHoweverItIsCut) {
  runtime::Random random(7);
  for (int round = 0; round < 200; ++round) {
    patterns.clear();
    patterns.reserve(20);
    SharedBlock shared(blocks);
    FrameReader reader(blocks, shared, kSlots);
    std::vector<RxMessage> received;
    const uint64_t count = random.between(1, 20);
    for (uint64_t i = 0; i < count; ++i) {
      const auto bytes = static_cast<uint32_t>(random.chance(0.1) ? random.below(200'000) : random.below(600));
      push(bytes, static_cast<uint8_t>(i), bytes / 30 + 1);
    }
    while (!queue.empty()) {
      const uint64_t left = queue.unsentBytes();
      const std::vector<std::byte> bytes = takeBytes(random.between(1, 30'000), random.between(1, 64));
      ASSERT_EQ(queue.unsentBytes(), left - bytes.size());
      feed(reader, bytes, received);
    }
    ASSERT_EQ(received.size(), patterns.size());
    for (size_t i = 0; i < received.size(); ++i) {
      ASSERT_TRUE(std::ranges::equal(received[i].head(), patterns[i]));
      ASSERT_TRUE(isAligned(reinterpret_cast<uintptr_t>(received[i].head().data()), 8));
    }
  }
}

TEST_F(TcpFrames, AnIdleReaderHoldsNoBlock) {
  SharedBlock shared(blocks);
  FrameReader reader(blocks, shared, kSlots);
  std::vector<RxMessage> received;
  push(100'000, 1, 10'000);
  while (!queue.empty()) feed(reader, takeBytes(999), received);
  ASSERT_EQ(received.size(), 1u);
  received.clear();
  EXPECT_LE(blocks.outstanding(), 1u) << "the shared one";
}

TEST_F(TcpFrames, OwnersAreReleasedWithTheLastByteOfTheirMessage) {
  push(500, 1, 100);
  const uint64_t frame_bytes = queue.unsentBytes();
  push(500, 1, 100);
  takeBytes(frame_bytes - 1);
  EXPECT_EQ(owner.releases, 0);
  EXPECT_FALSE(queue.isAtFrame());
  takeBytes(1);
  EXPECT_EQ(owner.releases, 5);
  EXPECT_TRUE(queue.isAtFrame());
  queue.clear();
  EXPECT_EQ(owner.releases, 10);
}

TEST_F(TcpFrames, WhatWasLentTooLongAgoIsCopiedAndWhatFollowsIsNot) {
  patterns.reserve(3);
  EXPECT_EQ(queue.oldestBorrowedNs(), runtime::kNever);
  push(500, 1, 100, 1000);
  push(300, 9, 100, 2000);
  push(400, 5, 100, 3000);
  EXPECT_EQ(queue.oldestBorrowedNs(), 1000);
  EXPECT_EQ(queue.copyOut(999), 0u);
  EXPECT_EQ(queue.bytesInCopies(2000), 450u + 250u);
  EXPECT_EQ(queue.copyOut(2000), 2u);
  EXPECT_EQ(owner.releases, 5 + 3);
  EXPECT_EQ(queue.oldestBorrowedNs(), 3000);
  EXPECT_EQ(queue.bytesInCopies(0), 450u + 250u);
  takeBytes(queue.unsentBytes());
  EXPECT_EQ(owner.releases, 5 + 3 + 4);
  EXPECT_EQ(queue.oldestBorrowedNs(), runtime::kNever);
}

TEST_F(TcpFrames, CopiedOutBytesNeedTheirOwnersNoMore) {
  patterns.reserve(2);
  push(500, 1, 100);
  push(300, 9, 100);
  std::vector<std::byte> bytes = takeBytes(77);
  queue.copyOut(runtime::kNever);
  EXPECT_EQ(owner.releases, 5 + 3);
  const std::vector<std::vector<std::byte>> kept = patterns;
  for (auto& pattern : patterns) std::fill(pattern.begin(), pattern.end(), std::byte{0xee});
  while (!queue.empty()) {
    const std::vector<std::byte> more = takeBytes(100);
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  EXPECT_EQ(owner.releases, 5 + 3);
  SharedBlock shared(blocks);
  FrameReader reader(blocks, shared, kSlots);
  std::vector<RxMessage> received;
  feed(reader, bytes, received);
  ASSERT_EQ(received.size(), 2u);
  EXPECT_TRUE(std::ranges::equal(received[0].head(), kept[0]));
  EXPECT_TRUE(std::ranges::equal(received[1].head(), kept[1]));
}

TEST_F(TcpFrames, HeadersOutOfRangeAreBad) {
  const auto isBad = [this](auto change) {
    wire::FrameHeader header = headerFor(1);
    header.message_bytes = 16;
    header.head_bytes = 8;
    change(header);
    SharedBlock shared(blocks);
    FrameReader reader(blocks, shared, kSlots);
    std::memcpy(reader.room().data(), &header, sizeof(header));
    reader.received(sizeof(header));
    return reader.step() == FrameStep::Bad;
  };
  EXPECT_FALSE(isBad([](wire::FrameHeader&) {}));
  EXPECT_TRUE(isBad([](wire::FrameHeader& header) { header.message_bytes = wire::kMessageBytesMax + 1; }));
  EXPECT_TRUE(isBad([](wire::FrameHeader& header) { header.head_bytes = 17; }));
  EXPECT_TRUE(isBad([](wire::FrameHeader& header) {
    header.message_bytes = 100'000;
    header.head_bytes = wire::kHeadBytesMax + 1;
  }));
  EXPECT_TRUE(isBad([](wire::FrameHeader& header) { header.slot = kSlots; }));
  EXPECT_TRUE(isBad([](wire::FrameHeader& header) { header.kind = static_cast<wire::FrameKind>(0); }));
  EXPECT_TRUE(isBad([](wire::FrameHeader& header) { header.kind = static_cast<wire::FrameKind>(4); }));
  EXPECT_TRUE(isBad([](wire::FrameHeader& header) { header.priority = 4; }));
  EXPECT_TRUE(isBad([](wire::FrameHeader& header) { header.reserved = 1; }));
  EXPECT_TRUE(isBad([](wire::FrameHeader& header) { header.kind = wire::FrameKind::Close; }));
}

}  // namespace
}  // namespace ramcore::transport::tcp
