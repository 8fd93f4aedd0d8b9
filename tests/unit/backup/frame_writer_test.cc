// Writes that wait for a disk that stands still, and what is done meanwhile. The disk stands still because its thread
// does.
#include "backup/frame_writer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tests/unit/backup/store_fixture.h"
#include "tests/unit/runtime/watched_storage.h"

namespace ramcore::backup {
namespace {

using Flags = wire::WriteReplica;

struct FrameWriterTest : testing::Test {
  FrameWriterTest() : world(1, kFrames) {
    world.write_thread = WriteThread::Disk;
    world.wrap_storage = [this](std::unique_ptr<runtime::Storage> storage) {
      return std::make_unique<runtime::WatchedStorage>(std::move(storage), [this](uint64_t offset) {
        offsets.push_back(offset);
        return offset == refused ? Status::IoError : Status::Ok;
      });
    };
    world.start();
    offsets.clear();
  }

  FrameStore::Written write(const SegmentMaker& segment, uint32_t from, uint32_t to, uint8_t flags = 0,
                            bool closed = false, uint64_t epoch = 1) {
    return world.store->write(
        StoreWorld::makeWrite(kMaster, segment, epoch, from, to, flags, segment.certificate(to, epoch, closed)));
  }
  /// The answer to a write, when there is one.
  runtime::Task<Status> answer(FrameStore::Written written) {
    if (written.status != Status::Ok) co_return written.status;
    co_return co_await world.onExecutor([this, written] { return world.store->written(written); });
  }
  /// Lets everything run that can while the disk stands still.
  void runOthers() { world.scheduler.runUntil(world.scheduler.nowNs() + 50'000'000, 1'000'000); }
  void expectLoaded(const SegmentMaker& segment, uint32_t length, bool closed) {
    const StoreWorld::Loaded loaded = world.load(kMaster, segment.id());
    ASSERT_EQ(loaded.status, Status::Ok);
    EXPECT_EQ(loaded.certificate, segment.certificate(length, 1, closed));
    EXPECT_TRUE(std::ranges::equal(loaded.bytes, segment.bytes(0, length)));
  }
  static uint64_t dataAt(uint32_t frame, uint32_t offset) {
    return FrameFile::fileBytes(frame, kSegmentBytes) + kBlockBytes + offset;
  }

  static constexpr uint32_t kFrames = 6;
  StoreWorld world;
  std::vector<uint64_t> offsets;  // of all writes, as they came to the storage
  std::optional<uint64_t> refused;
};

SegmentMaker makeOwnSegment(uint64_t id, int objects = 6) {
  SegmentMaker segment(kCluster, kMaster, SegmentId(id));
  for (int i = 0; i < objects; ++i) segment.addObject(TableId(1), "key" + std::to_string(i), std::string(100, 'v'));
  return segment;
}

TEST_F(FrameWriterTest, AWriteIsAnsweredWhenTheDiskHasTakenIt) {
  const SegmentMaker segment = makeOwnSegment(3);
  world.disk_thread.pause();
  const FrameStore::Written written = write(segment, 0, segment.length(), Flags::kOpen);
  ASSERT_EQ(written.status, Status::Ok);
  EXPECT_FALSE(world.store->isWritten(written));
  EXPECT_FALSE(world.store->idle());
  auto answered = answer(written);
  // A repeated write brings nothing new, and is not answered before the first one either.
  const FrameStore::Written repeated = write(segment, 0, segment.length(), Flags::kOpen);
  auto again = answer(repeated);
  runOthers();
  EXPECT_FALSE(answered.isDone());
  EXPECT_FALSE(again.isDone());
  EXPECT_TRUE(offsets.empty());
  world.disk_thread.resume();
  EXPECT_EQ(world.run(std::move(answered)), Status::Ok);
  EXPECT_EQ(world.run(std::move(again)), Status::Ok);
  EXPECT_EQ(offsets.size(), 2u) << "data and certificate, once";
  EXPECT_TRUE(world.store->idle());
  expectLoaded(segment, segment.length(), false);
}

TEST_F(FrameWriterTest, WritesOfAFrameAreDoneInTheirOrder) {
  const SegmentMaker segment = makeOwnSegment(3);
  const auto& ends = segment.groupEnds();
  world.disk_thread.pause();
  FrameStore::Written last;
  for (size_t i = 0; i < ends.size(); ++i) {
    last = write(segment, i == 0 ? 0 : ends[i - 1], ends[i], i == 0 ? Flags::kOpen : 0);
    ASSERT_EQ(last.status, Status::Ok);
    EXPECT_EQ(last.length_bytes, ends[i]);
  }
  world.disk_thread.resume();
  EXPECT_EQ(world.run(answer(last)), Status::Ok);
  ASSERT_EQ(offsets.size(), 2 * ends.size());
  for (size_t i = 1; i < ends.size(); ++i) EXPECT_LT(offsets[2 * (i - 1)], offsets[2 * i]) << "data of write " << i;
  expectLoaded(segment, segment.length(), false);
  world.restart();
  expectLoaded(segment, segment.length(), false);
}

TEST_F(FrameWriterTest, AFrameThatIsFreedWhileItsWritesWaitHoldsItsNextReplica) {
  const SegmentMaker former = makeOwnSegment(3, 20);
  const SegmentMaker next = makeOwnSegment(4, 2);
  world.disk_thread.pause();
  const FrameStore::Written of_former = write(former, 0, former.length(), Flags::kOpen);
  auto answered = answer(of_former);
  world.store->free(kMaster, former.id());
  const FrameStore::Written of_next = write(next, 0, next.length(), Flags::kOpen);
  ASSERT_EQ(of_next.status, Status::Ok);
  ASSERT_EQ(of_next.frame, of_former.frame) << "the same frame, or this test says nothing";
  world.disk_thread.resume();
  EXPECT_EQ(world.run(std::move(answered)), Status::NotFound) << "it is not there any more";
  EXPECT_EQ(world.run(answer(of_next)), Status::Ok);
  expectLoaded(next, next.length(), false);
  EXPECT_EQ(world.load(kMaster, former.id()).status, Status::NotFound);
  world.restart();
  expectLoaded(next, next.length(), false);
  EXPECT_EQ(world.load(kMaster, former.id()).status, Status::NotFound);
}

TEST_F(FrameWriterTest, ARecoveryReadsWhatWasTakenBeforeItAsked) {
  const SegmentMaker segment = makeOwnSegment(3);
  const auto& ends = segment.groupEnds();
  ASSERT_EQ(world.run(answer(write(segment, 0, ends[1], Flags::kOpen))), Status::Ok);
  world.disk_thread.pause();
  const FrameStore::Written written = write(segment, ends[1], ends[3]);
  std::vector<std::byte> bytes;
  auto loading = world.store->load(kMaster, segment.id(), world.reader, bytes);
  runOthers();
  EXPECT_FALSE(loading.isDone()) << "the answer to the write may still come, so it has to be in what is read";
  world.disk_thread.resume();
  const Result<log::Certificate> loaded = world.run(std::move(loading));
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(*loaded, segment.certificate(ends[3], 1, false));
  EXPECT_EQ(world.run(answer(written)), Status::Ok);
}

TEST_F(FrameWriterTest, AFlushCoversWhatWaitsForTheDisk) {
  const SegmentMaker former = makeOwnSegment(3);
  const SegmentMaker segment = makeOwnSegment(4, 20);
  FrameStore::Written done = write(former, 0, former.length(), Flags::kOpen, true);
  ASSERT_EQ(world.run(answer(done)), Status::Ok);
  world.disk_thread.pause();
  FrameStore::Written waiting = write(segment, 0, segment.length(), Flags::kOpen, true);
  // The flush has to cover the writes that were taken before it was asked for, so it does not begin before they are
  // done.
  auto flushed = world.onExecutor([&] { return world.store->flushed(done); });
  runOthers();
  EXPECT_FALSE(flushed.isDone());
  world.disk_thread.resume();
  EXPECT_EQ(world.run(std::move(flushed)), Status::Ok);
  EXPECT_EQ(world.flush(waiting), Status::Ok);
  EXPECT_EQ(waiting.flushed_bytes, segment.length());
  EXPECT_EQ(world.store->stats().flushes.load(), 3u) << "two of the beginning, and one for both";
  world.losePower();
  expectLoaded(former, former.length(), true);
  expectLoaded(segment, segment.length(), true);
}

TEST_F(FrameWriterTest, AWriteThatFailsTakesThoseBehindItWithIt) {
  const SegmentMaker segment = makeOwnSegment(3);
  const auto& ends = segment.groupEnds();
  const FrameStore::Written first = write(segment, 0, ends[1], Flags::kOpen);
  ASSERT_EQ(world.run(answer(first)), Status::Ok);
  world.disk_thread.pause();
  refused = dataAt(first.frame, ends[1]);
  FrameStore::Written second = write(segment, ends[1], ends[2]);
  FrameStore::Written third = write(segment, ends[2], ends[3]);
  FrameStore::Written closing = write(segment, ends[3], ends[4], 0, true);
  auto second_answer = answer(second);
  auto third_answer = answer(third);
  auto flushed = world.onExecutor([&] { return world.store->flushed(closing); });
  offsets.clear();
  world.disk_thread.resume();
  EXPECT_EQ(world.run(std::move(second_answer)), Status::IoError);
  EXPECT_EQ(world.run(std::move(third_answer)), Status::IoError);
  EXPECT_EQ(world.run(std::move(flushed)), Status::IoError);
  EXPECT_EQ(offsets.size(), 1u) << "certificates of bytes that are not there would overwrite good ones";
  // The writes that were answered are there, and no more is taken for this replica.
  expectLoaded(segment, ends[1], false);
  refused.reset();
  EXPECT_EQ(write(segment, ends[1], ends[2]).status, Status::IoError);
  EXPECT_EQ(write(segment, 0, ends[2], Flags::kOpen).status, Status::IoError);
  // A replica of a later epoch gets a frame of its own.
  EXPECT_EQ(world.run(answer(write(segment, 0, ends[2], Flags::kOpen, false, 2))), Status::Ok);
  world.restart();
  EXPECT_EQ(world.load(kMaster, segment.id()).certificate, segment.certificate(ends[2], 2, false));
}

// A flush fails while the disk has not taken a write that came after it. That write is not answered, so it does not
// count. What was flushed before counts.
TEST_F(FrameWriterTest, WhatWasFlushedIsThereAlsoIfAFlushFailsBesideAWriteThatWaits) {
  const SegmentMaker segment = makeOwnSegment(3);
  const SegmentMaker other = makeOwnSegment(4);
  const auto& ends = segment.groupEnds();
  FrameStore::Written first = write(segment, 0, ends[1], Flags::kOpen);
  ASSERT_EQ(world.flush(first), Status::Ok);
  FrameStore::Written lost = write(other, 0, other.length(), Flags::kOpen);
  ASSERT_EQ(world.run(answer(lost)), Status::Ok);
  world.disk.failFlushes(1);
  world.disk.setFlushTime(100'000'000, 100'000'000);
  auto flushed = world.onExecutor([&] { return world.store->flushed(lost); });
  runOthers();  // the flush has begun
  world.disk_thread.pause();
  const FrameStore::Written waiting = write(segment, ends[1], ends[2]);
  ASSERT_TRUE(waiting.is_queued);
  EXPECT_EQ(world.run(std::move(flushed)), Status::IoError);
  ASSERT_TRUE(world.store->isCondemned());
  refused = dataAt(first.frame, ends[1]);
  world.disk_thread.resume();
  EXPECT_EQ(world.run(answer(waiting)), Status::IoError);
  expectLoaded(segment, ends[1], false);
}

TEST_F(FrameWriterTest, WhatFailedIsNotUndoneInTheNextReplicaOfItsFrame) {
  const SegmentMaker former = makeOwnSegment(3, 20);
  const SegmentMaker next = makeOwnSegment(4, 2);
  world.disk_thread.pause();
  const FrameStore::Written of_former = write(former, 0, former.length(), Flags::kOpen);
  refused = dataAt(of_former.frame, 0);
  bool once = false;
  world.store->free(kMaster, former.id());
  const FrameStore::Written of_next = write(next, 0, next.length(), Flags::kOpen);
  ASSERT_EQ(of_next.frame, of_former.frame);
  world.disk_thread.resume();
  world.runUntil([&] {
    if (!offsets.empty() && !once) refused.reset(), once = true;
    return world.store->idle();
  });
  EXPECT_EQ(world.run(answer(of_next)), Status::Ok);
  expectLoaded(next, next.length(), false);
}

TEST_F(FrameWriterTest, WhatWaitsIsBounded) {
  const SegmentMaker segment = makeOwnSegment(3, 90);
  world.disk_thread.pause();
  uint64_t taken = 0;
  Status status = Status::Ok;
  for (uint64_t epoch = 1; status == Status::Ok; ++epoch) {
    status =
        world.store->write(StoreWorld::makeWrite(kMaster, segment, epoch, 0, segment.length(), Flags::kOpen)).status;
    if (status == Status::Ok) taken += segment.length();
    world.store->free(kMaster, segment.id());
    ASSERT_LE(taken, FrameWriter::kQueuedBytesMax);
  }
  EXPECT_EQ(status, Status::RetryLater);
  EXPECT_GT(taken, FrameWriter::kQueuedBytesMax / 2);
  EXPECT_LE(world.store->writer().queuedBytes(), FrameWriter::kQueuedBytesMax + (1u << 20));
  world.disk_thread.resume();
  world.runUntil([&] { return world.store->idle(); });
  EXPECT_EQ(world.store->writer().queuedBytes(), 0u);
  EXPECT_EQ(write(segment, 0, segment.length(), Flags::kOpen, false, 1 << 20).status, Status::Ok);
  world.runUntil([&] { return world.store->idle(); });
}

TEST_F(FrameWriterTest, AStorageIsClosedBehindWhatWaits) {
  const SegmentMaker segment = makeOwnSegment(3);
  world.disk_thread.pause();
  ASSERT_EQ(write(segment, 0, segment.length(), Flags::kOpen).status, Status::Ok);
  auto closing = world.onExecutor([&] { return world.store->close(); });
  runOthers();
  EXPECT_FALSE(closing.isDone());
  world.disk_thread.resume();
  EXPECT_EQ(world.run(std::move(closing)), Status::Ok);
  world.losePower();
  EXPECT_EQ(world.store->doubtfulCount(), 0u) << "it was closed in order";
  expectLoaded(segment, segment.length(), false);
}

/// Writes on the thread that gives them, which is the test's: it sleeps while time passes between two writes, and a
/// write may take time as well, with the thread waiting for the disk or kept from its processor.
struct FrameWriterGaugeTest : testing::Test {
  FrameWriterGaugeTest() : world(1, 6) {
    world.wrap_storage = [this](std::unique_ptr<runtime::Storage> storage) {
      return std::make_unique<runtime::WatchedStorage>(
          std::move(storage),
          [this](uint64_t) {
            if (takes_ns != 0) pass(std::exchange(takes_ns, 0));
            if (makes_wait) ++waits;
            return Status::Ok;
          },
          [this] {
            ++asked;
            return waits;
          });
    };
    world.start();
    asked = 0;
  }

  void pass(int64_t duration_ns) { world.scheduler.runUntil(world.scheduler.nowNs() + duration_ns, 1'000'000); }
  /// The thread sleeps once, and wakes up for a job that has nothing to do with the disk.
  void sleep() {
    const uint64_t before = world.executor.sleeps();
    EXPECT_EQ(world.run(world.onExecutor([]() -> runtime::Task<Status> { co_return Status::Ok; })), Status::Ok);
    EXPECT_NE(world.executor.sleeps(), before);
    ++waits;
  }
  /// Writes the next group, and returns whether the disk's thread does it.
  bool isHandedOver() {
    const uint32_t end = segment.groupEnds()[next];
    const FrameStore::Written written = world.store->write(StoreWorld::makeWrite(
        kMaster, segment, 1, from, end, next == 0 ? Flags::kOpen : 0, segment.certificate(end, 1, false)));
    EXPECT_EQ(written.status, Status::Ok);
    from = end;
    ++next;
    return written.is_queued;
  }

  StoreWorld world;
  const SegmentMaker segment = makeOwnSegment(3, 20);
  size_t next = 0;
  uint32_t from = 0;
  int64_t takes_ns = 0;     // of the next write
  bool makes_wait = false;  // a write makes its thread wait
  uint64_t waits = 5;
  int asked = 0;
};

TEST_F(FrameWriterGaugeTest, TheSystemIsAskedOnceForEachTimeThatTheThreadSlept) {
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(isHandedOver());
  EXPECT_EQ(asked, 1);
  sleep();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(isHandedOver());
  EXPECT_EQ(asked, 2);
}

TEST_F(FrameWriterGaugeTest, AWriteThatMakesItsThreadWaitIsTheLastOneThere) {
  EXPECT_FALSE(isHandedOver());
  sleep();
  EXPECT_FALSE(isHandedOver());
  takes_ns = 500'000'000;
  makes_wait = true;
  EXPECT_FALSE(isHandedOver());
  EXPECT_TRUE(isHandedOver());
  world.runUntil([&] { return world.store->idle(); });
}

TEST_F(FrameWriterGaugeTest, AThreadThatLostItsProcessorGoesOnWriting) {
  EXPECT_FALSE(isHandedOver());
  // A wait during the sleep has nothing to do with the disk.
  sleep();
  takes_ns = 500'000'000;
  EXPECT_FALSE(isHandedOver());
  EXPECT_FALSE(isHandedOver());
}

}  // namespace
}  // namespace ramcore::backup
