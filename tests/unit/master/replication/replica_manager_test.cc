#include "master/replication/replica_manager.h"

#include <gtest/gtest.h>

#include "unit/master/replication/replica_fixture.h"

namespace ramcore::master {
namespace {

using Mode = ScriptedBackup::Mode;
using Write = wire::WriteReplica;
using ReplicaManagerTest = ReplicaTest;

TEST_F(ReplicaManagerTest, NothingIsDurableBeforeAllReplicasHaveIt) {
  start(3, {1, 2, 3});
  backup(3).mode = Mode::Hold;
  const LogPosition end = put("a");
  EXPECT_FALSE(becomesDurable(end, 100 * kMilli));
  EXPECT_EQ(backup(3).held.size(), 1U);
  backup(3).mode = Mode::Answer;
  backup(3).release();
  EXPECT_TRUE(becomesDurable(end));
  EXPECT_EQ(holders(end), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_TRUE(floors_.asked.empty());
}

// Bytes that were committed meanwhile go with the repeated write, of which the backup has the first part already.
TEST_F(ReplicaManagerTest, AWriteWhoseAnswerIsLostIsRepeatedWithWhatCameSince) {
  start(3, {1, 2, 3});
  backup(3).mode = Mode::Hold;
  put("a");
  ASSERT_TRUE(comesTrue([this] { return backup(3).held.size() == 1; }));
  const LogPosition end = put("b");
  backup(3).mode = Mode::Answer;
  EXPECT_FALSE(becomesDurable(end, 250 * kMilli));
  EXPECT_TRUE(becomesDurable(end, 200 * kMilli));
  EXPECT_EQ(holders(end), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_TRUE(floors_.asked.empty()) << "no replica was lost";
}

// This holds between two attempts, too: sent_bytes is never less than what the replica has.
TEST_F(ReplicaManagerTest, WhatMayHaveArrivedIsKnownToBeSent) {
  start(3, {1, 2, 3});
  const auto sentTo3 = [this] {
    uint32_t sent_bytes = 0;
    server_.onDispatch([&] {
      for (const ReplicaManager::Known& known : manager_->replicas()) {
        if (known.backup == ServerId(3) && known.segment == SegmentId(1)) sent_bytes = known.sent_bytes;
      }
    });
    return sent_bytes;
  };
  backup(3).mode = Mode::Hold;
  const LogPosition end = put("a");
  ASSERT_TRUE(comesTrue([this] { return backup(3).held.size() == 1; }));
  backup(3).mode = Mode::Refuse;
  backup(3).refusal = Status::RetryLater;
  const size_t before = backup(3).writes.size();
  while (backup(3).writes.size() < before + 2) {
    ASSERT_EQ(sentTo3(), end.offset_bytes);
    runFor(kMilli);
  }
}

// The repeated first write of a replica takes no second storage frame.
TEST_F(ReplicaManagerTest, AnOpenWhoseAnswerIsLostIsRepeated) {
  addBackups(3);
  backup(2).mode = Mode::Hold;
  makeManager();
  setMembers({1, 2, 3});
  makeLog();
  ASSERT_TRUE(comesTrue([this] { return !backup(2).held.empty(); }));
  EXPECT_EQ(log_->headId(), SegmentId());
  backup(2).mode = Mode::Answer;
  ASSERT_TRUE(comesTrue([this] { return log_->headId() == SegmentId(1); }));
  EXPECT_TRUE(becomesDurable(put("a")));
  EXPECT_TRUE(floors_.asked.empty());
}

class ReplicaLossTest : public ReplicaTest, public ::testing::WithParamInterface<Status> {};

TEST_P(ReplicaLossTest, AnotherBackupTakesOver) {
  start(4, {1, 2, 3});
  setMembers({1, 2, 3, 4});
  // Corrupt stands for an answer that makes no sense.
  backup(1).mode = GetParam() == Status::Corrupt ? Mode::Lie : Mode::Refuse;
  backup(1).refusal = GetParam();
  const LogPosition end = put("a");
  EXPECT_TRUE(becomesDurable(end));
  const std::vector<uint64_t> others{2, 3, 4};
  EXPECT_EQ(holders(end, 2), others);
  EXPECT_EQ(floors_.stored, (std::vector<ScriptedFloors::Floor>{{end.segment, 2}}));
  EXPECT_EQ(manager_->stats().replicas_lost.load(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Answers, ReplicaLossTest,
                         ::testing::Values(Status::NoSpace, Status::IoError, Status::Corrupt, Status::StaleEpoch,
                                           Status::RetryLater, Status::WrongServerId));

// A server that has just enlisted is a member, and serves under its new id only a little later.
TEST_F(ReplicaManagerTest, AServerThatBeginsIsAskedAgain) {
  addBackups(3);
  backup(2).mode = Mode::Refuse;
  backup(2).refusal = Status::WrongServerId;
  makeManager({.replicas = 3, .min_replicas = 3});
  setMembers({1, 2, 3});
  makeLog();
  runFor(100 * kMilli);
  EXPECT_EQ(log_->headId(), SegmentId());
  backup(2).mode = Mode::Answer;
  EXPECT_TRUE(comesTrue([this] { return log_->headId() == SegmentId(1); }, 50 * kMilli));
  EXPECT_EQ(manager_->stats().replicas_lost.load(), 0U);
}

TEST_F(ReplicaManagerTest, ASilentBackupIsReplaced) {
  start(4, {1, 2, 3});
  setMembers({1, 2, 3, 4});
  network.isolate("backup2");
  const LogPosition end = put("a");
  EXPECT_TRUE(becomesDurable(end));
  EXPECT_EQ(holders(end, 2), (std::vector<uint64_t>{1, 3, 4}));
}

// All replicas that stay and all new ones are certified anew and flushed before the coordinator is asked for the floor,
// and nothing is reported before it has answered.
TEST_F(ReplicaManagerTest, AChangedSetCountsOnlyFromItsFloorOn) {
  start(4, {1, 2, 3});
  const LogPosition before = put("a");
  ASSERT_TRUE(becomesDurable(before));
  floors_.holding = true;
  backup(4).mode = Mode::Hold;
  int flushed_at_ask = 0;
  floors_.on_ask = [&](SegmentId segment, uint64_t epoch) {
    for (const uint64_t id : {1, 2, 4}) {
      const auto& flushed = backup(id).kept[segment].flushed;
      if (flushed && flushed->replica_epoch == epoch && flushed->length_bytes >= before.offset_bytes) ++flushed_at_ask;
    }
  };
  setMembers({1, 2, 4});
  const LogPosition end = put("b");
  ASSERT_TRUE(comesTrue([this] { return !backup(4).held.empty(); }));
  runFor(100 * kMilli);
  EXPECT_TRUE(floors_.asked.empty()) << "the new replica has not answered";
  backup(4).mode = Mode::Answer;
  backup(4).release();
  ASSERT_TRUE(comesTrue([this] { return !floors_.asked.empty(); }));
  EXPECT_EQ(floors_.asked, (std::vector<ScriptedFloors::Floor>{{SegmentId(1), 2}}));
  EXPECT_EQ(flushed_at_ask, 3);
  EXPECT_FALSE(becomesDurable(end, 300 * kMilli)) << "the floor is not stored";
  releaseFloors();
  EXPECT_TRUE(becomesDurable(end));
  EXPECT_EQ(floors_.asked.size(), 1U);
}

// A set that changes while its floor is being stored needs the next one.
TEST_F(ReplicaManagerTest, AFloorThatCameTooLateDoesNotCount) {
  start(5, {1, 2, 3});
  floors_.holding = true;
  setMembers({1, 2, 4});
  const LogPosition end = put("a");
  ASSERT_TRUE(comesTrue([this] { return floors_.asked.size() == 1; }));
  backup(4).mode = Mode::Hold;
  setMembers({2, 4, 5});
  ASSERT_TRUE(comesTrue([this] { return !backup(4).held.empty(); }));
  releaseFloors();
  EXPECT_FALSE(becomesDurable(end, 100 * kMilli));
  backup(4).mode = Mode::Answer;
  backup(4).release();
  EXPECT_TRUE(becomesDurable(end));
  EXPECT_EQ(floors_.stored.back(), ScriptedFloors::Floor(SegmentId(1), 3));
  EXPECT_EQ(holders(end, 3), (std::vector<uint64_t>{2, 4, 5}));
}

TEST_F(ReplicaManagerTest, AFloorIsAskedForUntilItIsStored) {
  start(3, {1, 2, 3});
  floors_.answer = Status::DeadlineExceeded;
  setMembers({1, 2});
  const LogPosition end = put("a");
  EXPECT_FALSE(becomesDurable(end, 200 * kMilli));
  EXPECT_GE(floors_.asked.size(), 2U);
  floors_.answer = Status::Ok;
  EXPECT_TRUE(becomesDurable(end));
}

// The server is declared dead: its replicas get no floor any more.
TEST_F(ReplicaManagerTest, NothingIsReportedAfterTheCoordinatorRefusedAFloor) {
  start(4, {1, 2, 3});
  floors_.answer = Status::Fenced;
  setMembers({1, 2, 4});
  const LogPosition end = put("a");
  EXPECT_FALSE(becomesDurable(end));
  EXPECT_EQ(floors_.asked.size(), 1U);
  EXPECT_EQ(manager_->writeStatus(), Status::Fenced);
}

TEST_F(ReplicaManagerTest, ABackupThatSaysFencedStopsTheWriting) {
  start(4, {1, 2, 3});
  setMembers({1, 2, 3, 4});
  floors_.answer = Status::Fenced;  // the coordinator declared the server dead before the backup heard of that
  backup(1).mode = Mode::Refuse;
  backup(1).refusal = Status::Fenced;
  const LogPosition end = put("a");
  EXPECT_FALSE(becomesDurable(end));
  EXPECT_EQ(manager_->writeStatus(), Status::Fenced);
  setMembers({1, 2, 3});
  EXPECT_EQ(manager_->writeStatus(), Status::Fenced) << "members change nothing about that";
}

// The floor of a head that was opened ahead would hide its predecessor, which may hold what was acknowledged.
TEST_F(ReplicaManagerTest, TheFloorDoesNotPassAHeadThatIsNotClosed) {
  start(4, {1, 2, 3});
  ASSERT_TRUE(becomesDurable(put("a")));
  // The first head is closed on all backups but this one.
  backup(1).mode = Mode::Hold;
  backup(1).only = SegmentId(1);
  server_.onDispatch([this] { log_->requestRoll(); });
  ASSERT_TRUE(comesTrue([this] { return log_->headId() == SegmentId(2) && !backup(1).held.empty(); }));
  const LogPosition end = put("b");
  setMembers({1, 2, 4});
  EXPECT_FALSE(becomesDurable(end, 500 * kMilli));
  EXPECT_TRUE(floors_.asked.empty());
  EXPECT_TRUE(backup(4).holds(SegmentId(2), end.offset_bytes, 2)) << "all that the second one waits for is the first";
  backup(1).mode = Mode::Answer;
  backup(1).release();
  EXPECT_TRUE(becomesDurable(end));
  EXPECT_EQ(floors_.stored, (std::vector<ScriptedFloors::Floor>{{SegmentId(1), 2}, {SegmentId(2), 2}}));
}

TEST_F(ReplicaManagerTest, NothingInANewHeadIsDurableBeforeTheOldOneIsClosedOnAll) {
  start(3, {1, 2, 3});
  backup(2).mode = Mode::Hold;
  backup(2).only = SegmentId(1);
  server_.onDispatch([this] { log_->requestRoll(); });
  ASSERT_TRUE(comesTrue([this] { return log_->headId() == SegmentId(2); }));
  const LogPosition end = put("a");
  EXPECT_FALSE(becomesDurable(end, 100 * kMilli));
  backup(2).mode = Mode::Answer;
  backup(2).release();
  EXPECT_TRUE(becomesDurable(end));
  for (const uint64_t id : {1, 2, 3}) EXPECT_TRUE(backup(id).hasClosed(SegmentId(1)));
}

// Half of a replica must have no certificate: a recovery would take its end for the end of the log.
TEST_F(ReplicaManagerTest, AReplacementIsCertifiedWithItsLastByte) {
  log::LogConfig config;
  config.memory_bytes = 16u << 20;
  config.segment_bytes = 2u << 20;
  config.entry_bytes_max = 128u << 10;
  start(4, {1, 2, 3}, {}, config);
  LogPosition end;
  for (int i = 0; i < 30; ++i) {
    end = put("key" + std::to_string(i), std::string(30'000, 'x'));
    ASSERT_TRUE(becomesDurable(end));
  }
  ASSERT_EQ(end.segment, SegmentId(1));
  setMembers({1, 2, 4});
  ASSERT_TRUE(comesTrue([&] { return backup(4).holds(SegmentId(1), end.offset_bytes, 2); }));
  std::vector<ScriptedBackup::Write> writes;
  for (const auto& write : backup(4).writes) {
    if (write.segment == SegmentId(1)) writes.push_back(write);
  }
  ASSERT_GE(writes.size(), 4U) << "the segment is larger than a write";
  for (size_t i = 0; i < writes.size(); ++i) {
    EXPECT_EQ(writes[i].has(Write::kOpen), i == 0);
    EXPECT_LE(writes[i].bytes, 256U * 1024);
    EXPECT_EQ(writes[i].has(Write::kCertified), i + 1 == writes.size());
  }
  EXPECT_TRUE(writes.back().has(Write::kFlush));
  // The replacement is closed, too, although it is larger than one write.
  roll();
  for (const uint64_t id : {1, 2, 4}) EXPECT_TRUE(backup(id).hasClosed(SegmentId(1)));
}

// The write that takes a replica to a new epoch arrives, but its answer is lost. Before it is repeated the segment has
// grown by more than one write carries: so the repeated write has no certificate, and names the former epoch.
TEST_F(ReplicaManagerTest, ALostAnswerToANewEpochCostsNoReplicaHoweverMuchCameSince) {
  log::LogConfig config;
  config.memory_bytes = 16u << 20;
  config.segment_bytes = 2u << 20;
  config.entry_bytes_max = 128u << 10;
  start(4, {1, 2, 3}, {}, config);
  ASSERT_TRUE(becomesDurable(put("a")));
  backup(2).mode = Mode::Hold;
  setMembers({1, 2, 4});
  ASSERT_TRUE(comesTrue([this] { return backup(2).held.size() == 1; }));
  ASSERT_EQ(backup(2).kept[SegmentId(1)].epoch, 2U);
  LogPosition end;
  for (int i = 0; i < 30; ++i) end = put("key" + std::to_string(i), std::string(30'000, 'x'));
  backup(2).mode = Mode::Answer;
  backup(2).expects_stale = true;
  EXPECT_TRUE(becomesDurable(end));
  EXPECT_EQ(holders(end, 2), (std::vector<uint64_t>{1, 2, 4}));
  EXPECT_EQ(manager_->stats().replicas_lost.load(), 1U) << "of the server that has left";
  EXPECT_GT(backup(2).stale, 0U) << "the case came up";
}

// Survivors and side logs count when they are closed; before that no recovery may find them.
TEST_F(ReplicaManagerTest, APrivateSegmentIsCertifiedWhenItIsClosed) {
  start(3, {1, 2, 3});
  log::Segment* side = nullptr;
  server_.onDispatch([&] { side = log_->privateSegments().open(log::SegmentKind::Side); });
  ASSERT_NE(side, nullptr);
  const SegmentId id = side->id();
  ASSERT_TRUE(comesTrue([&] { return backup(1).kept.contains(id) && backup(3).kept.contains(id); }));
  runFor(100 * kMilli);
  for (const uint64_t number : {1, 2, 3}) EXPECT_FALSE(backup(number).kept[id].certificate);
  backup(2).mode = Mode::Hold;
  server_.onDispatch([&] { log_->privateSegments().close(*side); });
  runFor(100 * kMilli);
  EXPECT_EQ(side->state(), log::SegmentState::Closing);
  backup(2).mode = Mode::Answer;
  backup(2).release();
  ASSERT_TRUE(comesTrue([&] { return side->state() == log::SegmentState::Closed; }));
  for (const uint64_t number : {1, 2, 3}) {
    EXPECT_TRUE(backup(number).hasClosed(id));
    EXPECT_TRUE(backup(number).kept[id].flushed);
  }
}

// The segment's memory may be free by the time the dispatch thread takes the request to open it.
TEST_F(ReplicaManagerTest, APrivateSegmentMayBeDroppedBeforeItIsReplicated) {
  start(3, {1, 2, 3});
  // As the cleaner's thread does it: the dispatch thread has no round in between.
  log::Segment* const side = log_->privateSegments().open(log::SegmentKind::Side);
  ASSERT_NE(side, nullptr);
  const SegmentId id = side->id();
  log_->privateSegments().drop(*side);
  for (int i = 0; i < 4; ++i) {
    rcu_.reclaim(16);
    static_cast<void>(log_->reclaim(0));
  }
  ASSERT_NE(side->id(), id) << "the case came up";
  ASSERT_TRUE(becomesDurable(put("key", "value")));
  EXPECT_TRUE(std::ranges::none_of(manager_->replicas(), [&](const auto& known) { return known.segment == id; }));
  for (const uint64_t number : {1, 2, 3}) EXPECT_FALSE(backup(number).kept.contains(id));
}

}  // namespace
}  // namespace ramcore::master
