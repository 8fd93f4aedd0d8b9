#include "backup/scrubber.h"

#include <gmock/gmock.h>

#include <map>
#include <utility>

#include "tests/unit/backup/store_fixture.h"

namespace ramcore::backup {
namespace {

using runtime::kNanosPerSecond;

constexpr uint64_t kPlentyPerSecond = 1u << 30;

/// Knows who lives, and notes what it is told.
class NotingJudge final : public ReplicaJudge {
 public:
  using Told = std::pair<ServerId, std::pair<SegmentId, uint64_t>>;

  runtime::Task<Standings> standings(std::vector<ServerId> masters) override {
    ++questions;
    Standings judged{.status = reach, .standings = {}, .alive = {}};
    for (const ServerId master : masters) {
      judged.standings.push_back(standing);
      if (standing == Standing::Alive) judged.alive.push_back({.id = master.value, .locators = {}});
    }
    co_return judged;
  }
  runtime::Task<Needed> needed(rpc::PeerAddress, std::vector<SegmentId>) override { co_return Needed{}; }
  runtime::Task<Status> reportLost(rpc::PeerAddress master, std::vector<Lost> lost) override {
    for (const Lost& one : lost) told.push_back({ServerId(master.id), {one.segment, one.replica_epoch}});
    co_return answer;
  }

  Status reach = Status::Ok;
  Standing standing = Standing::Alive;
  Status answer = Status::Ok;
  int questions = 0;
  std::vector<Told> told;
};

class ScrubberTest : public testing::Test {
 protected:
  ScrubberTest() { world.start(); }
  ~ScrubberTest() override { end(); }

  void start(ScrubOptions options = {.bytes_per_second = kPlentyPerSecond, .pass_ns = kNanosPerSecond}) {
    scrubber.emplace(Scrubber::Parts{world.store->checker(), world.executor, world.reader, judge,
                                     static_cast<Trace&>(world.node.trace())},
                     options);
    onExecutor([this] { scrubber->start(); });
  }
  void end() {
    if (!scrubber) return;
    onExecutor([this] { scrubber->stop(); });
    world.runUntil([this] { return scrubber->stopped(); });
    scrubber.reset();
  }
  void onExecutor(const std::function<void()>& what) {
    EXPECT_EQ(world.run(world.onExecutor([&]() -> runtime::Task<Status> {
      what();
      co_return Status::Ok;
    })),
              Status::Ok);
  }
  /// A replica with some objects, flushed; gives its frame.
  uint32_t keep(const SegmentMaker& segment, bool closed = true, uint64_t epoch = 1) {
    auto written = world.put(kMaster, segment, epoch, closed);
    EXPECT_EQ(world.flush(written), Status::Ok);
    return written.frame;
  }
  static SegmentMaker makeSegment(uint64_t id, uint32_t objects = 3) {
    SegmentMaker segment(kCluster, kMaster, SegmentId(id));
    for (uint32_t i = 0; i < objects; ++i) segment.addObject(TableId(1), "key" + std::to_string(i), "value");
    return segment;
  }
  void rot(uint32_t frame, uint32_t byte) {
    world.disk.flipBit("frames", (FrameFile::fileBytes(frame, kSegmentBytes) + kBlockBytes + byte) * 8 + 3);
  }
  void runFor(int64_t ns) { world.scheduler.runUntil(world.scheduler.nowNs() + ns, 10'000'000); }
  uint64_t corrupt() const { return world.store->stats().corrupt_frames.load(); }
  uint64_t checkedBytes() const { return world.store->stats().checked_bytes.load(); }

  StoreWorld world;
  NotingJudge judge;
  std::optional<Scrubber> scrubber;
};

TEST_F(ScrubberTest, SoundReplicasAreReadOnceInEachPass) {
  const SegmentMaker one = makeSegment(1);
  const SegmentMaker two = makeSegment(2, 9);
  keep(one);
  keep(two);
  start();
  runFor(kNanosPerSecond / 2);
  EXPECT_EQ(checkedBytes(), one.length() + two.length());
  runFor(kNanosPerSecond);
  EXPECT_EQ(checkedBytes(), 2 * (one.length() + two.length()));
  EXPECT_EQ(corrupt(), 0u);
  EXPECT_EQ(judge.questions, 0);
}

TEST_F(ScrubberTest, ARottenReplicaIsCountedAndItsMasterToldOnce) {
  const SegmentMaker sound = makeSegment(1);
  const SegmentMaker rotten = makeSegment(2);
  keep(sound);
  const uint32_t frame = keep(rotten, true, 7);
  start();
  runFor(kNanosPerSecond / 2);
  rot(frame, rotten.groupEnds()[1] + 24);
  runFor(kNanosPerSecond);
  EXPECT_EQ(corrupt(), 1u);
  EXPECT_THAT(judge.told, testing::ElementsAre(NotingJudge::Told(kMaster, {SegmentId(2), 7})));
  EXPECT_EQ(world.load(kMaster, SegmentId(2)).status, Status::NotFound);
  EXPECT_EQ(world.load(kMaster, SegmentId(1)).status, Status::Ok);
  runFor(5 * kNanosPerSecond);
  EXPECT_EQ(corrupt(), 1u) << "it is known";
  EXPECT_EQ(judge.told.size(), 1u);

  // The master may have no other server for its new replica than this one.
  const uint64_t free_before = world.store->stats().frames_free.load();
  keep(rotten, true, 8);
  EXPECT_EQ(world.load(kMaster, SegmentId(2)).certificate.replica_epoch, 8u);
  EXPECT_EQ(world.store->stats().frames_free.load(), free_before) << "the rotten one has made place";
  runFor(2 * kNanosPerSecond);
  EXPECT_EQ(corrupt(), 1u);
}

TEST_F(ScrubberTest, EveryByteOfAReplicaIsLookedAt) {
  const SegmentMaker segment = makeSegment(1);
  start({.bytes_per_second = kPlentyPerSecond, .pass_ns = kNanosPerSecond / 10});
  uint64_t epoch = 0;
  for (uint32_t byte = 0; byte < segment.length(); ++byte) {
    const uint64_t before = corrupt();
    rot(keep(segment, true, ++epoch), byte);
    runFor(kNanosPerSecond / 5);
    const auto& ends = segment.groupEnds();
    const bool is_state = byte == 1 || std::find(ends.begin(), ends.end(), byte - 1) != ends.end();
    EXPECT_EQ(corrupt() - before, is_state ? 0u : 1u) << byte;
  }
}

TEST_F(ScrubberTest, EveryBitOfTheCertificateIsLookedAt) {
  const SegmentMaker segment = makeSegment(1);
  start({.bytes_per_second = kPlentyPerSecond, .pass_ns = kNanosPerSecond / 10});
  uint64_t epoch = 0;
  for (uint32_t bit = 0; bit < sizeof(log::CertificateBytes) * 8; ++bit) {
    auto open = world.put(kMaster, segment, ++epoch, false);
    ASSERT_EQ(world.flush(open), Status::Ok);
    const uint32_t frame = open.frame;
    auto closed = world.put(kMaster, segment, epoch, true, 0);
    ASSERT_EQ(closed.frame, frame);
    ASSERT_EQ(world.flush(closed), Status::Ok);
    const uint64_t before = corrupt();
    world.disk.flipBit("frames", (FrameFile::fileBytes(frame, kSegmentBytes) + kSectorBytes) * 8 + bit);
    runFor(kNanosPerSecond / 5);
    EXPECT_EQ(corrupt() - before, 1u) << bit;
  }
}

TEST_F(ScrubberTest, WhatIsOpenNotFlushedOrOfAFormerLifeIsLeftAlone) {
  const SegmentMaker former = makeSegment(1);
  keep(former);
  world.restart();
  keep(makeSegment(2), false);
  start({.bytes_per_second = kPlentyPerSecond, .pass_ns = kNanosPerSecond / 1000});
  world.disk.setFlushTime(kNanosPerSecond, kNanosPerSecond);
  auto closed = world.put(kMaster, makeSegment(3), 1, true);
  ASSERT_EQ(closed.status, Status::Ok);
  runFor(kNanosPerSecond / 2);
  EXPECT_EQ(checkedBytes(), 0u);
  ASSERT_EQ(world.flush(closed), Status::Ok);
  runFor(kNanosPerSecond / 2);
  EXPECT_GT(checkedBytes(), 0u);
}

TEST_F(ScrubberTest, TheRateIsKept) {
  uint64_t all_bytes = 0;
  for (uint64_t id = 1; id <= 8; ++id) {
    const SegmentMaker segment = makeSegment(id, 40);
    keep(segment);
    all_bytes += segment.length();
  }
  const uint64_t each = all_bytes / 8;
  start({.bytes_per_second = each, .pass_ns = kNanosPerSecond});
  for (uint64_t second = 1; second <= 20; ++second) {
    runFor(kNanosPerSecond);
    EXPECT_LE(checkedBytes(), (second + 1) * each);
    EXPECT_GE(checkedBytes(), (second - 1) * each) << "a pass that takes longer than its time is followed by the next";
  }
}

TEST_F(ScrubberTest, WithoutARateNothingIsRead) {
  const SegmentMaker segment = makeSegment(1);
  rot(keep(segment), segment.groupEnds()[0] + 30);
  start({});
  EXPECT_TRUE(scrubber->stopped());
  runFor(48 * 3600 * kNanosPerSecond);
  EXPECT_EQ(checkedBytes(), 0u);
  EXPECT_EQ(corrupt(), 0u);
}

TEST_F(ScrubberTest, AMasterThatCannotBeToldIsToldLater) {
  const SegmentMaker segment = makeSegment(1);
  rot(keep(segment), 30);
  judge.reach = Status::Unreachable;
  start({.bytes_per_second = kPlentyPerSecond, .pass_ns = 3600 * kNanosPerSecond});
  runFor(12 * kNanosPerSecond);
  EXPECT_GE(judge.questions, 2);
  EXPECT_LE(judge.questions, 4);
  judge.reach = Status::Ok;
  judge.standing = Standing::Unknown;
  runFor(10 * kNanosPerSecond);
  EXPECT_TRUE(judge.told.empty());
  judge.standing = Standing::Alive;
  judge.answer = Status::RetryLater;
  runFor(10 * kNanosPerSecond);
  EXPECT_GE(judge.told.size(), 1u);
  judge.answer = Status::Ok;
  runFor(6 * kNanosPerSecond);
  const size_t told = judge.told.size();
  runFor(60 * kNanosPerSecond);
  EXPECT_EQ(judge.told.size(), told) << "it knows";
}

TEST_F(ScrubberTest, NobodyIsToldOfReplicasOfADeadMaster) {
  rot(keep(makeSegment(1)), 30);
  judge.standing = Standing::Needed;
  start({.bytes_per_second = kPlentyPerSecond, .pass_ns = 3600 * kNanosPerSecond});
  runFor(60 * kNanosPerSecond);
  EXPECT_EQ(corrupt(), 1u);
  EXPECT_EQ(judge.questions, 1);
  EXPECT_TRUE(judge.told.empty());
}

TEST_F(ScrubberTest, WhatIsFreedWhileItIsReadIsNoLoss) {
  for (uint64_t steps = 0; steps < 40; ++steps) {
    const SegmentMaker segment = makeSegment(10 + steps);
    rot(keep(segment), 30);
    start();
    for (uint64_t i = 0; i < steps; ++i) world.scheduler.step();
    const uint64_t before = corrupt();
    onExecutor([&] { world.store->free(kMaster, segment.id()); });
    runFor(kNanosPerSecond / 2);
    EXPECT_EQ(corrupt(), before);
    end();
    EXPECT_EQ(world.store->stats().frames_free.load(), world.store->stats().frames_total.load());
  }
}

TEST_F(ScrubberTest, ItEndsAtOnce) {
  for (uint64_t id = 1; id <= 8; ++id) keep(makeSegment(id));
  start({.bytes_per_second = 1, .pass_ns = 3600 * kNanosPerSecond});
  runFor(kNanosPerSecond);
  const int64_t before_ns = world.scheduler.nowNs();
  end();
  EXPECT_LT(world.scheduler.nowNs() - before_ns, kNanosPerSecond);
}

}  // namespace
}  // namespace ramcore::backup
