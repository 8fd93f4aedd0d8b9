#include "backup/frame_flushes.h"

#include <gmock/gmock.h>

#include "tests/unit/backup/store_fixture.h"

namespace ramcore::backup {
namespace {

using testing::ElementsAre;

struct FrameFlushesTest : testing::Test {
  struct Owner final : FrameWriter::Owner, FrameFlushes::Owner {
    void onWritten(const FrameWrite&, const FrameMark&, Status) override {}
    void onFlushed(Status status) override { flushed.push_back(status); }
    std::vector<Status> flushed;
  };

  FrameFlushesTest()
      : file(openIn(world)),
        order(*file, owner, world.executor, world.disk_thread, WriteThread::Dispatch),
        flushes(*file, frames, order, stats, world.executor, owner) {}
  static std::unique_ptr<FrameFile> openIn(StoreWorld& world) {
    world.storage = world.disk.open().value();
    return FrameFile::open(*world.storage, world.options).value();
  }
  /// The storage frame has a certificate for so many bytes, in the page cache.
  void certify(uint32_t frame, uint32_t length_bytes) {
    frames[frame].certified = true;
    frames[frame].certificate.length_bytes = length_bytes;
    order.drawStamp();
    order.noteAllDone();
    flushes.noteUnflushed(frame);
  }
  Status flush(uint64_t stamp) {
    return world.run(world.onExecutor([this, stamp] { return flushes.flushedUpTo(stamp); }));
  }

  StoreWorld world;
  Owner owner;
  StoreStats stats;
  FrameTable frames{16};
  std::unique_ptr<FrameFile> file;
  WriteOrder order;
  FrameFlushes flushes;
};

TEST_F(FrameFlushesTest, AFlushCoversTheCertificatesThatWereThereWhenItBegan) {
  certify(4, 100);
  flushes.want(1);
  EXPECT_TRUE(flushes.isBeingFlushed(1));
  certify(4, 200);
  EXPECT_FALSE(flushes.isBeingFlushed(2));
  world.runUntil([this] { return flushes.isFlushed(1); });
  EXPECT_FALSE(flushes.isFlushed(2));
  EXPECT_EQ(frames[4].flushed_bytes, 100u);
  EXPECT_EQ(flush(2), Status::Ok);
  EXPECT_EQ(frames[4].flushed_bytes, 200u);
  EXPECT_THAT(owner.flushed, ElementsAre(Status::Ok, Status::Ok));
  EXPECT_TRUE(flushes.isIdle());
}

TEST_F(FrameFlushesTest, AFrameThatIsUsedAgainHasNothingOfTheFlush) {
  certify(4, 100);
  flushes.want(1);
  ++frames[4].generation;
  world.runUntil([this] { return flushes.isFlushed(1); });
  EXPECT_EQ(frames[4].flushed_bytes, 0u);
}

TEST_F(FrameFlushesTest, AFlushBeginsWhenTheWritesThatItCoversAreDone) {
  order.drawStamp();
  flushes.want(1);
  world.scheduler.runUntil(world.scheduler.nowNs() + runtime::kNanosPerSecond, 1'000'000);
  EXPECT_FALSE(flushes.isFlushed(1));
  EXPECT_EQ(world.disk.counts().flushes, 0u);
  order.noteDone(1);
  flushes.onDone();
  EXPECT_EQ(flush(1), Status::Ok);
  EXPECT_EQ(stats.flushes.load(), 1u);
}

TEST_F(FrameFlushesTest, AFailedFlushCondemnsTheFile) {
  certify(4, 100);
  EXPECT_EQ(flush(1), Status::Ok);
  certify(4, 200);
  world.disk.failFlushes(1);
  EXPECT_EQ(flush(2), Status::IoError);
  EXPECT_TRUE(flushes.isCondemned());
  EXPECT_EQ(frames[4].flushed_bytes, 100u);
  EXPECT_EQ(flush(2), Status::IoError) << "another flush proves nothing";
  EXPECT_EQ(flush(1), Status::Ok) << "was flushed before";
  EXPECT_THAT(owner.flushed, ElementsAre(Status::Ok, Status::IoError));
}

}  // namespace
}  // namespace ramcore::backup
