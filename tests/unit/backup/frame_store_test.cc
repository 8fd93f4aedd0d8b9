#include "backup/frame_store.h"

#include <algorithm>

#include "tests/unit/backup/store_fixture.h"

namespace ramcore::backup {
namespace {

using Flags = wire::WriteReplica;

SegmentMaker makeSegment(uint64_t id, int objects = 4) {
  SegmentMaker segment(kCluster, kMaster, SegmentId(id));
  for (int i = 0; i < objects; ++i) segment.addObject(TableId(1), "key" + std::to_string(i), std::string(100, 'v'));
  return segment;
}

struct FrameStoreTest : testing::Test {
  FrameStoreTest() : FrameStoreTest(16) {}
  explicit FrameStoreTest(uint32_t frame_count) : world(1, frame_count) { world.start(); }

  FrameStore::Written write(const SegmentMaker& segment, uint64_t epoch, uint32_t from, uint32_t to, uint8_t flags = 0,
                            std::optional<log::Certificate> certificate = {}) {
    return world.store->write(StoreWorld::makeWrite(kMaster, segment, epoch, from, to, flags, certificate));
  }
  uint64_t freeFrames() const { return world.store->stats().frames_free.load(); }
  void expectLoaded(const SegmentMaker& segment, uint64_t epoch, uint32_t length, bool closed) {
    const StoreWorld::Loaded loaded = world.load(kMaster, segment.id());
    ASSERT_EQ(loaded.status, Status::Ok);
    EXPECT_EQ(loaded.certificate, segment.certificate(length, epoch, closed));
    EXPECT_TRUE(std::ranges::equal(loaded.bytes, segment.bytes(0, length)));
  }

  StoreWorld world;
};

TEST_F(FrameStoreTest, WritesContinueWhereTheLastEnded) {
  const SegmentMaker segment = makeSegment(3);
  const auto& ends = segment.groupEnds();
  EXPECT_EQ(write(segment, 1, 0, ends[0]).status, Status::NotFound) << "was not opened";
  EXPECT_EQ(write(segment, 1, 0, ends[0], Flags::kOpen, segment.certificate(ends[0], 1, false)).length_bytes, ends[0]);
  EXPECT_EQ(write(segment, 1, ends[1], ends[2]).status, Status::BadRequest) << "a gap";
  EXPECT_EQ(write(segment, 1, ends[0], ends[1]).length_bytes, ends[1]);
  expectLoaded(segment, 1, ends[0], false);
  // Repetitions, in part or whole, are answered; of one that goes further the rest is taken.
  EXPECT_EQ(write(segment, 1, 0, ends[0], Flags::kOpen, segment.certificate(ends[0], 1, false)).length_bytes, ends[1]);
  EXPECT_EQ(write(segment, 1, ends[0], ends[1]).length_bytes, ends[1]);
  EXPECT_EQ(write(segment, 1, ends[0], ends[3], 0, segment.certificate(ends[3], 1, false)).length_bytes, ends[3]);
  expectLoaded(segment, 1, ends[3], false);
  EXPECT_EQ(world.store->stats().bytes_written.load(), ends[3]);
}

TEST_F(FrameStoreTest, PiecesOfAMessageAreJoined) {
  const SegmentMaker segment = makeSegment(3);
  const uint32_t end = segment.length();
  for (uint32_t first = 0; first <= end; first += 40) {
    for (uint32_t present = 0; present < end; present += 56) {
      world.store->free(kMaster, segment.id());
      ASSERT_EQ(write(segment, 1, 0, present, Flags::kOpen).status, Status::Ok);
      ReplicaWrite write = StoreWorld::makeWrite(kMaster, segment, 1, 0, end, 0, segment.certificate(end, 1, false));
      write.first_data = segment.bytes(0, first);
      const uint32_t middle = first + (end - first) / 2;
      const std::array<ByteSpan, 2> rest = {segment.bytes(first, middle), segment.bytes(middle, end)};
      write.more_data = rest;
      ASSERT_EQ(world.store->write(write).length_bytes, end);
      expectLoaded(segment, 1, end, false);
    }
  }
}

TEST_F(FrameStoreTest, CertificatesHaveToFitTheirWrites) {
  const SegmentMaker segment = makeSegment(3);
  const auto& ends = segment.groupEnds();
  const log::Certificate good = segment.certificate(ends[0], 1, false);
  const auto with = [&](auto change) {
    log::Certificate certificate = good;
    change(certificate);
    return write(segment, 1, 0, ends[0], Flags::kOpen, certificate).status;
  };
  EXPECT_EQ(with([](auto& c) { c.cluster = ClusterId(8); }), Status::BadRequest);
  EXPECT_EQ(with([](auto& c) { c.master = ServerId(6); }), Status::BadRequest);
  EXPECT_EQ(with([](auto& c) { c.segment = SegmentId(4); }), Status::BadRequest);
  EXPECT_EQ(with([](auto& c) { c.replica_epoch = 2; }), Status::BadRequest);
  EXPECT_EQ(with([](auto& c) { c.length_bytes += 8; }), Status::BadRequest);
  EXPECT_EQ(with([](auto& c) { c.length_bytes -= 8; }), Status::BadRequest);
  EXPECT_EQ(with([](auto& c) { c.length_bytes = 0; }), Status::BadRequest);
  ReplicaWrite broken = StoreWorld::makeWrite(kMaster, segment, 1, 0, ends[0], Flags::kOpen, good);
  broken.certificate.crc ^= 1;
  EXPECT_EQ(world.store->write(broken).status, Status::BadRequest);
  broken = StoreWorld::makeWrite(kMaster, segment, 1, 0, ends[0], Flags::kOpen, good);
  broken.flags = Flags::kOpen;
  EXPECT_EQ(world.store->write(broken).status, Status::BadRequest) << "a certificate that is not announced";
  broken.flags = 0x80;
  EXPECT_EQ(world.store->write(broken).status, Status::BadRequest);
  EXPECT_EQ(write(segment, 1, 8, ends[0], Flags::kOpen).status, Status::BadRequest) << "opens in the middle";
  broken = StoreWorld::makeWrite(kMaster, segment, 1, 0, ends[0], Flags::kOpen);
  broken.data_bytes = kSegmentBytes + 1;
  EXPECT_EQ(world.store->write(broken).status, Status::BadRequest) << "longer than a segment";
  broken.offset_bytes = UINT32_MAX;
  broken.flags = 0;
  EXPECT_NE(world.store->write(broken).status, Status::Ok);
  EXPECT_EQ(freeFrames(), 16u) << "nothing was taken";
  EXPECT_EQ(world.load(kMaster, segment.id()).status, Status::NotFound);
}

TEST_F(FrameStoreTest, NothingFollowsAClosedCertificate) {
  const SegmentMaker segment = makeSegment(3);
  const auto& ends = segment.groupEnds();
  ASSERT_EQ(write(segment, 1, 0, ends[1], Flags::kOpen).status, Status::Ok);
  EXPECT_EQ(write(segment, 1, ends[1], ends[1], 0, segment.certificate(ends[0], 1, true)).status, Status::BadRequest)
      << "there is more than it closes";
  ASSERT_EQ(write(segment, 1, ends[1], ends[1], 0, segment.certificate(ends[1], 1, true)).status, Status::Ok);
  EXPECT_EQ(write(segment, 1, ends[1], ends[2]).status, Status::BadRequest);
  EXPECT_EQ(write(segment, 1, ends[0], ends[1], 0, segment.certificate(ends[1], 1, true)).status, Status::Ok);
  EXPECT_EQ(write(segment, 1, ends[1], ends[1], 0, segment.certificate(ends[1], 1, false)).status, Status::Ok)
      << "an older one, repeated";
  expectLoaded(segment, 1, ends[1], true);
  EXPECT_EQ(write(segment, 2, ends[1], ends[1], 0, segment.certificate(ends[1], 2, false)).status, Status::BadRequest);
  EXPECT_EQ(write(segment, 2, ends[1], ends[1], 0, segment.certificate(ends[1], 2, true)).status, Status::Ok);
  expectLoaded(segment, 2, ends[1], true);
}

TEST_F(FrameStoreTest, AReplicaIsBroughtToANewerEpochWithAllItsBytesOnly) {
  const SegmentMaker segment = makeSegment(3);
  const auto& ends = segment.groupEnds();
  ASSERT_EQ(write(segment, 2, 0, ends[1], Flags::kOpen, segment.certificate(ends[1], 2, false)).status, Status::Ok);
  EXPECT_EQ(write(segment, 3, ends[1], ends[1], 0, segment.certificate(ends[0], 3, false)).status, Status::BadRequest);
  EXPECT_EQ(write(segment, 3, ends[0], ends[0], 0, segment.certificate(ends[0], 3, false)).status, Status::BadRequest);
  EXPECT_EQ(write(segment, 3, ends[1], ends[2]).status, Status::BadRequest);
  EXPECT_EQ(write(segment, 3, ends[1], ends[1]).status, Status::BadRequest);
  EXPECT_EQ(write(segment, 1, ends[1], ends[2]).status, Status::StaleEpoch);
  EXPECT_EQ(write(segment, 1, 0, ends[2], Flags::kOpen).status, Status::StaleEpoch);
  EXPECT_EQ(write(segment, 3, ends[1], ends[1], 0, segment.certificate(ends[1], 3, false)).status, Status::Ok);
  expectLoaded(segment, 3, ends[1], false);
  EXPECT_EQ(write(segment, 2, ends[1], ends[2]).status, Status::StaleEpoch);
  EXPECT_EQ(write(segment, 3, ends[1], ends[2], 0, segment.certificate(ends[2], 3, false)).status, Status::Ok);
  // More bytes may come with it, as long as the certificate is for everything.
  EXPECT_EQ(write(segment, 4, ends[1], ends[3], 0, segment.certificate(ends[3], 4, false)).status, Status::Ok);
  expectLoaded(segment, 4, ends[3], false);
}

TEST_F(FrameStoreTest, AReplacementGoesOnlyBehindItsFlushedCertificate) {
  for (const bool closed : {false, true}) {
    const SegmentMaker segment = makeSegment(closed ? 3 : 4);
    const auto& ends = segment.groupEnds();
    auto old = world.put(kMaster, segment, 1, closed);
    ASSERT_EQ(world.flush(old), Status::Ok);
    const uint64_t free_before = freeFrames();
    auto first = write(segment, 2, 0, ends[1], Flags::kOpen);
    ASSERT_EQ(first.status, Status::Ok);
    ASSERT_EQ(world.flush(first), Status::Ok);
    expectLoaded(segment, 1, segment.length(), closed);
    auto last = write(segment, 2, ends[1], segment.length(), 0, segment.certificate(segment.length(), 2, closed));
    EXPECT_EQ(freeFrames(), free_before - 1);
    ASSERT_EQ(world.flush(last), Status::Ok);
    EXPECT_EQ(freeFrames(), free_before);
    expectLoaded(segment, 2, segment.length(), closed);
  }
}

TEST_F(FrameStoreTest, AnUnfinishedReplacementIsTakenOverInPlace) {
  const SegmentMaker segment = makeSegment(3);
  const auto& ends = segment.groupEnds();
  world.put(kMaster, segment, 1, true);
  ASSERT_EQ(write(segment, 2, 0, ends[1], Flags::kOpen).status, Status::Ok);
  EXPECT_EQ(write(segment, 3, 0, ends[0], Flags::kOpen).length_bytes, ends[0]) << "from the start again";
  EXPECT_EQ(freeFrames(), 14u);
  expectLoaded(segment, 1, segment.length(), true);
  world.store->free(kMaster, segment.id());
  EXPECT_EQ(freeFrames(), 16u);
  EXPECT_EQ(world.load(kMaster, segment.id()).status, Status::NotFound);
  world.store->free(kMaster, segment.id());
}

struct FewFramesTest : FrameStoreTest {
  FewFramesTest() : FrameStoreTest(8) {}
};

TEST_F(FewFramesTest, SmallHeadsAndSurvivorsHaveFramesThatTheOthersCannotTake) {
  constexpr uint8_t kHead = Flags::kOpen | Flags::kHead;
  constexpr uint8_t kSmallHead = kHead | Flags::kReserve;
  uint64_t id = 0;
  const auto open = [&](uint8_t flags) { return world.put(kMaster, makeSegment(++id), 1, true, flags).status; };
  for (int i = 0; i < 7; ++i) EXPECT_EQ(open(Flags::kOpen), Status::Ok);
  EXPECT_EQ(open(Flags::kOpen), Status::NoSpace);
  EXPECT_EQ(freeFrames(), 1u);
  EXPECT_EQ(open(kHead), Status::NoSpace) << "what is left is for small heads";
  EXPECT_EQ(open(kSmallHead), Status::Ok);
  EXPECT_EQ(open(kSmallHead), Status::NoSpace);
  world.store->freeAll(kMaster);
  EXPECT_EQ(freeFrames(), 8u);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(open(kHead), Status::Ok);
  EXPECT_EQ(open(kHead), Status::NoSpace);
  EXPECT_EQ(open(kSmallHead), Status::Ok);
  EXPECT_EQ(open(kSmallHead), Status::NoSpace) << "the last one is for survivors";
  EXPECT_EQ(open(Flags::kOpen), Status::Ok);
  EXPECT_EQ(freeFrames(), 0u);
  // A frame that comes free fills the shares that are kept first, whatever it held.
  world.store->free(kMaster, SegmentId(12));
  EXPECT_EQ(open(kHead), Status::NoSpace);
  EXPECT_EQ(open(kSmallHead), Status::NoSpace) << "they have theirs";
  EXPECT_EQ(open(Flags::kOpen), Status::Ok);
  world.store->free(kMaster, SegmentId(19));  // the small head
  EXPECT_EQ(open(Flags::kOpen), Status::NoSpace);
  EXPECT_EQ(open(kHead), Status::NoSpace);
  EXPECT_EQ(open(kSmallHead), Status::Ok);
  world.store->free(kMaster, SegmentId(13));
  world.store->free(kMaster, SegmentId(14));
  EXPECT_EQ(open(kHead), Status::Ok) << "what is left beyond both";
  EXPECT_EQ(open(kHead), Status::NoSpace);
  EXPECT_EQ(open(Flags::kOpen | Flags::kReserve), Status::BadRequest) << "only heads are of the reserve";
  EXPECT_EQ(open(Flags::kOpen), Status::Ok);
  // A replacement needs a frame of its own: without one the old replica stays.
  const SegmentMaker segment = makeSegment(id);
  EXPECT_EQ(world.put(kMaster, segment, 2, true).status, Status::NoSpace);
  expectLoaded(segment, 1, segment.length(), true);
}

TEST_F(FrameStoreTest, AFailedFlushCondemnsWhatWasNotFlushed) {
  const SegmentMaker flushed = makeSegment(3);
  const SegmentMaker lost = makeSegment(4);
  auto good = world.put(kMaster, flushed, 1, false);
  ASSERT_EQ(world.flush(good), Status::Ok);
  EXPECT_EQ(good.flushed_bytes, flushed.length());
  auto bad = world.put(kMaster, lost, 1, false);
  world.disk.failFlushes(1);
  EXPECT_EQ(world.flush(bad), Status::IoError);
  EXPECT_TRUE(world.store->isCondemned());
  EXPECT_EQ(world.flush(good), Status::Ok) << "was flushed before";
  EXPECT_EQ(world.put(kMaster, makeSegment(5), 1, false).status, Status::IoError);
  EXPECT_EQ(write(flushed, 1, flushed.length(), flushed.length()).status, Status::IoError);
  expectLoaded(flushed, 1, flushed.length(), false);
  EXPECT_EQ(world.load(kMaster, lost.id()).status, Status::NotFound);
}

TEST_F(FrameStoreTest, AReplicaWhoseTailWasCondemnedIsNotShownWithoutIt) {
  const SegmentMaker segment = makeSegment(3);
  const auto& ends = segment.groupEnds();
  auto good = write(segment, 1, 0, ends[0], Flags::kOpen, segment.certificate(ends[0], 1, false));
  ASSERT_EQ(world.flush(good), Status::Ok);
  auto tail = write(segment, 1, ends[0], ends[1], 0, segment.certificate(ends[1], 1, false));
  world.disk.failFlushes(1);
  EXPECT_EQ(world.flush(tail), Status::IoError);
  EXPECT_EQ(world.load(kMaster, segment.id()).status, Status::NotFound);
}

// A recovery that was shown the whole replica must not read one that is only the beginning of it.
TEST_F(FrameStoreTest, AnOpenReplicaDoesNotStandInForTheLostOneThatTookItsPlace) {
  const SegmentMaker segment = makeSegment(3);
  const auto& ends = segment.groupEnds();
  auto open = write(segment, 1, 0, ends[0], Flags::kOpen, segment.certificate(ends[0], 1, false));
  ASSERT_EQ(world.flush(open), Status::Ok);
  world.restart();
  expectLoaded(segment, 1, ends[0], false);
  auto whole = world.put(kMaster, segment, 2, true);
  ASSERT_EQ(whole.status, Status::Ok);
  expectLoaded(segment, 2, segment.length(), true);
  world.disk.failFlushes(1);
  EXPECT_EQ(world.flush(whole), Status::IoError);
  EXPECT_EQ(world.load(kMaster, segment.id()).status, Status::NotFound);
}

TEST_F(FrameStoreTest, FlippedBitsAreNeverShown) {
  const SegmentMaker segment = makeSegment(3);
  const uint64_t frame = world.put(kMaster, segment, 1, true).frame;
  const uint64_t payload = 8192 + frame * (4096 + kSegmentBytes) + 4096;
  for (uint64_t bit = 0; bit < segment.length() * 8; bit += 41) {
    // The state byte of an entry is in no checksum; replicas hold zero in it, and nobody reads it.
    world.disk.flipBit("frames", payload * 8 + bit);
    world.restart();
    const StoreWorld::Loaded loaded = world.load(kMaster, segment.id());
    if (loaded.status == Status::Ok) {
      size_t differing = 0;
      for (uint32_t i = 0; i < segment.length(); ++i) differing += loaded.bytes[i] != segment.bytes(0, i + 1)[i];
      log::SegmentReader reader(loaded.bytes);
      bool is_state = false;
      for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
        for (const log::EntryView& entry : group) {
          is_state = is_state || static_cast<uint64_t>(entry.address() - loaded.bytes.data()) + 1 == bit / 8;
        }
      }
      EXPECT_TRUE(differing == 1 && is_state) << "bit " << bit;
    } else {
      EXPECT_EQ(loaded.status, Status::NotFound);
      EXPECT_EQ(world.store->stats().corrupt_frames.load(), 1u);
      EXPECT_EQ(world.load(kMaster, segment.id()).status, Status::NotFound) << "is remembered";
    }
    world.disk.flipBit("frames", payload * 8 + bit);
  }
  world.restart();
  expectLoaded(segment, 1, segment.length(), true);
}

TEST_F(FrameStoreTest, AReplicaOfThisLifeCountsWholeOrNotAtAll) {
  const SegmentMaker segment = makeSegment(3);
  const auto& ends = segment.groupEnds();
  write(segment, 1, 0, ends[0], Flags::kOpen, segment.certificate(ends[0], 1, false));
  const uint64_t frame = write(segment, 1, ends[0], ends[1], 0, segment.certificate(ends[1], 1, false)).frame;
  const uint64_t tail = 8192 + frame * (4096 + kSegmentBytes) + 4096 + ends[0] + 30;
  world.disk.flipBit("frames", tail * 8);
  EXPECT_EQ(world.load(kMaster, segment.id()).status, Status::NotFound) << "the shorter one has lost an answer";
}

TEST_F(FrameStoreTest, FormerLivesAreFoundAndReplacedButNotContinued) {
  const SegmentMaker segment = makeSegment(3);
  const auto& ends = segment.groupEnds();
  write(segment, 2, 0, ends[1], Flags::kOpen, segment.certificate(ends[1], 2, false));
  world.restart();
  EXPECT_EQ(world.store->masters(), std::vector<ServerId>{kMaster});
  EXPECT_EQ(world.store->formerSegments(kMaster), std::vector<SegmentId>{segment.id()});
  expectLoaded(segment, 2, ends[1], false);
  EXPECT_EQ(write(segment, 2, ends[1], ends[2]).status, Status::NotFound);
  EXPECT_EQ(write(segment, 1, 0, ends[1], Flags::kOpen).status, Status::StaleEpoch);
  // The same epoch, from the start, in another frame.
  ASSERT_EQ(write(segment, 2, 0, ends[0], Flags::kOpen).status, Status::Ok);
  expectLoaded(segment, 2, ends[1], false);
  auto last = write(segment, 2, ends[0], ends[2], 0, segment.certificate(ends[2], 2, false));
  expectLoaded(segment, 2, ends[2], false);
  EXPECT_EQ(world.store->formerSegments(kMaster), std::vector<SegmentId>{segment.id()});
  ASSERT_EQ(world.flush(last), Status::Ok);
  EXPECT_TRUE(world.store->formerSegments(kMaster).empty());
  EXPECT_EQ(freeFrames(), 15u);
  world.store->freeFormer(kMaster, segment.id());
  expectLoaded(segment, 2, ends[2], false);
  world.restart();
  world.store->freeFormer(kMaster, segment.id());
  EXPECT_EQ(freeFrames(), 16u);
  world.restart();
  EXPECT_TRUE(world.store->masters().empty()) << "freed for good";
}

TEST_F(FrameStoreTest, BelongsToOneCluster) {
  world.close();
  ASSERT_EQ(world.open(), Status::Ok);
  EXPECT_EQ(world.store->cluster(), kCluster);
  EXPECT_EQ(world.begin(ServerId(200), ClusterId(8)), Status::WrongCluster);
  EXPECT_FALSE(world.store->hasBegun());
  EXPECT_EQ(world.store->formerServer(), ServerId(101));
}

TEST_F(FrameStoreTest, FlushesThatAreAskedForTogetherShareOne) {
  std::vector<SegmentMaker> segments;
  std::vector<FrameStore::Written> written;
  const uint64_t before = world.store->stats().flushes.load();
  for (uint64_t id = 1; id <= 8; ++id) {
    segments.push_back(makeSegment(id));
    written.push_back(world.put(kMaster, segments.back(), 1, false));
  }
  std::vector<runtime::Task<Status>> tasks;
  for (auto& one : written) tasks.push_back(world.onExecutor([&] { return world.store->flushed(one); }));
  for (auto& task : tasks) EXPECT_EQ(world.run(std::move(task)), Status::Ok);
  EXPECT_EQ(world.store->stats().flushes.load() - before, 1u);
}

// What comes after a flush was asked for, and before it begins, is flushed with it, and the answer says so.
TEST_F(FrameStoreTest, AFlushSaysHowMuchWasThereWhenItBegan) {
  const SegmentMaker segment = makeSegment(3, 8);
  const auto& ends = segment.groupEnds();
  const auto put = [&](size_t from, size_t to, uint64_t epoch, bool certified = true) {
    std::optional<log::Certificate> certificate;
    if (certified) certificate = segment.certificate(ends[to], epoch, false);
    return write(segment, epoch, from == 0 ? 0 : ends[from], ends[to], from == 0 ? Flags::kOpen : 0, certificate);
  };
  FrameStore::Written first = put(0, 1, 1);
  auto under_way = world.onExecutor([&] { return world.store->flushed(first); });
  world.runUntil([&] { return !world.store->idle(); });
  FrameStore::Written second = put(1, 2, 1);
  auto next = world.onExecutor([&] { return world.store->flushed(second); });
  ASSERT_EQ(put(2, 3, 1).status, Status::Ok);
  EXPECT_EQ(world.run(std::move(under_way)), Status::Ok);
  EXPECT_EQ(first.flushed_bytes, ends[1]);
  EXPECT_EQ(world.run(std::move(next)), Status::Ok);
  EXPECT_EQ(second.flushed_bytes, ends[3]);
  // Bytes without a certificate do not count as flushed, nor do bytes with one of another epoch.
  FrameStore::Written bare = put(3, 4, 1, false);
  EXPECT_EQ(world.flush(bare), Status::Ok);
  EXPECT_EQ(bare.flushed_bytes, ends[3]);
  FrameStore::Written old = put(4, 4, 1);
  auto late = world.onExecutor([&] { return world.store->flushed(old); });
  world.runUntil([&] { return !world.store->idle(); });
  ASSERT_EQ(put(4, 5, 2).status, Status::Ok);
  EXPECT_EQ(world.run(std::move(late)), Status::Ok);
  EXPECT_EQ(old.flushed_bytes, ends[4]);
}

TEST_F(FrameStoreTest, ADiskThatLiesLosesWhatItPromisedAndNothingElseIsShown) {
  uint64_t lost = 0;
  for (uint64_t id = 1; id <= 10; ++id) {
    world.disk.setLying(true);
    const SegmentMaker segment = makeSegment(id);
    auto written = world.put(kMaster, segment, 1, true);
    ASSERT_EQ(world.flush(written), Status::Ok);
    world.disk.losePower();
    world.disk.setLying(false);
    world.restart();
    const StoreWorld::Loaded loaded = world.load(kMaster, segment.id());
    if (loaded.status == Status::NotFound) {
      ++lost;
    } else {
      expectLoaded(segment, 1, segment.length(), true);
    }
  }
  EXPECT_GT(lost, 0u) << "or the disk does not lie";
}

TEST_F(FrameStoreTest, AFrameThatIsReadIsNotUsedAgainBefore) {
  const SegmentMaker segment = makeSegment(3);
  world.put(kMaster, segment, 1, true);
  std::vector<std::byte> bytes;
  runtime::Task<Result<log::Certificate>> load = world.store->load(kMaster, segment.id(), world.reader, bytes);
  EXPECT_FALSE(world.store->idle());
  world.store->free(kMaster, segment.id());
  EXPECT_EQ(freeFrames(), 15u);
  EXPECT_EQ(world.run(std::move(load)).status(), Status::NotFound);
  EXPECT_EQ(freeFrames(), 16u);
}

}  // namespace
}  // namespace ramcore::backup
