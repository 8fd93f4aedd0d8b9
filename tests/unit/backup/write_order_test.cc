#include "backup/write_order.h"

#include <utility>

#include "tests/unit/backup/store_fixture.h"

namespace ramcore::backup {
namespace {

struct WriteOrderTest : testing::Test {
  struct Owner final : FrameWriter::Owner {
    void onWritten(const FrameWrite&, const FrameMark& mark, Status status) override {
      EXPECT_EQ(status, Status::Ok);
      order->noteDone(mark.stamp);
    }
    WriteOrder* order = nullptr;
  };

  explicit WriteOrderTest(WriteThread thread = WriteThread::Disk)
      : file(openIn(world)), order(*file, owner, world.executor, world.disk_thread, thread) {
    owner.order = &order;
  }
  static std::unique_ptr<FrameFile> openIn(StoreWorld& world) {
    world.storage = world.disk.open().value();
    return FrameFile::open(*world.storage, world.options).value();
  }
  /// Begins at once.
  runtime::Task<Status> wait(uint64_t stamp) {
    co_await order.waitUntilDone(stamp);
    co_return Status::Ok;
  }

  StoreWorld world;
  Owner owner;
  std::unique_ptr<FrameFile> file;
  WriteOrder order;
};

struct OrderOfDispatchTest : WriteOrderTest {
  OrderOfDispatchTest() : WriteOrderTest(WriteThread::Dispatch) {}
};

TEST_F(OrderOfDispatchTest, ZerosAreDoneAtOnce) {
  EXPECT_TRUE(order.clear({.kind = FrameWrite::Kind::ClearFrame, .frame = 2}));
  EXPECT_EQ(order.lastStamp(), 1u);
  EXPECT_EQ(order.doneStamp(), 1u);
  EXPECT_EQ(order.stampDone(), 2u);
  EXPECT_EQ(order.doneStamp(), 2u);
  EXPECT_TRUE(wait(2).isDone());
}

TEST_F(WriteOrderTest, QueuedZerosAreDoneWhenTheDiskHasThem) {
  EXPECT_TRUE(order.clear({.kind = FrameWrite::Kind::ClearFrame, .frame = 2}));
  EXPECT_TRUE(order.clear({.kind = FrameWrite::Kind::ClearSlot, .frame = 3, .slot = 1}));
  EXPECT_EQ(order.lastStamp(), 2u);
  EXPECT_EQ(order.doneStamp(), 0u);
  EXPECT_EQ(world.run(wait(2)), Status::Ok);
  EXPECT_EQ(order.doneStamp(), 2u);
  EXPECT_TRUE(order.writer().isIdle());
}

TEST_F(WriteOrderTest, WakesThoseWhoseWritesAreOver) {
  for (int i = 0; i < 3; ++i) order.drawStamp();
  auto third = wait(3);
  auto first = wait(1);
  auto second = wait(2);
  order.noteDone(2);
  world.runUntil([&] { return first.isDone() && second.isDone(); });
  EXPECT_FALSE(third.isDone());
  order.noteDone(3);
  world.runUntil([&] { return third.isDone(); });
}

}  // namespace
}  // namespace ramcore::backup
