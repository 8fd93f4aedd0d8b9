/// Which replicas are said to be short after a loss of power, and for how long.
#include "tests/unit/backup/store_fixture.h"

namespace ramcore::backup {
namespace {

using Flags = wire::WriteReplica;

class ShortReplica : public testing::Test {
 protected:
  ShortReplica() : segment(kCluster, kMaster, SegmentId(3)) {
    segment.addDigest({}, {SegmentId(3)});
    for (int i = 0; i < 8; ++i) segment.addObject(TableId(1), "key" + std::to_string(i), std::string(700, 'x'));
  }
  uint32_t endOf(size_t groups) const { return segment.groupEnds()[groups - 1]; }

  /// Opens the segment, flushed, with its first groups.
  void openReplica(uint64_t epoch = 1) {
    const log::Certificate first = segment.certificate(endOf(3), epoch, false);
    auto written = world.store->write(StoreWorld::makeWrite(kMaster, segment, epoch, 0, endOf(3), Flags::kOpen, first));
    ASSERT_EQ(written.status, Status::Ok);
    ASSERT_EQ(world.flush(written), Status::Ok);
  }
  FrameStore::Written append(size_t from, size_t to, bool closed = false, uint64_t epoch = 1) {
    return world.store->write(StoreWorld::makeWrite(kMaster, segment, epoch, endOf(from), endOf(to), 0,
                                                    segment.certificate(endOf(to), epoch, closed)));
  }
  bool mayBeShort() {
    const StoreWorld::Loaded loaded = world.load(kMaster, segment.id());
    EXPECT_EQ(loaded.status, Status::Ok);
    return world.store->mayBeShort(loaded.certificate);
  }

  StoreWorld world;
  SegmentMaker segment;
};

TEST_F(ShortReplica, AnOpenOneThatCameThroughALossOfPower) {
  world.start();
  openReplica();
  EXPECT_FALSE(mayBeShort());
  ASSERT_EQ(append(3, 4).status, Status::Ok);
  world.restart();
  EXPECT_FALSE(mayBeShort()) << "the process alone died";
  EXPECT_EQ(world.store->doubtfulCount(), 0u);
  world.losePower();
  EXPECT_TRUE(mayBeShort());
  EXPECT_EQ(world.store->doubtfulCount(), 1u);
}

TEST_F(ShortReplica, ItIsNotForgottenWhenTheProcessIsStartedAgain) {
  world.start();
  openReplica();
  world.losePower();
  for (int life = 0; life < 3; ++life) {
    world.restart();
    EXPECT_TRUE(mayBeShort()) << life;
  }
  ASSERT_EQ(world.closeCleanly(), Status::Ok);
  world.restart();
  EXPECT_TRUE(mayBeShort()) << "it has been flushed as it is, and it is as short as before";
  world.losePower();
  world.losePower();
  EXPECT_TRUE(mayBeShort());
}

TEST_F(ShortReplica, ItIsNotForgottenWhereverTheNextLifeEnds) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    StoreWorld machine(seed);
    machine.start();
    auto written = machine.put(kMaster, segment, 1, false);
    ASSERT_EQ(machine.flush(written), Status::Ok);
    machine.disk.losePower();
    machine.close();
    ASSERT_EQ(machine.open(), Status::Ok);
    runtime::Task<Status> begin = machine.onExecutor([&] { return machine.store->begin(ServerId(102), kCluster); });
    for (uint64_t steps = seed % 24; steps > 0; --steps) machine.scheduler.step();
    if (seed % 3 == 0) machine.disk.losePower();
    if (seed % 3 != 0) machine.disk.killProcess();
    machine.runUntil([&] { return begin.isDone(); });
    machine.close();
    machine.start();
    const StoreWorld::Loaded loaded = machine.load(kMaster, segment.id());
    ASSERT_EQ(loaded.status, Status::Ok);
    EXPECT_TRUE(machine.store->mayBeShort(loaded.certificate));
  }
}

TEST_F(ShortReplica, AClosedOneIsWhole) {
  world.start();
  openReplica();
  auto closed = append(3, 8, true);
  ASSERT_EQ(world.flush(closed), Status::Ok);
  world.losePower();
  EXPECT_FALSE(mayBeShort());
}

TEST_F(ShortReplica, OneThatWasClosedWithoutAFlushIsWholeOrShort) {
  uint64_t whole = 0;
  uint64_t is_short = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    StoreWorld machine(seed);
    machine.start();
    const log::Certificate open = segment.certificate(endOf(3), 1, false);
    auto written = machine.store->write(StoreWorld::makeWrite(kMaster, segment, 1, 0, endOf(3), Flags::kOpen, open));
    ASSERT_EQ(machine.flush(written), Status::Ok);
    ASSERT_EQ(machine.store
                  ->write(StoreWorld::makeWrite(kMaster, segment, 1, endOf(3), segment.length(), 0,
                                                segment.certificate(segment.length(), 1, true)))
                  .status,
              Status::Ok);
    machine.losePower();
    const StoreWorld::Loaded loaded = machine.load(kMaster, segment.id());
    ASSERT_EQ(loaded.status, Status::Ok);
    EXPECT_NE(loaded.certificate.closed, machine.store->mayBeShort(loaded.certificate)) << seed;
    ++(loaded.certificate.closed ? whole : is_short);
  }
  EXPECT_GT(is_short, 50u);
}

TEST_F(ShortReplica, AfterACleanStopNothingCanBeLost) {
  world.start();
  openReplica();
  ASSERT_EQ(append(3, 6).status, Status::Ok);
  ASSERT_EQ(world.closeCleanly(), Status::Ok);
  EXPECT_EQ(append(6, 7).status, Status::RetryLater);
  world.losePower();
  EXPECT_FALSE(mayBeShort());
  EXPECT_EQ(world.load(kMaster, segment.id()).certificate.length_bytes, endOf(6));
  world.losePower();
  EXPECT_TRUE(mayBeShort()) << "the life after it did not end like that";
}

TEST_F(ShortReplica, ACleanStopWhoseFlushFailsIsNone) {
  world.start();
  openReplica();
  ASSERT_EQ(append(3, 6).status, Status::Ok);
  world.disk.failFlushes(1);
  EXPECT_EQ(world.closeCleanly(), Status::IoError);
  world.losePower();
  EXPECT_TRUE(mayBeShort());
}

// Bytes that were not flushed are lost sector by sector. The superblock may be among those that are lost, or among
// those that are left.
TEST_F(ShortReplica, WhatADiskThatLiesHasLostAroundACleanStopIsNotTakenForWhole) {
  uint64_t lost = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE(seed);
    StoreWorld machine(seed);
    machine.start();
    const bool lies_before = seed % 2 == 0;  // else only after the clean stop
    if (!lies_before) {
      ASSERT_EQ(machine.closeCleanly(), Status::Ok);
      machine.restart();
    }
    machine.disk.setLying(true);
    uint32_t answered = 0;
    for (size_t groups = 3; groups <= 6; ++groups) {
      auto written = machine.store->write(
          StoreWorld::makeWrite(kMaster, segment, 1, groups == 3 ? 0 : endOf(groups - 1), endOf(groups),
                                groups == 3 ? Flags::kOpen : 0, segment.certificate(endOf(groups), 1, false)));
      ASSERT_EQ(machine.flush(written), Status::Ok);
      answered = endOf(groups);
      // One of the flushes may reach the disk.
      machine.disk.setLying(groups == seed % 8 ? false : true);
    }
    if (lies_before) ASSERT_EQ(machine.closeCleanly(), Status::Ok);
    machine.losePower();
    const StoreWorld::Loaded loaded = machine.load(kMaster, segment.id());
    if (loaded.status != Status::Ok || loaded.certificate.length_bytes >= answered) continue;
    ++lost;
    EXPECT_TRUE(machine.store->mayBeShort(loaded.certificate));
    machine.restart();
    EXPECT_TRUE(machine.store->mayBeShort(machine.load(kMaster, segment.id()).certificate));
  }
  EXPECT_GT(lost, 50u);
}

// The disk may lie about the marks of an earlier loss, too.
TEST_F(ShortReplica, MarksThatADiskHasLostAreMissed) {
  uint64_t unmarked = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    StoreWorld machine(seed);
    machine.start();
    auto written = machine.put(kMaster, segment, 1, false);
    ASSERT_EQ(machine.flush(written), Status::Ok);
    machine.disk.losePower();
    machine.close();
    machine.disk.setLying(true);
    machine.start();
    ASSERT_EQ(machine.closeCleanly(), Status::Ok);
    machine.disk.losePower();
    machine.close();
    ASSERT_EQ(machine.open(), Status::Ok);
    unmarked += machine.store->formerServer() == ServerId(102) ? 1 : 0;
    const StoreWorld::Loaded loaded = machine.load(kMaster, segment.id());
    ASSERT_EQ(loaded.status, Status::Ok);
    EXPECT_TRUE(machine.store->mayBeShort(loaded.certificate));
  }
  EXPECT_GT(unmarked, 50u);
}

TEST_F(ShortReplica, WhereNobodyCanTellWhetherPowerWasLostItWas) {
  world.disk.hidePowerEpoch();
  world.start();
  openReplica();
  ASSERT_EQ(world.closeCleanly(), Status::Ok);
  world.restart();
  EXPECT_FALSE(mayBeShort());
  world.restart();
  EXPECT_TRUE(mayBeShort());
}

TEST_F(ShortReplica, WithOneSuperblockDamagedPowerMayHaveBeenLost) {
  world.start();
  openReplica();
  world.close();
  world.disk.flipBit("frames", 4096 * 8 + 300);
  world.start();
  EXPECT_TRUE(mayBeShort());
}

TEST_F(ShortReplica, OneWhoseEndHasRottenIsShort) {
  world.start();
  openReplica();
  auto written = append(3, 5);
  ASSERT_EQ(written.status, Status::Ok);
  world.close();
  const uint64_t data = FrameFile::fileBytes(written.frame, kSegmentBytes) + kBlockBytes;
  world.disk.flipBit("frames", (data + endOf(4)) * 8);
  world.start();
  EXPECT_EQ(world.load(kMaster, segment.id()).certificate.length_bytes, endOf(3));
  EXPECT_TRUE(mayBeShort());
}

TEST_F(ShortReplica, TheNextReplicaOfTheSegmentIsNotShort) {
  world.start();
  openReplica();
  world.losePower();
  openReplica(2);
  EXPECT_FALSE(mayBeShort());
  world.restart();
  EXPECT_FALSE(mayBeShort());

  // The same with the new replica in the very frame that has the mark.
  StoreWorld machine;
  machine.start();
  auto first = machine.put(kMaster, segment, 1, false);
  ASSERT_EQ(machine.flush(first), Status::Ok);
  machine.losePower();
  machine.store->free(kMaster, segment.id());
  auto second = machine.put(kMaster, segment, 2, false);
  ASSERT_EQ(second.frame, first.frame);
  machine.restart();
  const StoreWorld::Loaded loaded = machine.load(kMaster, segment.id());
  ASSERT_EQ(loaded.status, Status::Ok);
  EXPECT_FALSE(machine.store->mayBeShort(loaded.certificate));
}

TEST_F(ShortReplica, WhatWasClosedAndFreedNeverComesBackAsOpen) {
  uint64_t came_back = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    StoreWorld machine(seed, 6);
    machine.start();
    for (size_t groups : {2, 4}) {
      auto written = machine.store->write(StoreWorld::makeWrite(kMaster, segment, 1, groups == 2 ? 0 : endOf(2),
                                                                endOf(groups), groups == 2 ? Flags::kOpen : 0,
                                                                segment.certificate(endOf(groups), 1, false)));
      ASSERT_EQ(machine.flush(written), Status::Ok);
    }
    auto closed = machine.store->write(StoreWorld::makeWrite(kMaster, segment, 1, endOf(4), segment.length(), 0,
                                                             segment.certificate(segment.length(), 1, true)));
    ASSERT_EQ(machine.flush(closed), Status::Ok);
    const uint64_t free_before = machine.store->stats().frames_free;
    if (seed % 2 == 0) machine.restart();
    machine.store->free(kMaster, segment.id());
    // After a restart, the flush with which that life begins has covered the removal of the open certificates already.
    EXPECT_EQ(machine.store->stats().frames_free, free_before + (seed % 2 == 0 ? 1 : 0))
        << "not before its open certificates are gone";
    for (uint64_t steps = seed % 7; steps > 0; --steps) machine.scheduler.step();
    // Its frame is used again, if it is free by now.
    for (uint64_t id = 10; id < 16; ++id) {
      SegmentMaker next(kCluster, kMaster, SegmentId(id));
      next.addObject(TableId(1), "key", std::string(300, 'y'));
      (void)machine.put(kMaster, next, 1, false);
    }
    machine.losePower();
    const StoreWorld::Loaded loaded = machine.load(kMaster, segment.id());
    if (loaded.status != Status::Ok) continue;
    ++came_back;
    EXPECT_TRUE(loaded.certificate.closed) << seed;
  }
  EXPECT_GT(came_back, 50u);
}

}  // namespace
}  // namespace ramcore::backup
