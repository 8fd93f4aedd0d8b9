/// What the check of replicas says of segments that were compacted in memory.

#include "sim/cluster/replica_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "log/format/log_reader.h"
#include "sim/master_fixture.h"

namespace ramcore::sim::raw {
namespace {

class ReplicaCheckTest : public MasterServiceTest {
 protected:
  const master::Master& master() { return world.servers[0]->master(); }
  const log::Log& log() { return *master().log(); }

  // A small object that stays alive follows on every large one, which is overwritten, so that compactions pay.
  void compact() {
    uint64_t sequence = 0;
    const auto put = [&](const std::string& key, const std::string& value) {
      ++sequence;
      Status status = Status::RetryLater;
      while (status == Status::RetryLater) {
        status = write(key, value, sequence, {.acknowledged = sequence - 1}).status;
      }
      ASSERT_EQ(status, Status::Ok) << name(status);
    };
    const uint64_t end = log().stats().appended_bytes.load() + 8 * log().config().memory_bytes;
    for (uint64_t i = 0; compacted() == nullptr && log().stats().appended_bytes.load() < end; ++i) {
      put("stays" + std::to_string(i), std::string(60, 's'));
      put("goes" + std::to_string(i % 3), std::string(600, 'g'));
    }
  }
  // A segment that was compacted, if there is one.
  const log::Segment* compacted() {
    for (uint32_t i = 0; i < log().pool().slotCount(); ++i) {
      const log::Segment& segment = log().pool().slot(i);
      if (segment.state() == log::SegmentState::Closed && segment.compactionCount() != 0) return &segment;
    }
    return nullptr;
  }
  static std::vector<std::byte> bytesOfSegment(const log::Segment& segment) {
    std::vector<std::byte> bytes(segment.committedBytes());
    segment.copyOut(0, segment.committedBytes(), bytes.data());
    return bytes;
  }
  // Where the last group of entries begins.
  static size_t beginOfLastGroup(ByteSpan bytes) {
    log::SegmentReader reader(bytes);
    size_t begin = 0;
    for (size_t at = 0; !reader.nextGroup().empty(); at = reader.offset()) begin = at;
    return begin;
  }
};

TEST_F(ReplicaCheckTest, OnlyAReplicaThatIsClosedHasToHoldAllThatWasCompacted) {
  compact();
  const log::Segment* const segment = compacted();
  ASSERT_NE(segment, nullptr) << "no segment was compacted";
  const std::vector<std::byte> bytes = bytesOfSegment(*segment);
  const ByteSpan whole(bytes);
  const ByteSpan shorter = whole.first(beginOfLastGroup(whole));
  ASSERT_LT(shorter.size(), whole.size());
  ASSERT_GT(shorter.size(), 0u);
  EXPECT_EQ(compareCompacted(master(), *segment, whole, true), "");
  EXPECT_EQ(compareCompacted(master(), *segment, shorter, true), "holds less than memory");
  EXPECT_EQ(compareCompacted(master(), *segment, shorter, false), "") << "it was read before it was closed";
  EXPECT_EQ(compareCompacted(master(), *segment, whole.first(whole.size() - 1), false), "holds no whole entries");
}

TEST_F(ReplicaCheckTest, WhatMemoryHasLostIsFoundInAReplicaThatIsNotClosed) {
  compact();
  const log::Segment* const segment = compacted();
  ASSERT_NE(segment, nullptr) << "no segment was compacted";
  // The last group twice: as if memory had the second one no more, while the object is alive.
  std::vector<std::byte> bytes = bytesOfSegment(*segment);
  const size_t end = beginOfLastGroup(bytes);
  const std::vector<std::byte> twice(bytes.begin() + static_cast<ptrdiff_t>(end), bytes.end());
  bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(end), twice.begin(), twice.end());
  EXPECT_NE(compareCompacted(master(), *segment, bytes, false).find("of something that memory has lost"),
            std::string::npos);
}

}  // namespace
}  // namespace ramcore::sim::raw
