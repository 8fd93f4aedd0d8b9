/// Bits that flip in memory between the writing of an entry and its sending: no backup gets a certificate for them.

#include <gtest/gtest.h>

#include "log/side_log.h"
#include "unit/master/replication/replica_fixture.h"

namespace ramcore::master {
namespace {

class ReplicaDamageTest : public ReplicaTest {
 protected:
  void flip(log::EntryRef ref, uint32_t byte) { memory_->at(ref)[byte] ^= std::byte{4}; }
  /// Puts an object and damages it in one step of the dispatch, so that nothing is sent in between.
  LogPosition putDamaged(const std::string& key, uint32_t byte) {
    server_.onDispatch([&] {
      EXPECT_EQ(owner_->put(*log_, key, "12345678"), Status::Ok);
      flip(owner_->refs().at(key), byte);
    });
    return owner_->end();
  }
  uint32_t certifiedBytes(uint64_t id, SegmentId segment) {
    const auto found = backup(id).kept.find(segment);
    if (found == backup(id).kept.end() || !found->second.certificate) return 0;
    EXPECT_TRUE(log::verifyCertificate(*found->second.certificate, found->second.bytes));
    return found->second.certificate->length_bytes;
  }
  void expectStopped(SegmentId segment, uint32_t offset_bytes) {
    ASSERT_TRUE(comesTrue([this] { return !spoilt_.empty(); }, 100 * kMilli)) << "nobody has noticed";
    const std::string place =
        "segment " + std::to_string(segment.value) + ", offset " + std::to_string(offset_bytes) + " ";
    EXPECT_NE(spoilt_[0].find(place), std::string::npos) << spoilt_[0];
    runFor(runtime::kNanosPerSecond);
    EXPECT_EQ(spoilt_.size(), 1U);
    EXPECT_EQ(manager_->writeStatus(), Status::Fenced);
  }
};

class DamagedByteTest : public ReplicaDamageTest, public ::testing::WithParamInterface<uint32_t> {};

TEST_P(DamagedByteTest, OfWhatIsNotSentYetStopsTheServerBeforeABackupHasACertificateForIt) {
  start(3, {1, 2, 3});
  const LogPosition sound = put("a");
  ASSERT_TRUE(becomesDurable(sound));
  const LogPosition end = putDamaged("b", GetParam());
  put("c");
  EXPECT_FALSE(becomesDurable(end, 100 * kMilli));
  expectStopped(sound.segment, sound.offset_bytes);
  for (const uint64_t id : {1, 2, 3}) EXPECT_EQ(certifiedBytes(id, sound.segment), sound.offset_bytes);
  EXPECT_TRUE(log_->durability().isDurable(sound));
}

INSTANTIATE_TEST_SUITE_P(
    Bytes, DamagedByteTest,
    ::testing::Values(0, offsetof(log::EntryHeader, key_bytes), offsetof(log::EntryHeader, key_bytes) + 1,
                      offsetof(log::EntryHeader, payload_bytes), offsetof(log::EntryHeader, payload_bytes) + 2,
                      offsetof(log::EntryHeader, table), offsetof(log::EntryHeader, crc),
                      offsetof(log::EntryHeader, version), log::kEntryHeaderBytes, log::kEntryHeaderBytes + 5));

// The bytes of a flush that a request waits for go with the flush call, not with a write.
TEST_F(ReplicaDamageTest, AFlushDoesNotBringIt) {
  start(3, {1, 2, 3});
  const LogPosition sound = put("a");
  ASSERT_TRUE(becomesFlushed(sound));
  LogPosition end;
  server_.onDispatch([&] {
    EXPECT_EQ(owner_->put(*log_, "b", "12345678"), Status::Ok);
    end = owner_->end();
    flip(owner_->refs().at("b"), log::kEntryHeaderBytes + 3);
    log_->durability().requestFlush(end);
  });
  expectStopped(sound.segment, sound.offset_bytes);
  for (const uint64_t id : {1, 2, 3}) EXPECT_EQ(certifiedBytes(id, sound.segment), sound.offset_bytes);
}

TEST_F(ReplicaDamageTest, ZerosBehindAnEntryAreMended) {
  start(3, {1, 2, 3});
  // The entry has 22 + 1 + 8 bytes, and one byte of zeros behind it, which can be mended.
  const LogPosition end = putDamaged("b", 31);
  EXPECT_TRUE(becomesDurable(end));
  EXPECT_EQ(holders(end), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_TRUE(spoilt_.empty());
  EXPECT_EQ(log_->stats().mended_states.load(), 1U);
  EXPECT_TRUE(log_->view(owner_->refs().at("b")).verify());
}

// The state byte is not sent.
TEST_F(ReplicaDamageTest, TheStateIsNobodysConcern) {
  start(3, {1, 2, 3});
  const LogPosition end = putDamaged("b", offsetof(log::EntryHeader, state));
  EXPECT_TRUE(becomesDurable(end));
  EXPECT_TRUE(spoilt_.empty());
}

// The bytes on the other backups are right, and those that the new one would get are not.
TEST_F(ReplicaDamageTest, AReplicaOfTheOpenHeadThatTakesTheirPlaceIsNotMadeOfIt) {
  start(4, {1, 2, 3});
  put("a");
  const LogPosition end = put("b");
  ASSERT_TRUE(becomesDurable(end));
  const log::EntryRef ref = owner_->refs().at("a");
  const uint32_t offset = log_->pool().segmentOf(ref)->offsetOf(ref);
  flip(ref, log::kEntryHeaderBytes);
  setMembers({1, 2, 4});
  expectStopped(end.segment, offset);
  EXPECT_EQ(certifiedBytes(4, end.segment), 0U);
  for (const uint64_t id : {1, 2}) EXPECT_GE(certifiedBytes(id, end.segment), end.offset_bytes);
}

TEST_F(ReplicaDamageTest, ASideLogIsNotClosedWithIt) {
  start(3, {1, 2, 3});
  log::SideLog side(*log_, *manager_);
  SegmentId segment;
  uint32_t offset = 0;
  server_.onDispatch([&] {
    const ByteSpan payload = asBytes("12345678");
    const log::EntryInput input{
        .table = TableId(1), .version = 1, .key = asBytes("moved"), .payload = std::span(&payload, 1)};
    const auto appended = side.append(std::span(&input, 1), log::AppendClass::Write);
    ASSERT_TRUE(appended.ok());
    segment = appended->end.segment;
    offset = log_->pool().segmentOf(appended->refs[0])->offsetOf(appended->refs[0]);
    flip(appended->refs[0], log::kEntryHeaderBytes + 1);
    side.close();
  });
  expectStopped(segment, offset);
  EXPECT_FALSE(side.isClosed());
  for (const uint64_t id : {1, 2, 3}) EXPECT_EQ(certifiedBytes(id, segment), 0U);
  server_.onDispatch([&] { side.abandon(); });
}

}  // namespace
}  // namespace ramcore::master
