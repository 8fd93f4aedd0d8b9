/// A recovery master: which entries that it reads it leaves out, and what it remembers of them.

#include <gtest/gtest.h>

#include "sim/recovery_fixture.h"

namespace ramcore::sim::raw {
namespace {

/// The head's predecessor is open everywhere, and its replicas differ in length. Nothing behind their common part was
/// acknowledged, and nothing in the head. Entries of the head may depend on entries that one of the replicas lacks.
TEST_F(MasterRecoveryTest, NothingOfAHeadThatIsCutIsReplayed) {
  put(1, "kept");
  const SegmentBytes shorter = copyLog(world.servers[kDead]->master());
  put(2, "in flight");
  die();
  const uint64_t predecessor = log.rbegin()->first;
  const uint64_t head = predecessor + 1;
  ASSERT_LT(shorter.at(predecessor).size(), log.at(predecessor).size());
  const log::EntryView header(log.at(predecessor).data());
  std::vector<std::byte> bytes(header.address(), header.address() + header.alignedBytes());
  const auto append = [&](const log::EntryInput& entry) {
    const size_t at = bytes.size();
    bytes.resize(at + entry.alignedBytes());
    log::writeEntry(bytes.data() + at, entry, false, {});
  };
  const Version safe_version = model.at(keyOf(2)).version + 100;
  const log::SafeVersionPayload safe{.version = safe_version, .expiry_clock_ms = 0};
  const std::array<ByteSpan, 1> safe_payload = {bytesOf(safe)};
  append({.type = log::EntryType::SafeVersion, .table = {}, .version = 0, .key = {}, .payload = safe_payload});
  const auto appendObject = [&](uint64_t number, Version version) {
    const std::string key = keyOf(number);
    const std::string value = "of the head";
    const std::array<ByteSpan, 1> payload = {asBytes(value)};
    append({.type = log::EntryType::Object,
            .table = TableId(kTable),
            .version = version,
            .key = asBytes(key),
            .payload = payload});
  };
  appendObject(1, model.at(keyOf(1)).version + 1);
  appendObject(3, 1);
  log[head] = std::move(bytes);
  addBackup().segments[predecessor] = shorter.at(predecessor);
  addBackup();
  control::RecoverTabletsRequest ask = wholeTable(2);
  for (control::RecoverySegment& segment : *ask.mutable_segments()) segment.set_cut(segment.segment() == head);
  ASSERT_EQ(recover(ask), Status::Ok);
  ASSERT_EQ(pullEnd(5, 1).status(), 0u);
  ASSERT_EQ(take(5, 0, kLast, 2, 1, false), Status::Ok);
  EXPECT_EQ(read(keyOf(1), 2, 1).value, "kept");
  EXPECT_EQ(read(keyOf(3), 2, 1).status, Status::NotFound);
  const Answer next = write(keyOf(4), "new", nextSequence(1), {.client = 1, .epoch = 2, .server = 1});
  EXPECT_GT(next.version, safe_version) << "its safe version counts";
}

/// A tablet leaves, loses keys elsewhere and comes back, and then its owner dies. What its log holds of the time before
/// is in segments that are not of the tablet any more.
TEST_F(MasterRecoveryTest, WhatWasRemovedElsewhereIsNotFoundInTheFormerLog) {
  put(1, "kept");
  put(2, "removed elsewhere");
  ASSERT_NO_FATAL_FAILURE(moveAll(1, 0, kLast, 1, 2, 1, 0));
  const WriteOptions elsewhere{.client = 1, .epoch = 2, .server = 1};
  ASSERT_EQ(remove(keyOf(2), nextSequence(1), elsewhere).status, Status::Ok);
  ASSERT_NO_FATAL_FAILURE(moveAll(1, 0, kLast, 2, 3, 0, 1));
  const SegmentId back = world.servers[0]->master().tablets().get(TabletId(1))->first_segment;
  die();
  addBackup();
  control::RecoverTabletsRequest ask = request();
  addTablet(ask, 5, 0, kLast, 4, back.value);
  ASSERT_EQ(recover(ask), Status::Ok);
  ASSERT_EQ(pullEnd(5, 1).status(), 0u);
  ASSERT_EQ(take(5, 0, kLast, 4, 1, false), Status::Ok);
  EXPECT_EQ(read(keyOf(1), 4, 1).value, "kept");
  EXPECT_EQ(read(keyOf(2), 4, 1).status, Status::NotFound);
}

/// A tombstone is read before what it holds down, and what it says of versions is all that is left of them.
TEST_F(MasterRecoveryTest, WhatIsRemovedStaysThatAndVersionsGoOnAboveIt) {
  for (int i = 0; i < 5; ++i) put(1, "again");
  const Answer removed = remove(keyOf(1), nextSequence(1));
  ASSERT_EQ(removed.status, Status::Ok);
  ASSERT_GT(removed.version, Version{4});
  die();
  addBackup();
  ASSERT_EQ(recoverAll(2), Status::Ok);
  ASSERT_EQ(take(5, 0, kLast, 2, 1, false), Status::Ok);
  EXPECT_EQ(read(keyOf(1), 2, 1).status, Status::NotFound);
  const Answer next = write(keyOf(1), "new", nextSequence(1), {.client = 1, .epoch = 2, .server = 1});
  ASSERT_EQ(next.status, Status::Ok);
  EXPECT_GT(next.version, removed.version);
}

}  // namespace
}  // namespace ramcore::sim::raw
