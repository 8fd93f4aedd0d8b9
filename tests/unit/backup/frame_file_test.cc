#include "backup/frame_file.h"

#include "base/crc32c.h"
#include "base/hash.h"
#include "tests/unit/backup/store_fixture.h"
#include "tests/unit/wire/hex.h"

namespace ramcore::backup {
namespace {

/// The file's bytes, read and changed behind the store's back.
struct FileBytes {
  explicit FileBytes(StoreWorld& world) : storage(world.disk.open().value()), file(storage->open("frames").value()) {}
  std::vector<std::byte> read(uint64_t at, size_t count) {
    std::vector<std::byte> bytes(count);
    EXPECT_EQ(file->read(at, bytes), Status::Ok);
    return bytes;
  }
  void write(uint64_t at, ByteSpan bytes) { EXPECT_EQ(file->write(at, bytes), Status::Ok); }

  std::unique_ptr<runtime::Storage> storage;
  std::unique_ptr<runtime::StorageFile> file;
};

TEST(FrameFile, SuperblockBytes) {
  StoreWorld world(1, 16, 0x4000);
  world.last_id = 0x1817161514131210;
  world.start();
  world.close();
  FileBytes file(world);
  const auto slot = file.read(4096, 64);
  EXPECT_EQ(wire::hexOf(ByteSpan(slot).first(60)),
            wire::withoutBlanks("5246726146696c65"  // "RFraFile"
                                "04000000 10000000"
                                "0200000000000000"  // generation
                                "0700000000000000"  // cluster
                                "1112131415161718"  // server
                                "00400000 00100000"
                                "0100000000000000 00000000"));  // power epoch, not clean
  EXPECT_EQ(loadAs<uint32_t>(slot.data() + 60), crc32c(ByteSpan(slot).first(60)));
  EXPECT_EQ(file.file->bytes(), 8192u + 16 * (4096 + 0x4000));
}

// Takes four frames, so that the next replica gets the fifth.
void takeFourFrames(StoreWorld& world) {
  for (uint64_t id = 101; id < 105; ++id) {
    const SegmentMaker segment(kCluster, ServerId(7), SegmentId(id));
    ASSERT_EQ(world.put(ServerId(7), segment, 1, true).status, Status::Ok);
  }
}

TEST(FrameFile, FramesBeginBehindTheSuperblocksWithTheirSlotsInSectors) {
  StoreWorld world;
  world.start();
  const SegmentMaker segment(kCluster, ServerId(5), SegmentId(3));
  takeFourFrames(world);
  auto written = world.put(ServerId(5), segment, 1, false);
  ASSERT_EQ(written.status, Status::Ok);
  ASSERT_EQ(written.frame, 4u);
  const log::Certificate second = segment.certificate(segment.length(), 2, false);
  ASSERT_EQ(
      world.store->write(StoreWorld::makeWrite(ServerId(5), segment, 2, segment.length(), segment.length(), 0, second))
          .status,
      Status::Ok);
  world.close();
  FileBytes file(world);
  const uint64_t header = 8192 + 4 * (4096 + kSegmentBytes);
  const auto first = log::encodeCertificate(segment.certificate(segment.length(), 1, false));
  EXPECT_EQ(wire::hexOf(file.read(header, 56)), wire::hexOf(bytesOf(first)));
  EXPECT_EQ(wire::hexOf(file.read(header + 512, 56)), wire::hexOf(bytesOf(log::encodeCertificate(second))));
  EXPECT_EQ(wire::hexOf(file.read(header + 1024, 56)), std::string(112, '0'));
  EXPECT_EQ(wire::hexOf(file.read(header + 4096, segment.length())), wire::hexOf(segment.bytes(0, segment.length())));
}

TEST(FrameFile, TooLittleStorageNamesTheLeast) {
  StoreWorld world(1, 3);
  EXPECT_EQ(world.open(), Status::NoSpace);
  EXPECT_NE(world.failure.find(std::to_string(FrameFile::fileBytes(4, kSegmentBytes))), std::string::npos)
      << world.failure;
}

TEST(FrameFile, OfAnotherSegmentSizeIsRefusedAndLeftAlone) {
  StoreWorld world;
  world.start();
  world.close();
  world.options.segment_bytes *= 2;
  EXPECT_EQ(world.open(), Status::BadConfig);
  EXPECT_NE(world.failure.find(std::to_string(kSegmentBytes)), std::string::npos) << world.failure;
  world.options.segment_bytes /= 2;
  ASSERT_EQ(world.open(), Status::Ok);
  EXPECT_EQ(world.store->formerServer(), ServerId(101));
}

TEST(FrameFile, MarkBytes) {
  StoreWorld world;
  world.start();
  const SegmentMaker segment(kCluster, ServerId(0x0505), SegmentId(3));
  takeFourFrames(world);
  auto written = world.put(ServerId(0x0505), segment, 9, false);
  ASSERT_EQ(world.flush(written), Status::Ok);
  world.losePower();
  world.close();
  FileBytes file(world);
  const auto mark = file.read(8192 + 4 * (4096 + kSegmentBytes) + 1536, 40);
  EXPECT_EQ(wire::hexOf(ByteSpan(mark).first(36)), wire::withoutBlanks("52635368 00000000"  // "RcSh"
                                                                       "0505000000000000"   // master
                                                                       "0300000000000000"   // segment
                                                                       "0900000000000000"   // replica epoch
                                                                       "00000000"));
  EXPECT_EQ(loadAs<uint32_t>(mark.data() + 36), crc32c(ByteSpan(mark).first(36)));
}

TEST(FrameFile, CleanIsNotedInTheSuperblock) {
  StoreWorld world;
  world.start();
  const SegmentMaker segment(kCluster, ServerId(5), SegmentId(3));
  ASSERT_EQ(world.put(ServerId(5), segment, 1, false).status, Status::Ok);
  ASSERT_EQ(world.closeCleanly(), Status::Ok);
  world.close();
  FileBytes file(world);
  EXPECT_EQ(loadAs<Superblock>(file.read(4096, 64).data()).clean, 0u);
  uint64_t headers = 0;
  for (uint32_t frame = 0; frame < 16; ++frame) {
    headers = fingerprint(file.read(FrameFile::fileBytes(frame, kSegmentBytes), 1536 + 40), headers);
  }
  EXPECT_EQ(loadAs<Superblock>(file.read(0, 64).data()).clean, static_cast<uint32_t>(headers));
  EXPECT_EQ(loadAs<Superblock>(file.read(0, 64).data()).server, ServerId(101));
}

TEST(FrameFile, OfAnotherFormatIsRefused) {
  StoreWorld world;
  world.start();
  world.close();
  {
    FileBytes file(world);
    Superblock superblock = loadAs<Superblock>(file.read(0, sizeof(Superblock)).data());
    superblock.format = 1;
    superblock.crc = crc32c(bytesOf(superblock).first(offsetof(Superblock, crc)));
    file.write(0, bytesOf(superblock));
  }
  EXPECT_EQ(world.open(), Status::WrongFormat);
}

TEST(FrameFile, OneDamagedSuperblockIsHealedAndTwoAreRefused) {
  for (const bool both : {false, true}) {
    for (const std::string_view damage : {std::string_view("damaged"), std::string_view("\0\0\0\0\0\0\0\0", 8)}) {
      StoreWorld world;
      world.start();
      const SegmentMaker segment(kCluster, ServerId(5), SegmentId(3));
      ASSERT_EQ(world.put(ServerId(5), segment, 1, true).status, Status::Ok);
      world.close();
      {
        FileBytes file(world);
        file.write(0, asBytes(damage));
        if (both) file.write(4096, asBytes(damage));
      }
      if (both) {
        EXPECT_EQ(world.open(), Status::Corrupt);
        continue;
      }
      world.start();
      EXPECT_EQ(world.load(ServerId(5), SegmentId(3)).status, Status::Ok);
      world.close();
      {
        FileBytes file(world);
        file.write(4096, asBytes(damage));
      }
      ASSERT_EQ(world.open(), Status::Ok) << "begin() has written the other one again";
      EXPECT_EQ(world.store->formerServer(), ServerId(102));
    }
  }
}

TEST(FrameFile, AFirstBeginThatWasCutShortLeavesANewFileOrItsServer) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    StoreWorld world(seed);
    ASSERT_EQ(world.open(), Status::Ok);
    runtime::Task<Status> begin = world.onExecutor([&] { return world.store->begin(ServerId(101), kCluster); });
    for (uint64_t steps = seed % 16; steps > 0; --steps) world.scheduler.step();
    const bool done = begin.isDone() && begin.take() == Status::Ok;
    world.disk.losePower();
    world.runUntil([&] { return begin.isDone(); });
    world.close();
    ASSERT_EQ(world.open(), Status::Ok) << "seed " << seed << ": " << world.failure;
    if (done) EXPECT_EQ(world.store->formerServer(), ServerId(101)) << seed;
    ASSERT_EQ(world.begin(ServerId(102), kCluster), Status::Ok);
    world.close();
    ASSERT_EQ(world.open(), Status::Ok);
    EXPECT_EQ(world.store->formerServer(), ServerId(102));
  }
}

}  // namespace
}  // namespace ramcore::backup
