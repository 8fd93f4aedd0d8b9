/// What a backup shows of its replicas: its lists, and the entries that recoveries and masters read.

#include "tests/unit/backup/backup_service_fixture.h"

namespace ramcore::backup::served {
namespace {

// A log whose end is lost needs the members of its newest head.
TEST_F(BackupServiceTest, TheNewestHeadIsListedWithItsMembersAlsoIfItIsClosed) {
  const std::vector<SegmentId> members = {SegmentId(1), SegmentId(2)};
  ASSERT_EQ(put(makeHead(1, {SegmentId(1)}), true)->outcome(), Status::Ok);
  ASSERT_EQ(put(makeHead(2, members), true)->outcome(), Status::Ok);
  const auto answer = fence();
  ASSERT_EQ(answer.replicas_size(), 2);
  EXPECT_EQ(answer.replicas(0).members_size(), 0);
  EXPECT_TRUE(answer.replicas(1).closed());
  EXPECT_EQ(std::vector<uint64_t>(answer.replicas(1).members().begin(), answer.replicas(1).members().end()),
            (std::vector<uint64_t>{1, 2}));
}

TEST_F(BackupServiceTest, AFencedMasterIsRefusedAndItsWholeReplicasAreListed) {
  const std::vector<SegmentId> members = {SegmentId(1), SegmentId(2), SegmentId(4)};
  ASSERT_EQ(put(makeHead(1, {SegmentId(1)}), true)->outcome(), Status::Ok);
  ASSERT_EQ(put(makeHead(4, members))->outcome(), Status::Ok);
  SegmentMaker survivor(kCluster, kMaster, SegmentId(2));
  survivor.addObject(kTable, "key", "value");
  ASSERT_EQ(put(survivor, true)->outcome(), Status::Ok);
  const SegmentMaker uncertified = makeHead(5, {SegmentId(5)});
  ASSERT_EQ(put(uncertified, false, Flags::kOpen)->outcome(), Status::Ok);

  for (int repeated = 0; repeated < 2; ++repeated) {
    const auto answer = fence();
    ASSERT_EQ(answer.replicas_size(), 3);
    EXPECT_EQ(answer.replicas(0).segment(), 1u);
    EXPECT_TRUE(answer.replicas(0).closed());
    EXPECT_TRUE(answer.replicas(0).has_digest());
    EXPECT_EQ(answer.replicas(0).members_size(), 0) << "there is a newer list";
    EXPECT_EQ(answer.replicas(1).segment(), 2u);
    EXPECT_FALSE(answer.replicas(1).has_digest());
    EXPECT_EQ(answer.replicas(2).segment(), 4u);
    EXPECT_FALSE(answer.replicas(2).closed());
    EXPECT_EQ(answer.replicas(2).replica_epoch(), 1u);
    EXPECT_EQ(answer.replicas(2).previous_head(), 2u);
    EXPECT_EQ(answer.replicas(2).length_bytes(), makeHead(4, members).length());
    EXPECT_EQ(std::vector<uint64_t>(answer.replicas(2).members().begin(), answer.replicas(2).members().end()),
              (std::vector<uint64_t>{1, 2, 4}));
  }
  EXPECT_EQ(fences_told, 1) << "the second one was no news";
  EXPECT_EQ(put(makeHead(6, {SegmentId(6)}))->outcome(), Status::Fenced);
  EXPECT_EQ(backup->service().fencedRefusals(), 1u);
  const wire::FreeReplica::Request free{
      .header = header(Opcode::FreeReplica), .master = kMaster, .segment = SegmentId(1)};
  EXPECT_EQ(send(*master, bytesOf(free))->outcome(), Status::Fenced);
}

TEST_F(BackupServiceTest, FencesAtTheSameTimeShareTheWork) {
  for (uint64_t id = 1; id <= 6; ++id) ASSERT_EQ(put(makeHead(id, {SegmentId(id)}), true)->outcome(), Status::Ok);
  control::FenceServerRequest ask;
  ask.set_server(kMasterId);
  const std::string body = ask.SerializeAsString();
  std::vector<std::byte> bytes(sizeof(wire::RequestHeader) + body.size());
  storeAs(bytes.data(), header(Opcode::FenceServer));
  std::ranges::copy(asBytes(body), bytes.begin() + sizeof(wire::RequestHeader));
  std::vector<std::unique_ptr<NotedCall>> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(start(*coordinator, bytes));
  for (const auto& call : calls) {
    ASSERT_TRUE(runUntil([&] { return call->ended != 0; }));
    control::FenceServerResponse answer;
    EXPECT_TRUE(answer.ParseFromString(call->text()));
    EXPECT_EQ(answer.replicas_size(), 6);
  }
}

TEST_F(BackupServiceTest, EntriesOfSomeRangesAreRead) {
  SegmentMaker segment = makeHead(8, {SegmentId(8)}, 100);
  segment.addTombstone(kTable, "key3");
  segment.addResult(kTable, hashKey(kTable, asBytes("key4")));
  segment.addObject(TableId(9), "of another table", "value");
  segment.addObject(kTable, "grouped1", "value", true);
  segment.addObject(kTable, "grouped2", "value");
  ASSERT_EQ(put(segment)->outcome(), Status::Ok);
  const uint64_t middle = uint64_t{1} << 63;
  const Range lower{.table = kTable, .hashes = {.first = 0, .last = middle - 1}, .first_segment = SegmentId(8)};
  const Range upper{.table = kTable, .hashes = {.first = middle}, .first_segment = SegmentId(1)};
  const Range later{.table = kTable, .hashes = {}, .first_segment = SegmentId(9)};
  EXPECT_EQ(read(readBytes(segment.id(), {lower})).status, Status::RetryLater) << "is not fenced";
  fence();
  EXPECT_EQ(read(readBytes(SegmentId(77), {lower})).status, Status::NotFound);

  size_t counts[2] = {0, 0};
  for (const bool is_upper : {false, true}) {
    const Page page = read(readBytes(segment.id(), {is_upper ? upper : lower}));
    ASSERT_EQ(page.status, Status::Ok);
    EXPECT_EQ(page.response.done, 1);
    EXPECT_EQ(page.response.safe_version, 48u);
    for (const log::EntryView& entry : entriesOf(page.entries)) {
      EXPECT_EQ(entry.table(), kTable);
      EXPECT_FALSE(entry.groupContinues());
      const KeyHash hash = entry.type() == log::EntryType::ResultRecord
                               ? entry.payloadAs<log::ResultRecordPayload>().key_hash
                               : hashKey(kTable, entry.key());
      EXPECT_EQ(hash >= middle, is_upper);
      ++counts[is_upper ? 1 : 0];
    }
    EXPECT_EQ(page.response.entry_count, counts[is_upper ? 1 : 0]);
  }
  EXPECT_EQ(counts[0] + counts[1], 104u);
  EXPECT_GT(counts[0], 20u);
  EXPECT_GT(counts[1], 20u);

  const Page nothing = read(readBytes(segment.id(), {later}));
  EXPECT_EQ(nothing.response.entry_count, 0u);
  EXPECT_EQ(nothing.response.done, 1);
  EXPECT_EQ(read(readBytes(segment.id(), {lower, upper, later})).response.entry_count, 104u);
  Range all = lower;
  all.hashes = {};
  EXPECT_EQ(read(readBytes(segment.id(), {lower, all, upper})).response.entry_count, 104u) << "overlapping ones";

  // Page by page, with pages that end inside the group.
  std::string together;
  uint32_t offset = 0;
  size_t pages = 0;
  for (bool done = false; !done; ++pages) {
    const Page page = read(readBytes(segment.id(), {lower, upper}, offset, 200));
    ASSERT_EQ(page.status, Status::Ok);
    ASSERT_TRUE(page.response.done == 1 || page.response.next_offset_bytes > offset);
    ASSERT_LT(page.entries.size(), 400u);
    together += page.entries;
    offset = page.response.next_offset_bytes;
    done = page.response.done == 1;
  }
  EXPECT_GT(pages, 20u);
  EXPECT_EQ(together, read(readBytes(segment.id(), {lower, upper})).entries);
  EXPECT_EQ(offset, segment.length());
  EXPECT_EQ(read(readBytes(segment.id(), {lower}, offset + 8)).status, Status::BadRequest);
  EXPECT_EQ(read(readBytes(segment.id(), {lower}, 3)).status, Status::BadRequest);
}

/// A recovery reads the replica that it has chosen or none, whatever has become of that replica.
TEST_F(BackupServiceTest, NoOtherReplicaThanTheChosenOneIsRead) {
  const SegmentMaker segment = makeHead(1, {SegmentId(1)});
  ASSERT_EQ(put(segment)->outcome(), Status::Ok);
  ASSERT_EQ(fence().replicas_size(), 1);
  const wire::ReplicaVersion chosen = listedVersion(segment.id());
  const auto readVersion = [&](auto&& change) {
    wire::ReplicaVersion version = chosen;
    change(version);
    return read(readBytes(segment.id(), {}, 0, 1 << 20, &version)).status;
  };
  EXPECT_EQ(readVersion([](wire::ReplicaVersion&) {}), Status::Ok);
  EXPECT_EQ(readVersion([](wire::ReplicaVersion& version) { version.length_bytes += 8; }), Status::NotFound);
  EXPECT_EQ(readVersion([](wire::ReplicaVersion& version) { version.length_bytes -= 8; }), Status::NotFound);
  EXPECT_EQ(readVersion([](wire::ReplicaVersion& version) { version.closed = 1; }), Status::NotFound);
  EXPECT_EQ(readVersion([](wire::ReplicaVersion& version) { ++version.epoch; }), Status::NotFound);
  EXPECT_EQ(readVersion([](wire::ReplicaVersion& version) { version.reserved[0] = 1; }), Status::NotFound);
}

/// Otherwise a recovery would choose the lost replica again and again.
TEST_F(BackupServiceTest, WhatIsLostAfterItWasListedIsNotListedAgain) {
  ASSERT_EQ(put(makeHead(1, {SegmentId(1)}), true)->outcome(), Status::Ok);
  ASSERT_EQ(put(makeHead(2, {SegmentId(1), SegmentId(2)}), true)->outcome(), Status::Ok);
  ASSERT_EQ(fence().replicas_size(), 2);
  disk.flipBit("frames", (8192 + 4096 + 200) * 8);  // in the first frame
  ASSERT_EQ(fence().replicas_size(), 2) << "nobody has looked";
  EXPECT_EQ(read(readBytes(SegmentId(2), {})).status, Status::Ok);
  EXPECT_EQ(read(readBytes(SegmentId(1), {})).status, Status::NotFound);
  const auto answer = fence();
  ASSERT_EQ(answer.replicas_size(), 1);
  EXPECT_EQ(answer.replicas(0).segment(), 2u);
}

TEST_F(BackupServiceTest, WhatAFlippedBitHasHitIsNeitherListedNorRead) {
  const SegmentMaker segment = makeHead(1, {SegmentId(1)});
  ASSERT_EQ(put(segment, true)->outcome(), Status::Ok);
  disk.flipBit("frames", (8192 + 4096 + 200) * 8);  // in the first frame
  EXPECT_EQ(fence().replicas_size(), 0);
  EXPECT_EQ(read(readBytes(SegmentId(1), {})).status, Status::NotFound);
  EXPECT_EQ(backup->store().stats().corrupt_frames.load(), 1u);
}

TEST_F(BackupServiceTest, ALivingMasterGetsTheBytesOfItsClosedReplicas) {
  const SegmentMaker closed = makeHead(3, {SegmentId(3)}, 50);
  const SegmentMaker open = makeHead(4, {SegmentId(3), SegmentId(4)}, 5);
  ASSERT_EQ(put(closed, true)->outcome(), Status::Ok);
  ASSERT_EQ(put(open)->outcome(), Status::Ok);
  const auto ask = [this](SegmentId segment, uint32_t offset, uint32_t bytes) {
    return wire::FetchReplica::Request{.header = header(Opcode::FetchReplica),
                                       .master = kMaster,
                                       .segment = segment,
                                       .offset_bytes = offset,
                                       .data_bytes = bytes};
  };
  const auto fetch = [&](RpcProcess& from, const wire::FetchReplica::Request& request) {
    return send(from, bytesOf(request));
  };
  const uint32_t length = closed.length();
  const auto whole = fetch(*master, ask(closed.id(), 200, 1 << 20));
  ASSERT_EQ(whole->outcome(), Status::Ok);
  const std::string body = whole->text();
  EXPECT_EQ(loadAs<uint32_t>(asBytes(body).data()), length);
  EXPECT_TRUE(std::ranges::equal(asBytes(body).subspan(8), closed.bytes(200, length)));
  const auto part = fetch(*master, ask(closed.id(), 200, 300));
  EXPECT_TRUE(std::ranges::equal(asBytes(part->text()).subspan(8), closed.bytes(200, 500)));

  EXPECT_EQ(fetch(*other, ask(closed.id(), 0, 100))->outcome(), Status::BadRequest) << "another one's log";
  EXPECT_EQ(fetch(*master, ask(closed.id(), length, 1))->outcome(), Status::BadRequest);
  EXPECT_EQ(fetch(*master, ask(closed.id(), UINT32_MAX, 1))->outcome(), Status::BadRequest);
  EXPECT_EQ(fetch(*master, ask(closed.id(), 0, 0))->outcome(), Status::BadRequest);
  EXPECT_EQ(fetch(*master, ask(SegmentId(9), 0, 1))->outcome(), Status::NotFound);
  EXPECT_EQ(fetch(*master, ask(open.id(), 0, 1))->outcome(), Status::RetryLater) << "it may end anywhere";
  EXPECT_EQ(fetch(*client, ask(closed.id(), 0, 1))->outcome(), Status::BadRequest) << "a client";
  fence();
  EXPECT_EQ(fetch(*master, ask(closed.id(), 0, 100))->outcome(), Status::Fenced);
}

TEST_F(BackupServiceTest, ReplicasOfFormerLivesServeARecovery) {
  const SegmentMaker segment = makeHead(1, {SegmentId(1)});
  ASSERT_EQ(put(segment, false, Flags::kOpen | Flags::kCertified | Flags::kFlush)->outcome(), Status::Ok);
  endBackup();
  disk.losePower();
  startBackup();
  begin();
  const auto answer = fence();
  ASSERT_EQ(answer.replicas_size(), 1);
  EXPECT_EQ(answer.replicas(0).length_bytes(), segment.length());
  EXPECT_FALSE(answer.replicas(0).maybe_short()) << "the backup had been stopped before";
  EXPECT_EQ(read(readBytes(SegmentId(1), {{.table = kTable, .hashes = {}, .first_segment = {}}})).response.entry_count,
            10u);
}

TEST_F(BackupServiceTest, WhatIsOpenAfterALossOfPowerIsSaidToBeShort) {
  const SegmentMaker open = makeHead(2, {SegmentId(1), SegmentId(2)});
  ASSERT_EQ(put(makeHead(1, {SegmentId(1)}), true, Flags::kOpen | Flags::kCertified | Flags::kFlush)->outcome(),
            Status::Ok);
  ASSERT_EQ(put(open, false, Flags::kOpen | Flags::kCertified | Flags::kFlush)->outcome(), Status::Ok);
  disk.losePower();
  endBackup();
  startBackup();
  begin();
  const auto answer = fence();
  ASSERT_EQ(answer.replicas_size(), 2);
  EXPECT_TRUE(answer.replicas(0).closed());
  EXPECT_FALSE(answer.replicas(0).maybe_short());
  EXPECT_FALSE(answer.replicas(1).closed());
  EXPECT_TRUE(answer.replicas(1).maybe_short());
  EXPECT_EQ(answer.replicas(1).length_bytes(), open.length()) << "it had been flushed";
}

}  // namespace
}  // namespace ramcore::backup::served
