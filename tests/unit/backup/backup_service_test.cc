/// Which replicas a backup takes, from which servers, and when it frees them.

#include "tests/unit/backup/backup_service_fixture.h"

namespace ramcore::backup::served {
namespace {

TEST_F(BackupServiceTest, WritesAreAnsweredWithWhatIsThereAndWhatIsFlushed) {
  const SegmentMaker segment = makeHead(1, {SegmentId(1)});
  const auto answerOf = [](const NotedCall& call) {
    EXPECT_EQ(call.outcome(), Status::Ok);
    return loadAs<wire::WriteReplica::Response>(call.response.head().data());
  };
  const uint32_t first = segment.groupEnds()[2];
  const auto unflushed =
      answerOf(*send(*master, writeBytes(segment, 1, 0, first, Flags::kOpen | Flags::kHead | Flags::kCertified)));
  EXPECT_EQ(unflushed.length_bytes, first);
  EXPECT_EQ(unflushed.flushed_bytes, 0u);
  const auto flushed =
      answerOf(*send(*master, writeBytes(segment, 1, first, segment.length(), Flags::kCertified | Flags::kFlush), 112));
  EXPECT_EQ(flushed.length_bytes, segment.length());
  EXPECT_EQ(flushed.flushed_bytes, segment.length());
  EXPECT_EQ(backup->store().stats().flushes.load(), 3u) << "two of begin()";
}

TEST_F(BackupServiceTest, PipelinedWritesStayInOrder) {
  SegmentMaker segment = makeHead(1, {SegmentId(1)}, 200);
  std::vector<std::unique_ptr<NotedCall>> calls;
  uint32_t from = 0;
  for (const uint32_t to : segment.groupEnds()) {
    calls.push_back(start(*master, writeBytes(segment, 1, from, to,
                                              (from == 0 ? Flags::kOpen : 0) | Flags::kCertified |
                                                  (calls.size() % 7 == 0 ? Flags::kFlush : 0))));
    from = to;
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(runUntil([&] { return call->ended != 0; }));
    EXPECT_EQ(call->outcome(), Status::Ok);
  }
  const auto answer = fence();
  ASSERT_EQ(answer.replicas_size(), 1);
  EXPECT_EQ(answer.replicas(0).length_bytes(), segment.length());
}

TEST_F(BackupServiceTest, NobodyWritesInAnotherOnesName) {
  const SegmentMaker segment = makeHead(1, {SegmentId(1)});
  const auto bytes = writeBytes(segment, 1, 0, segment.length(), Flags::kOpen | Flags::kCertified);
  EXPECT_EQ(send(*other, bytes)->outcome(), Status::BadRequest);
  EXPECT_EQ(send(*client, bytes)->outcome(), Status::BadRequest);
  EXPECT_EQ(send(*coordinator, bytes)->outcome(), Status::BadRequest);
  ASSERT_EQ(send(*master, bytes)->outcome(), Status::Ok);
  const wire::FreeReplica::Request free{
      .header = header(Opcode::FreeReplica), .master = kMaster, .segment = segment.id()};
  EXPECT_EQ(send(*other, bytesOf(free))->outcome(), Status::BadRequest);
  EXPECT_EQ(send(*client, bytesOf(free))->outcome(), Status::BadRequest);
  control::FenceServerRequest ask;
  ask.set_server(kMasterId);
  EXPECT_EQ(command(*other, Opcode::FenceServer, ask)->outcome(), Status::BadRequest);
  EXPECT_EQ(fence().replicas_size(), 1);
  EXPECT_EQ(send(*client, readBytes(segment.id(), {}))->outcome(), Status::BadRequest);
}

TEST_F(BackupServiceTest, HostileRequestsAreRefused) {
  const SegmentMaker segment = makeHead(1, {SegmentId(1)});
  std::vector<std::byte> good = writeBytes(segment, 1, 0, segment.length(), Flags::kOpen | Flags::kCertified);
  const auto with = [&](size_t at, uint8_t value) {
    std::vector<std::byte> bytes = good;
    bytes[at] = std::byte{value};
    return send(*master, bytes)->outcome();
  };
  EXPECT_EQ(with(offsetof(wire::WriteReplica::Request, reserved), 1), Status::BadRequest);
  EXPECT_EQ(with(offsetof(wire::WriteReplica::Request, flags), 0xff), Status::BadRequest);
  EXPECT_EQ(with(offsetof(wire::WriteReplica::Request, data_bytes) + 3, 0x7f), Status::BadRequest);
  EXPECT_EQ(with(offsetof(wire::WriteReplica::Request, offset_bytes) + 3, 0xff), Status::BadRequest);
  EXPECT_EQ(with(offsetof(wire::WriteReplica::Request, certificate) + 20, 0x55), Status::BadRequest);
  std::vector<std::byte> longer = good;
  longer.push_back({});
  EXPECT_EQ(send(*master, longer)->outcome(), Status::BadRequest);
  EXPECT_EQ(send(*master, ByteSpan(good).first(100))->outcome(), Status::BadRequest);
  EXPECT_EQ(fence().replicas_size(), 0);
  // Reads.
  const Range range{.table = kTable, .hashes = {}, .first_segment = SegmentId(1)};
  auto read_bytes = readBytes(segment.id(), {range});
  EXPECT_EQ(read(read_bytes).status, Status::NotFound);
  EXPECT_EQ(read(ByteSpan(read_bytes).first(60)).status, Status::BadRequest) << "half a range";
  EXPECT_EQ(read(ByteSpan(read_bytes).first(48)).status, Status::BadRequest) << "a range is missing";
  Range bad = range;
  bad.hashes = {.first = 2, .last = 1};
  EXPECT_EQ(read(readBytes(segment.id(), {bad})).status, Status::BadRequest);
  bad = range;
  bad.reserved = 1;
  EXPECT_EQ(read(readBytes(segment.id(), {bad})).status, Status::BadRequest);
  EXPECT_EQ(read(readBytes(segment.id(), std::vector<Range>(1025, range))).status, Status::BadRequest);
  control::FenceServerRequest nobody;
  EXPECT_EQ(command(*coordinator, Opcode::FenceServer, nobody)->outcome(), Status::BadRequest);
}

TEST_F(BackupServiceTest, BeforeBeginEverythingComesBackLater) {
  endBackup();
  startBackup();
  const SegmentMaker segment = makeHead(1, {SegmentId(1)});
  EXPECT_EQ(backup->formerServer(), ServerId(kBackupId + 100));
  EXPECT_EQ(put(segment)->outcome(), Status::RetryLater);
  control::FenceServerRequest ask;
  ask.set_server(kMasterId);
  EXPECT_EQ(command(*coordinator, Opcode::FenceServer, ask)->outcome(), Status::RetryLater);
  begin();
  EXPECT_EQ(put(segment)->outcome(), Status::Ok);
}

TEST_F(BackupServiceTest, ABackupThatStopsTakesNothingMore) {
  const SegmentMaker segment = makeHead(1, {SegmentId(1)});
  ASSERT_EQ(put(segment, false, Flags::kOpen | Flags::kCertified)->outcome(), Status::Ok);
  disk.setFlushTime(runtime::kNanosPerSecond, runtime::kNanosPerSecond);
  process->onDispatch([this] { backup->stop(); });
  EXPECT_EQ(put(makeHead(2, {SegmentId(2)}), false, Flags::kOpen | Flags::kCertified)->outcome(), Status::RetryLater);
  EXPECT_FALSE(backup->stopped()) << "it is being flushed";
  endBackup();
  EXPECT_GE(scheduler.nowNs(), 2 * runtime::kNanosPerSecond);
}

TEST_F(BackupServiceTest, FramesGoWhenTheirMasterIsReleased) {
  ASSERT_EQ(put(makeHead(1, {SegmentId(1)}), true)->outcome(), Status::Ok);
  const auto free_frames = [this] { return backup->store().stats().frames_free.load(); };
  runFor(20 * runtime::kNanosPerSecond);
  EXPECT_EQ(knowing.questions, 0) << "it writes here, so nobody asks";
  fence();
  knowing.standings[kMasterId] = control::STANDING_NEEDED;
  runFor(11 * runtime::kNanosPerSecond);
  EXPECT_GE(knowing.questions, 1);
  EXPECT_EQ(free_frames(), 15u);
  knowing.standings[kMasterId] = control::STANDING_RELEASED;
  runFor(6 * runtime::kNanosPerSecond);
  EXPECT_EQ(free_frames(), 16u);
  EXPECT_EQ(fence().replicas_size(), 0);
  const int questions = knowing.questions;
  runFor(20 * runtime::kNanosPerSecond);
  EXPECT_EQ(knowing.questions, questions) << "nothing is left to ask about";
}

// Such a coordinator may have an older copy of the state, which does not know this master.
TEST_F(BackupServiceTest, WhatACoordinatorThatIsNotObeyedAnswersFreesNothing) {
  ASSERT_EQ(put(makeHead(1, {SegmentId(1)}), true)->outcome(), Status::Ok);
  fence();
  knowing.standings[kMasterId] = control::STANDING_RELEASED;
  knowing.start = 9;
  runFor(20 * runtime::kNanosPerSecond);
  EXPECT_GE(knowing.questions, 2);
  EXPECT_EQ(backup->store().stats().frames_free.load(), 15u);
  knowing.start = 0;
  runFor(11 * runtime::kNanosPerSecond);
  EXPECT_EQ(backup->store().stats().frames_free.load(), 16u);
}

// Not every transport keeps the order of requests, and nobody would free the frame again.
TEST_F(BackupServiceTest, WhatWasFreedBeforeItCameTakesNoFrame) {
  const uint64_t all = backup->store().stats().frames_free.load();
  const auto free = [this](SegmentId segment) {
    const wire::FreeReplica::Request request{
        .header = header(Opcode::FreeReplica), .master = kMaster, .segment = segment};
    EXPECT_EQ(send(*master, bytesOf(request))->outcome(), Status::Ok);
  };
  const SegmentMaker late = makeHead(1, {SegmentId(1)});
  free(late.id());
  EXPECT_EQ(put(late)->outcome(), Status::NotFound);
  const SegmentMaker repeated = makeHead(2, {SegmentId(1), SegmentId(2)});
  EXPECT_EQ(put(repeated)->outcome(), Status::Ok);
  free(repeated.id());
  EXPECT_EQ(put(repeated)->outcome(), Status::NotFound);
  EXPECT_EQ(put(makeHead(3, {SegmentId(3)}))->outcome(), Status::Ok) << "others are none of these";
  EXPECT_EQ(backup->store().stats().frames_free.load(), all - 1);
  // A segment of the same id, but of another master, is another segment.
  wire::WriteReplica::Request request{.header = header(Opcode::WriteReplica),
                                      .master = ServerId(6),
                                      .segment = late.id(),
                                      .replica_epoch = 1,
                                      .offset_bytes = 0,
                                      .data_bytes = 0,
                                      .flags = Flags::kOpen,
                                      .certificate = {}};
  EXPECT_EQ(send(*other, bytesOf(request))->outcome(), Status::Ok);
}

TEST(FreedSegments, TheLastOnesAreRemembered) {
  FreedSegments freed;
  EXPECT_FALSE(freed.contains(SegmentId(1)));
  for (uint64_t id = 1; id <= FreedSegments::kMax + 10; ++id) {
    freed.add(SegmentId(id));
    EXPECT_TRUE(freed.contains(SegmentId(id)));
  }
  for (uint64_t id = 1; id <= FreedSegments::kMax + 10; ++id) {
    EXPECT_EQ(freed.contains(SegmentId(id)), id > 10) << id;
  }
}

TEST_F(BackupServiceTest, AServerThatIsStartedAgainAndAgainDoesNotFillUp) {
  ASSERT_EQ(put(makeHead(1, {SegmentId(1)}), true)->outcome(), Status::Ok);
  knowing.standings[kMasterId] = control::STANDING_RELEASED;
  restart();
  runFor(500 * runtime::kNanosPerMilli);
  EXPECT_TRUE(backup->store().masters().empty()) << "it is asked at once, not when some time has passed";
}

TEST_F(BackupServiceTest, AWriteThatFindsNoFrameHasReleasedOnesFreedSoon) {
  uint64_t id = 0;
  const auto open = [&](RpcProcess& from, ServerId by) {
    const SegmentMaker segment(kCluster, by, SegmentId(++id));
    std::vector<std::byte> bytes = writeBytes(segment, 1, 0, 0, Flags::kOpen);
    auto request = loadAs<wire::WriteReplica::Request>(bytes.data());
    request.master = by;
    storeAs(bytes.data(), request);
    return send(from, bytes)->outcome();
  };
  while (open(*master, kMaster) == Status::Ok) ASSERT_LE(id, 16u);
  runFor(runtime::kNanosPerSecond);
  fence();
  knowing.standings[kMasterId] = control::STANDING_RELEASED;
  ASSERT_EQ(open(*other, ServerId(6)), Status::NoSpace);
  runFor(500 * runtime::kNanosPerMilli);
  EXPECT_EQ(open(*other, ServerId(6)), Status::Ok) << "long before it would have been asked anyway";
}

TEST_F(BackupServiceTest, ALivingMasterSaysWhichReplicasOfFormerLivesItNeeds) {
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_EQ(put(makeHead(id, {SegmentId(id)}), true)->outcome(), Status::Ok);
  restart();
  ASSERT_EQ(put(makeHead(4, {SegmentId(4)}))->outcome(), Status::Ok);
  knowing.standings[kMasterId] = control::STANDING_ALIVE;
  knowing.alive_at[kMasterId] = master->locator().toString();
  knowing.needed = {2};
  runFor(6 * runtime::kNanosPerSecond);
  EXPECT_EQ(knowing.asked_segments, (std::vector<uint64_t>{1, 2, 3})) << "not about those of this life";
  EXPECT_EQ(backup->store().segments(kMaster), (std::vector<SegmentId>{SegmentId(2), SegmentId(4)}));
}

TEST_F(BackupServiceTest, ASilentMasterThatWasReleasedLosesItsFramesWithoutAFence) {
  ASSERT_EQ(put(makeHead(1, {SegmentId(1)}), true)->outcome(), Status::Ok);
  knowing.standings[kMasterId] = control::STANDING_RELEASED;
  runFor(70 * runtime::kNanosPerSecond);
  EXPECT_TRUE(backup->store().masters().empty());
  EXPECT_EQ(put(makeHead(2, {SegmentId(2)}))->outcome(), Status::Fenced);
}

}  // namespace
}  // namespace ramcore::backup::served
